"""Records of Slurm that were ours and belong to nobody any more.

A member that leaves takes its record along (`release`). One may be left over all the same: a slice was deleted by hand,
or a slurmd registered once more when its record was gone already. Such a record would wait for its slurmd for ever.

Absence is a weak sign. Slices may be missing for a moment, as after a restored backup; so it counts only while all that
the NodeSets say of their slices is there, for a minute, and only for records that carry our mark in `Extra`: what a
person has made by hand is none of ours. A slurmd that registered too late has no mark, since nobody writes to a node of
no slice. It is known by the address that its record had when we deleted it, and given up only once slurmctld has lost it.
And if many are without a slice at once, that is somebody's mistake until they say otherwise, and none is touched.

Nor is one touched that a person has drained, since the drain and its reason would go with the record. Nobody else lifts
it, so the report says so.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from sunk.model import loopclock
from sunk.model.contract import drains
from sunk.model.contract.report import Report
from sunk.model.wording import counted, verb
from sunk.objects.nodesets import NodeSet, NodeSlice
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Context
from sunk.syncer.drains.extra import marked
from sunk.syncer.members import Members
from sunk.syncer.removal.blockers import drain_blocker
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.unregistered import is_not_responding
from sunk.syncer.work import PeriodicWork

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
FEW: Final = 3
SHARE: Final = 0.2
_SHOWN: Final = 3
_TOO_MANY: Final = "That is too many to delete automatically. If you do not need them, delete them with scontrol"


def incomplete(sets: Iterable[NodeSet], slices: Iterable[NodeSlice], *, cluster: str) -> str:
    """Why the slices that are there may not be all of them; empty if they are."""
    owners = {node_set.metadata.uid: node_set for node_set in sets if node_set.spec.cluster == cluster}
    if not owners:
        return "this cluster has no NodeSet"
    entries: dict[str, set[str]] = {uid: set() for uid in owners}
    for node_slice in slices:
        if node_slice.spec.cluster != cluster:
            continue
        if node_slice.spec.node_set_uid not in entries:
            return f"NodeSlice {node_slice.metadata.name} belongs to a missing NodeSet"
        entries[node_slice.spec.node_set_uid].update(entry.name for entry in node_slice.spec.entries)
    for uid, owner in owners.items():
        if owner.status.observed_generation != owner.metadata.generation:
            return f"NodeSet {owner.metadata.name} was changed a moment ago"
        if owner.status.members != len(entries[uid]):
            members = counted(owner.status.members, "member")
            return f"NodeSet {owner.metadata.name} has {members}, but its NodeSlices list {len(entries[uid])}"
    return ""


def too_many(orphans: int, *, ours: int) -> bool:
    return orphans > max(FEW, SHARE * ours)


def registered_late(node: Node, deleted: Mapping[str, str]) -> bool:
    """Whether a slurmd left this that registered after its record was deleted, and has ended since.

    Where an address is just the name nothing tells it from a record that a person has made. `deleted` is known to the
    process that deleted them and to no other, and nothing that can be read would replace it: the Pod and its entry are
    gone, the record has no mark, and a slurmd that a person runs outside of Kubernetes leaves the same when it ends. So
    after a change of leaders such a record stays, for a person to delete; it takes no job.
    """
    address = deleted.get(node.name, "")
    if address in {"", node.name} or node.address != address:
        return False
    return is_not_responding(node) or (node.state.base is NodeBase.DOWN and drains.is_ours(node.reason))


class OrphanSnapshot(Struct, frozen=True):
    """Records that were ours and are in no slice, and what else counts."""

    records: Mapping[str, Node] = {}
    missing: str = ""
    """Why the slices may not be all of them; empty if they are."""
    members: int = 0
    """How many of Slurm's nodes are in a slice."""


class OrphanSightings(Struct, frozen=True):
    """Since when records are orphans."""

    seen: Mapping[str, float] = {}
    """All the time."""
    since: Mapping[str, float] = {}
    """The same, counted only while the slices were complete."""

    def next(self, snapshot: OrphanSnapshot, *, now: float) -> "OrphanSightings":
        seen = {name: self.seen.get(name, now) for name in snapshot.records}
        since = {} if snapshot.missing else {name: self.since.get(name, now) for name in snapshot.records}
        return OrphanSightings(seen, since)


