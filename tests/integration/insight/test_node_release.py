"""`sunk node release` on a real API server: what goes, what stays, and when it is refused."""

import asyncio
import secrets
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import field
from tests import crds
from tests.conftest import Kube

from sunk.kube.api.client import Deletion
from sunk.kube.api.patch import Strategic
from sunk.kube.core import NODES, PODS, Node
from sunk.kube.resource import Record, Resource
from sunk.model import names

PATIENCE = 120.0
LOCK = {"key": names.LOCK, "value": "true", "effect": "NoExecute"}
OTHER = {"key": "example.com/other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
NOTES = {names.LOCK: "locked", names.LOCK_NUMBER: "7", names.LOCK_OWNER: "gone", names.CLAIM: "no-such-set"}


class Whole(Record, frozen=True, gc=False):
    spec: dict[str, Any] = field(default_factory=dict)


WHOLE = Resource(Whole, version="v1", plural="nodes", namespaced=False)


@pytest.fixture
async def node(kube: Kube) -> AsyncIterator[str]:
    """A locked Node that nobody looks after any more."""
    await crds.install(kube.cluster)
    name = f"left-{secrets.token_hex(4)}"
    owner = {names.NODESET: "gpu", names.NAMESPACE: kube.namespace, names.POD: f"{name}-pod"}
    notes = NOTES | {names.KEPT_DRAIN: f"{kube.namespace}/slurm:bad fan"}
    metadata = {"name": name, "labels": owner | {names.LOCK: "locked", "fleet": name}, "annotations": notes}
    await kube.client.create(NODES, {"metadata": metadata, "spec": {"taints": [OTHER, LOCK]}})
    conditions = [{"type": kind, "status": "False"} for kind in (names.SLURM_DRAIN, "Ready")]
    await kube.client.patch(NODES, name, Strategic({"status": {"conditions": conditions}}), subresource="status")
    yield name
    await kube.client.delete(NODES, name)


async def release(kube: Kube, *words: str) -> tuple[int, str]:
    program = str(Path(sys.executable).with_name("sunk"))
    where = ("--kubeconfig", str(kube.kubeconfig))
    made = await asyncio.create_subprocess_exec(program, "node", "release", *words, *where, stdout=PIPE, stderr=PIPE)
    async with asyncio.timeout(PATIENCE):
        out, told = await made.communicate()
    assert made.returncode is not None
    return made.returncode, f"{out.decode()}{told.decode()}"


async def taints(kube: Kube, node: str) -> list[dict[str, Any]]:
    found = (await kube.client.get(WHOLE, node)).spec.get("taints", [])
    return [taint for taint in found if not taint["key"].startswith("node.kubernetes.io/")]


async def read(kube: Kube, node: str) -> Node:
    return await kube.client.get(NODES, node)


def marks(node: Node) -> tuple[dict[str, str], dict[str, str]]:
    """Its annotations and labels. Kubernetes writes to a new Node too: its `ttl`, for one."""
    both = node.metadata.annotations, node.metadata.labels
    annotations, labels = ({k: v for k, v in each.items() if not _is_kubernetes(k)} for each in both)
    return annotations, labels


def _is_kubernetes(key: str) -> bool:
    return key.partition("/")[0].endswith("kubernetes.io")


async def busy_pod(kube: Kube, node: str) -> None:
    """A compute Pod on the Node whose Slurm node runs a job."""
    labels = {names.COMPONENT: names.COMPUTE}
    spec = {"nodeName": node, "containers": [{"name": names.SLURMD, "image": "none"}]}
    body = {"metadata": {"name": f"{node}-pod", "labels": labels}, "spec": spec}
    await kube.client.create(PODS, body, namespace=kube.namespace)
    told = {"conditions": [{"type": names.SLURM_RUNNING, "status": "True"}]}
    patch = Strategic({"status": told})
    await kube.client.patch(PODS, f"{node}-pod", patch, namespace=kube.namespace, subresource="status")


async def test_the_lock_goes_and_all_else_stays(kube: Kube, node: str) -> None:
    code, said = await release(kube, node)
    assert code == 0, said
    assert "1 Node released" in said
    assert await taints(kube, node) == [OTHER]
    found = await read(kube, node)
    assert not {names.LOCK, names.LOCK_NUMBER, names.LOCK_OWNER} & found.metadata.annotations.keys()
    assert names.LOCK not in found.metadata.labels
    assert found.metadata.annotations[names.CLAIM] == "no-such-set"
    code, said = await release(kube, node)
    assert (code, "nothing to release" in said) == (0, True), "it can be repeated"


async def test_with_all_marks_only_a_persons_drain_stays(kube: Kube, node: str) -> None:
    code, said = await release(kube, "-l", f"fleet={node}", "--all-marks")
    assert code == 0, said
    found = await read(kube, node)
    ours = [key for key in (*found.metadata.annotations, *found.metadata.labels) if key.startswith(names.GROUP)]
    assert ours == [names.KEPT_DRAIN]
    assert [each.type for each in found.status.conditions if each.type.startswith("Slurm")] == []
    assert "Ready" in {each.type for each in found.status.conditions}
    assert await taints(kube, node) == [OTHER]


async def test_a_dry_run_writes_nothing(kube: Kube, node: str) -> None:
    before = await read(kube, node)
    code, said = await release(kube, node, "--all-marks", "--dry-run")
    assert code == 0, said
    assert f"would take off taint {names.LOCK}=true:NoExecute" in said
    assert marks(await read(kube, node)) == marks(before)
    assert LOCK in await taints(kube, node)


async def test_a_node_that_runs_a_job_is_released_only_by_force(kube: Kube, node: str) -> None:
    await busy_pod(kube, node)
    code, said = await release(kube, f"{node}-pod")
    assert code == 1, said
    assert f"Slurm node {node}-pod runs a job" in said
    assert LOCK in await taints(kube, node)
    code, said = await release(kube, node, "--force")
    assert code == 0, said
    assert await taints(kube, node) == [OTHER]
    await kube.client.delete(PODS, f"{node}-pod", Deletion(grace_period_seconds=0), namespace=kube.namespace)


async def test_a_name_that_nobody_has_is_refused(kube: Kube) -> None:
    code, said = await release(kube, "no-such-node")
    assert code == 2
    assert "neither a Node nor a Slurm node" in said
