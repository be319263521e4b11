"""What the pure rules say when all is calm, laid beside what both sides show."""

from collections.abc import Iterator

from msgspec import Struct
from tests.integration.syncer.history.persons import Persons
from tests.integration.syncer.seen import Seen
from tests.integration.syncer.stage import Stage

from sunk.kube.api.client import Scope
from sunk.kube.core import NODES, Condition, Node, condition
from sunk.model import names
from sunk.model.contract import drains, keptdrains
from sunk.model.contract.drains import Causes
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet
from sunk.syncer.pods import (
    COMPUTE_PODS,
    ComputePod,
    ComputePodCondition as PodCondition,
    condition as told_by,
    finished,
    ready,
    terminating,
)

OURS = "k8s:"
CARRIED = (names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_NOT_RESPONDING)
LABELS = dict(zip(CARRIED, (names.DRAIN, names.RUNNING, names.NOT_RESPONDING), strict=True))


class Look(Struct, frozen=True):
    """Everything, as it was read in one go."""

    nodeset: NodeSet
    entries: dict[str, Entry]
    pods: dict[str, ComputePod]
    nodes: dict[str, Node]
    seen: dict[str, Seen]
    """By name, of those that Slurm knows."""


class Outcome:
    def __init__(self, stage: Stage, nodeset: str, *, persons: Persons, machines: tuple[str, ...]) -> None:
        self._stage = stage
        self._name = nodeset
        self._persons = persons
        self._machines = machines
        """Nodes that may be members."""

    async def wrong(self) -> list[str]:
        """Everything that is not as it should be."""
        look = await self._look()
        found = [*_company(look, self._machines)]
        for name in sorted(look.entries.keys() & look.pods.keys() & look.seen.keys()):
            pod, seen, node = look.pods[name], look.seen[name], look.nodes[look.entries[name].node]
            found += self._persons.wrong(name, seen)
            found += _drain(name, seen, _causes(look, name))
            found += _slurm_side(look, name)
            found += _told(pod, seen)
            found += _carried(node, pod, seen)
        members = {entry.node for entry in look.entries.values()}
        free = [one for name, one in look.nodes.items() if name not in members]
        return found + [
            f"{one.metadata.name} is nobody's and carries {marks}" for one in free if (marks := _marks(one))
        ]

    async def members(self) -> list[str]:
        slices = (await self._stage.client.list(NODESLICES, Scope(namespace=self._stage.namespace))).items
        return [entry.name for one in slices for entry in one.spec.entries]

    async def _look(self) -> Look:
        client, where = self._stage.client, self._stage.namespace
        slices = (await client.list(NODESLICES, Scope(namespace=where))).items
        entries = {entry.name: entry for one in slices for entry in one.spec.entries}
        pods = {pod.metadata.name: pod for pod in (await client.list(COMPUTE_PODS, Scope(namespace=where))).items}
        known = {name for name in await self._known() if name}
        return Look(
            nodeset=await client.get(NODESETS, self._name, namespace=where),
            entries=entries,
            pods=pods,
            nodes={name: await client.get(NODES, name) for name in self._machines},
            seen={name: await self._stage.seen(name) for name in known},
        )

    async def _known(self) -> list[str]:
        text = await self._stage.scontrol("show", "nodes", "--oneliner")
        lines = [line for line in text.splitlines() if line.startswith("NodeName=")]
        return [line.split()[0].removeprefix("NodeName=") for line in lines]


def _company(look: Look, machines: tuple[str, ...]) -> Iterator[str]:
    """Members, Pods and records are the same, and as many as there can be."""
    members = look.entries.keys()
    if not members == look.pods.keys() == look.seen.keys():
        yield f"members {[*members]}, Pods {[*look.pods]}, records {[*look.seen]}"
    for name, entry in look.entries.items():
        if entry.state != "joined":
            yield f"{name} is {entry.state}"
    for name, pod in look.pods.items():
        if not ready(pod) or terminating(pod) or names.PENDING_DELETION in pod.metadata.annotations:
            yield f"Pod {name} is not as it should be: {pod.metadata.annotations}"
    fit = [look.nodes[name] for name in machines if look.nodes[name].metadata.labels.get("pool") == "one"]
    inside = {entry.node for entry in look.entries.values()}
    free = [node for node in fit if node.metadata.name not in inside and not node.spec.unschedulable]
    if misfits := inside - {node.metadata.name for node in fit}:
        yield f"members that do not fit: {misfits}"
    wanted = len(machines) if look.nodeset.spec.replicas is None else look.nodeset.spec.replicas
    if len(inside) > wanted or (free and len(inside) < wanted):
        yield f"{len(inside)} members of {wanted} wanted, {len(free)} Nodes are free"