class OrphanPlan(Struct, frozen=True):
    held: str = ""
    """Why none of them is touched."""
    stuck: tuple[str, ...] = ()
    """Those that wait for a person."""
    due: tuple[str, ...] = ()
    """Those that have been orphans for long enough."""


def orphan_plan(snapshot: OrphanSnapshot, sightings: OrphanSightings, *, now: float, grace: float) -> OrphanPlan:
    old = any(now - since >= grace for since in sightings.seen.values())
    due = tuple(name for name, since in sightings.since.items() if now - since >= grace)
    drained = ((name, drain_blocker(snapshot.records[name])) for name in due)
    stuck = tuple(_kept(name, why) for name, why in drained if why)
    return OrphanPlan(held=why_held(snapshot) if old else "", stuck=stuck, due=due)


def _kept(name: str, why: str) -> str:
    return f"{name} is in no NodeSlice but is kept: {why}"


def why_held(snapshot: OrphanSnapshot) -> str:
    """Why none of the orphans is touched; empty if they may be."""
    orphans = sorted(snapshot.records)
    shown = ", ".join(orphans[:_SHOWN]) + (", …" if len(orphans) > _SHOWN else "")
    found = f"{counted(len(orphans), 'Slurm node')} created by SUNK {verb(len(orphans))} in no NodeSlice ({shown})"
    if snapshot.missing:
        return f"{found}. Kept for now: {snapshot.missing}"
    if too_many(len(orphans), ours=snapshot.members + len(orphans)):
        return f"{found}. {_TOO_MANY}"
    return ""


class OrphanRecords:
    """Has records of members deleted that are no more. `deleted` are addresses of records that went with their members."""

    def __init__(self, context: Context, members: Members, guard: Guard, *, deleted: Mapping[str, str]) -> None:
        self._context = context
        self._members = members
        self._guard = guard
        self._deleted = deleted
        self._sightings = OrphanSightings()
        self._plan = OrphanPlan()
        self._kept: dict[str, str] = {}
        """Why these could not be deleted when that was last tried."""
        follows = (context.pods, context.slices, context.sets)
        self.work: Final = PeriodicWork(
            "orphans",
            self.resync,
            follows=follows,
            period=min(PERIOD, context.settings.forget_after / 2),
            begin=self._forget,
        )

    def report(self) -> Report:
        kept = (_kept(name, why) for name, why in self._kept.items())
        return Report(held=self._plan.held, stuck=tuple(dict.fromkeys((*self._plan.stuck, *kept))))

    def _forget(self) -> None:
        """Count from now: nothing dates a record that is in no slice, and none of us has watched it meanwhile."""
        self._sightings = OrphanSightings()

    async def resync(self) -> None:
        snapshot, now = self._snapshot(), loopclock.now()
        self._sightings = self._sightings.next(snapshot, now=now)
        self._plan = orphan_plan(snapshot, self._sightings, now=now, grace=self._context.settings.forget_after)
        self._kept = {name: why for name, why in self._kept.items() if name in snapshot.records}
        if self._plan.due and not self._plan.held and not self._context.mirror.suspicious:
            await self._delete(self._plan.due)

    def _snapshot(self) -> OrphanSnapshot:
        context = self._context
        if not isinstance(context.mirror.state, Known) or not context.settings.slurm_node_clean_up:
            return OrphanSnapshot()
        nodes = context.mirror.nodes.all()
        strays = [node for node in nodes if node.name not in self._members]
        orphans = {node.name: node for node in strays if marked(node) or registered_late(node, self._deleted)}
        if not orphans:
            return OrphanSnapshot()
        missing = incomplete(context.sets.store.all(), context.slices.store.all(), cluster=context.cluster)
        return OrphanSnapshot(orphans, missing=missing, members=len(nodes) - len(strays))

    async def _delete(self, names: Iterable[str]) -> None:
        """Delete them, if all of it still holds on fresh reads of both sides."""
        permit = await self._guard.permit(catch_up=True)
        snapshot = self._snapshot()
        if why_held(snapshot):
            return
        records = {name: snapshot.records[name] for name in names if name in snapshot.records}
        deleted = await permit.delete_records(records, drain_blocker=drain_blocker, podless=True)
        self._kept = dict(deleted.refused)
        if deleted.done:
            log.warning("deleted Slurm nodes %s: not in any NodeSlice", ", ".join(deleted.done))
