"""Records of Slurm that were ours and belong to nobody any more.

A member that leaves takes its record along (`release`). One may be left over all the same: a slice was deleted by hand,
or a slurmd registered once more when its record was gone already. Such a record would wait for its slurmd for ever.

Absence is a weak sign. Slices may be missing for a moment, as after a restored backup; so it counts only while all that
the NodeSets say of their slices is there, for a minute, and only for records that carry our mark in `Extra`: what a
person has made by hand is none of ours. A slurmd that came too late has no mark, since nobody writes to a node of no
slice. It is known by the address that its record had when we deleted it, and given up only once slurmctld has lost it.
And if many are without a slice at once, that is somebody's mistake until
he says otherwise, and none is touched.

Nor is one touched that a person has drained, since the drain and its reason would go with the record. Nobody else lifts
it, so that is said.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from sunk.kube.errors import NotFound
from sunk.model import loopclock
from sunk.model.contract import drains
from sunk.model.contract.report import Report
from sunk.objects.members import NodeSet, NodeSlice
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Ground
from sunk.syncer.drains.extra import marked
from sunk.syncer.members import Members
from sunk.syncer.pods import COMPUTE_PODS
from sunk.syncer.removal.blockers import drained, hindrance
from sunk.syncer.removal.holders import Holders
from sunk.syncer.removal.unregistered import is_silent
from sunk.syncer.rounds import Rounds

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
FEW: Final = 3
SHARE: Final = 0.2
FRESH: Final = 5.0
_SHOWN: Final = 3


def incomplete(sets: Iterable[NodeSet], slices: Iterable[NodeSlice], *, cluster: str) -> str:
    """Why the slices that are there may not be all of them; empty if they are."""
    owners = {one.metadata.uid: one for one in sets if one.spec.cluster == cluster}
    if not owners:
        return "there is no NodeSet of this cluster"
    entries: dict[str, set[str]] = {uid: set() for uid in owners}
    for one in slices:
        if one.spec.cluster != cluster:
            continue
        if one.spec.node_set_uid not in entries:
            return f"NodeSlice {one.metadata.name} is of a NodeSet that is not there"
        entries[one.spec.node_set_uid].update(entry.name for entry in one.spec.entries)
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


def came_late(node: Node, deleted: Mapping[str, str]) -> bool:
    """Whether this is what a slurmd left that registered after its record was deleted, and has ended since.

    Where an address is just the name nothing tells it from a record that a person has made. `deleted` is known to the
    process that deleted them and to no other, and nothing that can be read would replace it: the Pod and its entry are
    gone, the record has no mark, and a slurmd that a person runs outside of Kubernetes leaves the same when it ends. So
    after a change of leaders such a record stays, for a person to delete; it takes no job.
    """
    address = deleted.get(node.name, "")
    if address in {"", node.name} or node.address != address:
        return False
    return is_silent(node) or (node.state.base is NodeBase.DOWN and drains.is_ours(node.reason))


class Orphans:
    """Deletes records of members that are no more. `deleted` are addresses of records that went with their members."""

    def __init__(self, ground: Ground, members: Members, holders: Holders, *, deleted: Mapping[str, str]) -> None:
        self._ground = ground
        self._members = members
        self._holders = holders
        self._deleted = deleted
        self._seen: dict[str, float] = {}
        """Since when a record is in no slice, all the time."""
        self._since: dict[str, float] = {}
        """The same, counted only while the slices were complete."""
        self._held = ""
        self._drained: tuple[str, ...] = ()
        follows = (ground.pods, ground.slices, ground.sets)
        self.work: Final = Rounds(
            "orphans",
            self.look,
            follows=follows,
            period=min(PERIOD, ground.manner.forget_after / 2),
            begin=self._forget,
        )

    def report(self) -> Report:
        return Report(held=self._held, stuck=self._drained)

    def _forget(self) -> None:
        """Count from now: nothing dates a record that is in no slice, and nobody of us has watched it meanwhile."""
        self._seen, self._since = {}, {}

    async def look(self) -> None:
        orphans, now, grace = self._orphans(), loopclock.now(), self._ground.manner.forget_after
        gap = self._gap() if orphans else ""
        self._seen = {name: self._seen.get(name, now) for name in orphans}
        self._since = {} if gap else {name: self._since.get(name, now) for name in orphans}
        old = any(now - since >= grace for since in self._seen.values())
        self._held = self._why_held(orphans, gap=gap) if old else ""
        due = [name for name, since in self._since.items() if now - since >= grace]
        self._drained = tuple(said for name in due if (said := self._said_of_drained(name)))
        if due and not self._held and not self._ground.mirror.suspicious:
            await self._delete(due)

    def _orphans(self) -> list[str]:
        mirror = self._ground.mirror
        if not isinstance(mirror.state, Known) or not self._ground.manner.clean_up:
            return []
        strays = (node for node in mirror.nodes.all() if node.name not in self._members)
        return [node.name for node in strays if marked(node) or came_late(node, self._deleted)]

    def _gap(self) -> str:
        ground = self._ground
        return incomplete(ground.sets.store.all(), ground.slices.store.all(), cluster=ground.cluster)

    def _why_held(self, orphans: list[str], *, gap: str) -> str:
        shown = f"{len(orphans)} Slurm nodes that were ours are in no NodeSlice ({', '.join(sorted(orphans)[:_SHOWN])}"
        shown += ", …)" if len(orphans) > _SHOWN else ")"
        if gap:
            return f"{shown}, and {gap}: their records are kept"
        ours = sum(node.name in self._members for node in self._ground.mirror.nodes.all()) + len(orphans)
        if too_many(len(orphans), ours=ours):
            return f"{shown}, which is more than a few: their records are kept. If they are of no use, delete them in Slurm"
        return ""

    async def _delete(self, names: list[str]) -> None:
        """Delete them, if all of it still holds in a fresh look at both sides."""
        ground = self._ground
        for each in (ground.slices, ground.sets, ground.pods):
            await each.catch_up()
        await ground.mirror.read_after(whole=True)
        ground.mirror.require_fresh(within=FRESH)
        orphans = self._orphans()
        if self._why_held(orphans, gap=self._gap()):
            return
        able = [name for name in names if name in orphans and not self._hindrance(name)]
        seen = {name: node for name in able if (node := ground.mirror.nodes.get(name)) is not None}
        able = [name for name in able if not await self._has_pod(name)]
        if not able or not ground.may_write():
            return
        outcome = await ground.orders.delete(able, seen=seen)
        if outcome.done:
            log.warning("records of %s are deleted: they are in no NodeSlice", ", ".join(outcome.done))

    def _hindrance(self, name: str) -> str:
        node = self._ground.mirror.nodes.get(name)
        reservations = self._ground.mirror.reservations.all()
        if node is None:
            return ""
        return drained(node) or hindrance(node, jobs=self._holders.of(name), reservations=reservations)

    def _said_of_drained(self, name: str) -> str:
        node = self._ground.mirror.nodes.get(name)
        why = drained(node) if node is not None else ""
        return f"{name} is in no NodeSlice, and its record is kept: {why}" if why else ""

    async def _has_pod(self, name: str) -> bool:
        try:
            await self._ground.client.get(COMPUTE_PODS, name, namespace=self._ground.namespace)
        except NotFound:
            return False
        return True
