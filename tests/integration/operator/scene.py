"""What tests of the Node and the Pod controller do and ask. The syncer's hand is the test's own."""

from functools import partial
from typing import Any, Final

from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, Stage, eventually

from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.core import NODES, PODS, Condition, Node, Pod, condition
from sunk.model import names
from sunk.operator.node.controller import nodes
from sunk.operator.node.plan import OURS
from sunk.operator.nodeset.controller import nodesets
from sunk.operator.pod.controller import pods
from sunk.service.part import Build

ALL: Final[tuple[Build, ...]] = (pods, nodesets, nodes)
BESIDE: Final[tuple[Build, ...]] = (nodes, pods)
"""Without the NodeSet controller, which would recreate missing Pods and claims."""
POD: Final = "gpu-000-001"
"""On the first Node of a stage."""


def whole(kube: Kube, **more: Any) -> Operator:
    return Operator(kube, **({"builds": ALL} | more))


def with_reason_in(key: str) -> tuple[Build, ...]:
    return partial(pods, cordon_reason=key), partial(nodesets, cordon_reason=key), nodes


async def says(stage: Stage, said: Condition, pod: str = POD) -> None:
    """Say something of a Slurm node, as the syncer does."""
    told = {"type": said.type, "status": said.status, "reason": said.reason, "message": said.message}
    patch = Strategic({"status": {"conditions": [told]}})
    await stage.client.patch(PODS, pod, patch, namespace=stage.namespace, subresource="status")


async def drain(stage: Stage, reason: str, pod: str = POD) -> None:
    """Have a person drain the node."""
    await says(stage, Condition(names.SLURM_DRAIN, "True", names.FROM_SLURM, reason), pod)


async def drain_by_us(stage: Stage, reason: str, pod: str = POD) -> None:
    await says(stage, Condition(names.SLURM_DRAIN, "True", names.FROM_KUBERNETES, reason), pod)


async def undrain(stage: Stage, pod: str = POD) -> None:
    await says(stage, Condition(names.SLURM_DRAIN, "False", names.NOT_DRAINED), pod)


async def give_reason(stage: Stage, node: str, text: str | None, *, key: str = names.CORDON_REASON) -> None:
    await stage.client.patch(NODES, node, Merge({"metadata": {"annotations": {key: text}}}))


# What is seen


async def pod_carries(stage: Stage, mark: str, value: str | None, pod: str = POD) -> Pod:
    """Wait until an annotation of a Pod is this."""
    return await eventually(
        lambda: stage.running(pod), lambda found: found.metadata.annotations.get(mark, None) == value
    )


async def node_carries(stage: Stage, mark: str, value: str | None, node: str = "") -> Node:
    return await eventually(
        lambda: stage.node(node or stage.nodes[0]),
        lambda found: found.metadata.annotations.get(mark, None) == value,
    )


async def node_says(stage: Stage, kind: str, status: str, reason: str | None = None, *, node: str = "") -> Condition:
    """Wait until a condition of a Node is this; by default of the first one."""

    def holds(found: Node) -> bool:
        one = condition(found.status.conditions, kind)
        return one is not None and one.status == status and reason in {None, one.reason}

    told = condition((await eventually(lambda: stage.node(node or stage.nodes[0]), holds)).status.conditions, kind)
    assert told is not None
    return told


def left_behind(node: Node) -> list[str]:
    """Everything of ours on a Node."""
    marks = [mark for mark in (*node.metadata.labels, *node.metadata.annotations) if mark.startswith(names.GROUP)]
    return marks + [one.type for one in node.status.conditions if one.type in OURS]


async def clean(stage: Stage, *but: str, node: str = "") -> Node:
    """Wait until nothing of ours is on a Node, but for these."""
    name = node or stage.nodes[0]
    return await eventually(lambda: stage.node(name), lambda found: left_behind(found) == list(but))


async def joined(stage: Stage, *pods: str) -> None:
    """Have Slurm say of its nodes that all is well, and wait until their Nodes say so."""
    for pod in pods or (POD,):
        await undrain(stage, pod)
        node = (await stage.running(pod)).spec.node_name
        await node_says(stage, names.SLURM_DRAIN, "False", node=node)
