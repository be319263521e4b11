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

from sunk.kube.errors import NotFound
from sunk.model import loopclock
from sunk.model.contract import drains
from sunk.model.contract.report import Report
from sunk.objects.nodesets import NodeSet, NodeSlice
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Context
from sunk.syncer.drains.extra import marked
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.members import Members
from sunk.syncer.pods import COMPUTE_PODS
from sunk.syncer.removal.blockers import blocker, drain_blocker
from sunk.syncer.removal.unregistered import is_not_responding
from sunk.syncer.work import PeriodicWork

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
FEW: Final = 3
SHARE: Final = 0.2
FRESH: Final = 5.0
_SHOWN: Final = 3


def incomplete(sets: Iterable[NodeSet], slices: Iterable[NodeSlice], *, cluster: str) -> str:
    """Why the slices that are there may not be all of them; empty if they are."""
    owners = {node_set.metadata.uid: node_set for node_set in sets if node_set.spec.cluster == cluster}
    if not owners:
        return "there is no NodeSet of this cluster"
    entries: dict[str, set[str]] = {uid: set() for uid in owners}
    for node_slice in slices:
        if node_slice.spec.cluster != cluster:
            continue
        if node_slice.spec.node_set_uid not in entries:
            return f"NodeSlice {node_slice.metadata.name} is of a NodeSet that is not there"
        entries[node_slice.spec.node_set_uid].update(entry.name for entry in node_slice.spec.entries)
    for uid, owner in owners.items():
        if owner.status.observed_generation != owner.metadata.generation:
            return f"NodeSet {owner.metadata.name} was changed a moment ago"
        if owner.status.members != len(entries[uid]):
            return (
                f"NodeSet {owner.metadata.name} has {owner.status.members} members, and slices tell {len(entries[uid])}"
            )
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


class OrphanRecords:
    """Deletes records of members that are no more. `deleted` are addresses of records that went with their members."""

    def __init__(
        self, context: Context, members: Members, jobs_by_node: JobsByNode, *, deleted: Mapping[str, str]
    ) -> None:
        self._context = context
        self._members = members
        self._jobs_by_node = jobs_by_node
        self._deleted = deleted
        self._seen: dict[str, float] = {}
        """Since when a record is in no slice, all the time."""
        self._since: dict[str, float] = {}
        """The same, counted only while the slices were complete."""
        self._held = ""
        self._drained: tuple[str, ...] = ()
        follows = (context.pods, context.slices, context.sets)
        self.work: Final = PeriodicWork(
            "orphans",
            self.resync,
            follows=follows,
            period=min(PERIOD, context.settings.forget_after / 2),
            begin=self._forget,
        )

    def report(self) -> Report:
        return Report(held=self._held, stuck=self._drained)

    def _forget(self) -> None:
        """Count from now: nothing dates a record that is in no slice, and none of us has watched it meanwhile."""
        self._seen, self._since = {}, {}

    async def resync(self) -> None:
        orphans, now, grace = self._orphans(), loopclock.now(), self._context.settings.forget_after
        missing = self._missing_slices() if orphans else ""
        self._seen = {name: self._seen.get(name, now) for name in orphans}
        self._since = {} if missing else {name: self._since.get(name, now) for name in orphans}
        old = any(now - since >= grace for since in self._seen.values())
        self._held = self._why_held(orphans, missing=missing) if old else ""
        due = [name for name, since in self._since.items() if now - since >= grace]
        self._drained = tuple(message for name in due if (message := self._drained_message(name)))
        if due and not self._held and not self._context.mirror.suspicious:
            await self._delete(due)

    def _orphans(self) -> list[str]:
        mirror = self._context.mirror
        if not isinstance(mirror.state, Known) or not self._context.settings.slurm_node_clean_up:
            return []
        strays = (node for node in mirror.nodes.all() if node.name not in self._members)
        return [node.name for node in strays if marked(node) or registered_late(node, self._deleted)]

    def _missing_slices(self) -> str:
        context = self._context
        return incomplete(context.sets.store.all(), context.slices.store.all(), cluster=context.cluster)

    def _why_held(self, orphans: list[str], *, missing: str) -> str:
        shown = f"{len(orphans)} Slurm nodes that were ours are in no NodeSlice ({', '.join(sorted(orphans)[:_SHOWN])}"
        shown += ", …)" if len(orphans) > _SHOWN else ")"
        if missing:
            return f"{shown}, and {missing}: their records are kept"
        ours = sum(node.name in self._members for node in self._context.mirror.nodes.all()) + len(orphans)
        if too_many(len(orphans), ours=ours):
            return f"{shown}, which is more than a few: their records are kept. If they are of no use, delete them in Slurm"
        return ""

    async def _delete(self, names: list[str]) -> None:
        """Delete them, if all of it still holds on fresh reads of both sides."""
        context = self._context
        for collection in (context.slices, context.sets, context.pods):
            await collection.catch_up()
        await context.mirror.read_after(whole=True)
        context.mirror.require_fresh(within=FRESH)
        orphans = self._orphans()
        if self._why_held(orphans, missing=self._missing_slices()):
            return
        deletable = [name for name in names if name in orphans and not self._blocker(name)]
        seen = {name: node for name in deletable if (node := context.mirror.nodes.get(name)) is not None}
        deletable = [name for name in deletable if not await self._has_pod(name)]
        if not deletable or not context.may_write():
            return
        outcome = await context.orders.delete(deletable, seen=seen)
        if outcome.done:
            log.warning("records of %s are deleted: they are in no NodeSlice", ", ".join(outcome.done))

    def _blocker(self, name: str) -> str:
        node = self._context.mirror.nodes.get(name)
        reservations = self._context.mirror.reservations.all()
        if node is None:
            return ""
        return drain_blocker(node) or blocker(node, jobs=self._jobs_by_node.ids(name), reservations=reservations)

    def _drained_message(self, name: str) -> str:
        node = self._context.mirror.nodes.get(name)
        why = drain_blocker(node) if node is not None else ""
        return f"{name} is in no NodeSlice, and its record is kept: {why}" if why else ""

    async def _has_pod(self, name: str) -> bool:
        try:
            await self._context.client.get(COMPUTE_PODS, name, namespace=self._context.namespace)
        except NotFound:
            return False
        return True