def _causes(look: Look, name: str) -> Causes:
    pod, node = look.pods[name], look.nodes[look.entries[name].node]
    gone = terminating(pod) or finished(pod)
    said = node.metadata.annotations.get(names.CORDON_REASON, "")
    return Causes(
        terminated=gone,
        pending_deletion=look.entries[name].state == "leaving" or names.PENDING_DELETION in pod.metadata.annotations,
        not_ready=not gone and not ready(pod),
        cordon=said if node.spec.unschedulable else None,
    )


def _drain(name: str, seen: Seen, causes: Causes) -> Iterator[str]:
    if seen.drained and not seen.reason.startswith(OURS):
        return  # persons judge it
    wanted = drains.text(causes)
    found = seen.reason if seen.drained else None
    if found != wanted:
        yield f'{name}: the drain in Slurm is "{found}", and should be "{wanted}"'


def _slurm_side(look: Look, name: str) -> Iterator[str]:
    """What else Slurm has to know: that it is in service, its features, and our key of the extra."""
    seen, pod = look.seen[name], look.pods[name]
    if "IDLE" not in seen.states or seen.states - {"IDLE", "DRAIN", "DYNAMIC_NORM"}:
        yield f"{name} is {sorted(seen.states)}"
    features = set(look.nodeset.spec.features.static_features)
    if set(seen.features) != features:
        yield f"{name} has the features {seen.features}, and should have {sorted(features)}"
    ours = {"node": look.entries[name].node, "pod": name, "nodeset": look.nodeset.metadata.name}
    told = told_by(pod, names.HPC_VERIFICATION)
    said = {"Ready": "True"} | ({} if told is None else {told.type: told.status})
    if seen.ours != ours | {"conditions": said}:
        yield f"{name} has the extra {seen.extra}, and should have {ours} with {said}"


def _told(pod: ComputePod, seen: Seen) -> Iterator[str]:
    """The Pod says what Slurm says."""
    name = pod.metadata.name
    wanted = {names.SLURM_DRAIN: seen.drained, names.SLURM_RUNNING: False, names.SLURM_NOT_RESPONDING: False}
    for kind, is_so in wanted.items():
        told = told_by(pod, kind)
        label = pod.metadata.labels.get(LABELS[kind])
        if told is None or told.status != str(is_so) or label != str(is_so).lower():
            yield f"Pod {name} says {told}, label {label}, and Slurm {seen}"
    drain = told_by(pod, names.SLURM_DRAIN)
    if seen.drained and drain is not None:
        whose = names.FROM_KUBERNETES if seen.reason.startswith(OURS) else names.FROM_SLURM
        if (drain.reason, drain.message) != (whose, seen.reason):
            yield f"Pod {name} says {drain}, and Slurm {seen}"
    if (pod.metadata.labels.get(names.EVICTABLE) == "true") is not seen.drained:
        yield f"Pod {name} may be evicted: {pod.metadata.labels.get(names.EVICTABLE)}, and Slurm says {seen}"


def _carried(node: Node, pod: ComputePod, seen: Seen) -> Iterator[str]:
    """The Node says what its Pod says, and calls cordoned what a person has drained."""
    name = node.metadata.name
    for kind in CARRIED:
        told, shown = _status(told_by(pod, kind)), _status(condition(node.status.conditions, kind))
        if told != shown:
            yield f"Node {name} says {kind}={shown}, and its Pod {told}"
    foreign = seen.drained and not seen.reason.startswith(OURS)
    if _status(condition(node.status.conditions, names.SLURM_CORDON)) != str(foreign):
        yield f"Node {name} says SlurmCordon={not foreign}, and Slurm {seen}"
    words = keptdrains.line if foreign else keptdrains.one_line
    if node.metadata.annotations.get(names.DRAIN) != (words(seen.reason) if seen.drained else None):
        yield f"Node {name} says the drain is {node.metadata.annotations.get(names.DRAIN)}, and Slurm {seen}"


def _status(found: Condition | PodCondition | None) -> str:
    return "" if found is None else found.status


def _marks(node: Node) -> list[str]:
    """Everything of ours, but for what is kept for the next time."""
    marks = [*node.metadata.labels, *node.metadata.annotations]
    ours = [mark for mark in marks if mark.startswith(names.GROUP) and mark != names.KEPT_DRAIN]
    return ours + [one.type for one in node.status.conditions if one.type in (*CARRIED, names.SLURM_CORDON)]
