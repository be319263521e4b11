"""From what was read to what people should know: pure, so that a page can be looked at without a cluster."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from sunk.insight.status.locks import lock_of
from sunk.insight.status.members import Note, ObservedMember, notes
from sunk.insight.status.snapshot import ClusterSnapshot
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key, Metadata, Record
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract.conditions import HELD, LACKING, PROGRESSING, READY
from sunk.model.nodeset import Condition
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NodeSet, NodeSlice
from sunk.objects.slurmclusters import SlurmCluster
from sunk.operator.slurmcluster.rollout.status import Workload

PARTS: Final = ("controller", "accounting", "mysql", "login", "rest")
"""In this order; others come behind."""
OBSERVED: Final = "Observed"
"""Stands where a condition would, if the operator has not acted upon a spec yet."""
GOOD_IF_FALSE: Final = frozenset({PROGRESSING, HELD})


class Concern(Struct, frozen=True, rename="camel"):
    """A condition that is not as it should be."""

    type: str
    reason: str
    message: str
    since: datetime | None = None


class PartView(Struct, frozen=True, rename="camel"):
    """A workload of a cluster; `settled` means that all copies are ready and of the latest making."""

    name: str
    ready: int
    wanted: int
    settled: bool


class MemberView(Struct, frozen=True, rename="camel"):
    """A member that is not plainly well."""

    node: str
    pod: str
    state: str
    notes: tuple[Note, ...]

    @property
    def grave(self) -> bool:
        return any(note.grave for note in self.notes)


class NodeSetView(Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    desired: int
    feasible: int
    current: int
    ready: int
    drained: int
    updated: int
    leaving: int
    locked: int
    """Members whose Node is kept for Slurm now."""
    lock_pending: int
    """Members whose Node other work has to leave first."""
    well: int
    """Members about which there is nothing to say."""
    concerns: tuple[Concern, ...] = ()
    members: tuple[MemberView, ...] = ()
    """The others."""
    deleted: bool = False


class ClusterView(Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    ready: bool
    slurm_version: str
    config_wanted: str
    config_applied: str
    concerns: tuple[Concern, ...]
    parts: tuple[PartView, ...]
    node_sets: tuple[NodeSetView, ...]
    deleted: bool = False


class Overview(Struct, frozen=True, rename="camel"):
    clusters: tuple[ClusterView, ...] = ()
    node_sets: tuple[NodeSetView, ...] = ()
    """Those that belong to no SlurmCluster."""
    nodes_known: bool = True
    """Off if whoever asked may not read Nodes: what is said about members then lacks cordons and lost Nodes."""


class MemberIndex:
    """Who is a member of which NodeSet, and what is there of each."""

    def __init__(self, found: ClusterSnapshot) -> None:
        self._slices: dict[str, list[NodeSlice]] = {}
        for one in found.slices:
            self._slices.setdefault(one.spec.node_set_uid, []).append(one)
        self._pods: dict[Key, Pod] = {pod.key: pod for pod in found.pods}
        self._nodes: dict[str, Node] = {node.metadata.name: node for node in found.nodes or ()}
        self._nodes_known = found.nodes is not None
        self._lock_times = found.lock_times

    def of(self, owner: NodeSet) -> list[ObservedMember]:
        """By name. While an entry moves between slices it stands in both, and is one member."""
        slices = self._slices.get(owner.metadata.uid, [])
        refused = {one.name: one.reason for each in slices for one in each.status.refused}
        entries = {entry.name: entry for each in slices for entry in each.spec.entries}
        return [self._seen(owner, entries[name], refused.get(name, "")) for name in sorted(entries)]

    def _seen(self, owner: NodeSet, entry: Entry, refused: str) -> ObservedMember:
        return ObservedMember(
            entry=entry,
            pod=self._pods.get(Key(owner.metadata.namespace, entry.name)),
            node=self._nodes.get(entry.node),
            node_known=self._nodes_known,
            refused=refused,
            lock_time=self._lock_times.get(entry.node),
        )


def overview(found: ClusterSnapshot) -> Overview:
    members = MemberIndex(found)
    sets = {
        one.metadata.uid: (_cluster_of(one), node_set(one, members.of(one))) for one in sorted(found.sets, key=_key)
    }
    clusters = sorted(found.clusters, key=_key)
    uids = {one.metadata.uid for one in clusters}
    return Overview(
        clusters=tuple(
            cluster(
                one,
                parts=[each for each in found.workloads if _cluster_of(each) == one.metadata.uid],
                sets=[view for owner, view in sets.values() if owner == one.metadata.uid],
            )
            for one in clusters
        ),
        node_sets=tuple(view for owner, view in sets.values() if owner not in uids),
        nodes_known=found.nodes is not None,
    )


def cluster(slurm_cluster: SlurmCluster, *, parts: Iterable[Workload], sets: Iterable[NodeSetView]) -> ClusterView:
    now = slurm_cluster.status
    ready = any(entry.type == READY and entry.status == "True" for entry in now.conditions)
    return ClusterView(
        namespace=slurm_cluster.metadata.namespace,
        name=slurm_cluster.metadata.name,
        ready=ready and now.observed_generation >= slurm_cluster.metadata.generation,
        slurm_version=now.slurm_version,
        config_wanted=now.config_wanted,
        config_applied=now.config_applied,
        concerns=tuple(_concerns(now.conditions, seen=now.observed_generation, meta=slurm_cluster.metadata)),
        parts=tuple(sorted((_part(slurm_cluster, entry) for entry in parts), key=_rank)),
        node_sets=tuple(sets),
        deleted=slurm_cluster.metadata.deletion_timestamp is not None,
    )


def node_set(one: NodeSet, members: Iterable[ObservedMember]) -> NodeSetView:
    now, there = one.status, tuple(members)
    seen = [(each.entry, notes(each)) for each in there]
    locks = [lock_of(each.node, each.pod) for each in there]
    return NodeSetView(
        namespace=one.metadata.namespace,
        name=one.metadata.name,
        desired=now.desired_number_scheduled,
        feasible=now.number_feasible,
        current=now.current_number_scheduled,
        ready=now.number_ready,
        drained=now.number_drain,
        updated=now.updated_number_scheduled,
        leaving=sum(entry.state == "leaving" for entry, _ in seen),
        locked=sum(each.locked for each in locks),
        lock_pending=sum(each.pending for each in locks),
        well=sum(not found for _, found in seen),
        concerns=tuple(_concerns(now.conditions, seen=now.observed_generation, meta=one.metadata)),
        members=tuple(MemberView(entry.node, entry.name, entry.state, found) for entry, found in seen if found),
        deleted=one.metadata.deletion_timestamp is not None,
    )


def _concerns(conditions: Iterable[Condition], *, seen: int, meta: Metadata) -> Iterator[Concern]:
    """Conditions that are not as they should be, each message once."""
    # A deletion counts as a change of the spec too, and nobody acts upon the spec of what is to go.
    if seen < meta.generation and meta.deletion_timestamp is None:
        advice = "the operator has not processed the spec yet: if this lasts, check that it runs"
        yield Concern(OBSERVED, "Waiting", advice)
    bad = [
        condition
        for condition in conditions
        if condition.status != ("False" if condition.type in GOOD_IF_FALSE else "True")
    ]
    told: set[str] = set()
    for condition in bad:
        repeats = condition.type == READY and condition.reason == LACKING and len(bad) > 1
        if not repeats and condition.message not in told:
            told.add(condition.message)
            yield Concern(condition.type, condition.reason, condition.message, condition.last_transition_time)


def _part(owner: SlurmCluster, workload: Workload) -> PartView:
    name = workload.metadata.name.removeprefix(f"{owner.metadata.name}-")
    return PartView(name, ready=workload.status.ready_replicas, wanted=workload.spec.replicas, settled=workload.there)


def _rank(part: PartView) -> tuple[int, str]:
    return (PARTS.index(part.name) if part.name in PARTS else len(PARTS), part.name)


def _cluster_of(record: Record) -> str:
    """The uid of the SlurmCluster that controls an object; empty if none does."""
    owners = (
        reference
        for reference in record.metadata.owner_references
        if reference.controller and reference.kind == SLURMCLUSTER.name
    )
    return next((reference.uid for reference in owners), "")


def _key(record: Record) -> Key:
    return record.key
