"""Members that leave: once the Pod is gone Slurm's record goes, and the slice says that the name is free.

An entry that is leaving belongs to us from the moment that its Pod is gone: nobody makes another Pod of that name before
the name is released. So the record that is deleted cannot be a newer one's. That the Pod is gone is asked of the API
server for each, without any selection, since one that lost its labels is gone only from our view. That no job is on
the node is asked of Slurm by a whole read, and Slurm itself refuses if one comes in between.

What cannot go yet is named in the slice with the reason, and tried again; it keeps no other from leaving. That may take
hours, and who drains the node meanwhile has something to say about it: the record stays until that drain is lifted.
Only the process that saw the Pod gone knows which drains are later. The next one knows it by the slice, which says that
the name is refused for a drain.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, to_builtins

from sunk.kube.api.patch import Merge
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key
from sunk.model.nodeslice import NodeSliceStatus, Refused
from sunk.objects.members import NodeSlice
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.records import Node
from sunk.syncer.context import Ground
from sunk.syncer.members import Members
from sunk.syncer.pods import COMPUTE_PODS
from sunk.syncer.removal.blockers import DRAINED, drained, hindrance
from sunk.syncer.removal.holders import Holders

log = logging.getLogger(__name__)

FRESH: Final = 5.0
AGAIN: Final = 10.0
SOON: Final = 5.0
AT_ONCE: Final = 16
_LONGEST: Final = 1000


class Freed(Struct, frozen=True):
    """What became of members that were to be let go."""

    free: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}


def status(one: NodeSlice, leaving: Iterable[str], freed: Freed) -> NodeSliceStatus:
    """What a slice shall say. A name whose entry is gone, or stays after all, is taken off again."""
    names = [*leaving]
    held = set(one.status.released) | freed.free
    released = tuple(name for name in names if name in held)
    refused = tuple(
        Refused(name=name, reason=freed.refused[name][:_LONGEST])
        for name in names
        if name in freed.refused and name not in held
    )
    return NodeSliceStatus(released=released, refused=refused)


def drained_since(node: Node, *, absent: int, said: str = "") -> str:
    """Why a record has to stay that somebody has drained when its Pod was gone already; empty if nobody has.

    `said` is why the slice refuses the name by now. Whose words these are does not matter: the text of a drain may be
    changed, and any that stands on a record which was kept for one came after the Pod.
    """
    late = node.reason_time > absent or said.startswith(DRAINED)
    return drained(node) if late else ""


class Release:
    """Writes the status of NodeSlices, and deletes records of members that are leaving."""

    def __init__(self, ground: Ground, members: Members, holders: Holders) -> None:
        self._ground = ground
        self._members = members
        self._holders = holders
        self._absent: dict[str, int] = {}
        """When a member was first known to have no Pod, by slurmctld's clock."""
        self.deleted: Final[dict[str, str]] = {}
        """Names whose records were deleted here, and at which address each was: a slurmd may still register there."""
        sources: list[Source[Any, Key]] = [
            Source(ground.slices.store, itself),
            Source(ground.pods.store, lambda pod: self._slice_of(pod.metadata.name)),
        ]
        self.controller: Final[Controller[Key]] = Controller(
            "release", self._reconcile, sources=sources, effort=Effort(workers=4, patience=120.0)
        )
        ground.mirror.nodes.subscribe(lambda name, *_: self._look(name))
        ground.mirror.reservations.subscribe(lambda *_: self._look_at_all())
        holders.subscribe(self._look)

    def _slice_of(self, name: str) -> tuple[Key, ...]:
        member = self._members.get(name)
        return (member.slice,) if member is not None and member.leaving else ()

    def _look(self, name: str) -> None:
        for key in self._slice_of(name):
            self.controller.enqueue(key)

    def _look_at_all(self) -> None:
        for key in {member.slice for member in self._members.leaving()}:
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> Requeue | None:
        one = self._ground.slices.store.get(key)
        if one is None or one.spec.cluster != self._ground.cluster:
            return None
        leaving = [entry.name for entry in one.spec.entries if self._is_leaving(entry.name)]
        gone = [name for name in leaving if name not in one.status.released and self._ground.pod(name) is None]
        for name in {entry.name for entry in one.spec.entries} - set(gone):
            self._absent.pop(name, None)
        wait: float | None = None
        said = {each.name: each.reason for each in one.status.refused}
        try:
            freed = await self._let_go(gone, said=said) if gone else Freed()
        except (Stale, SlurmError) as unsure:
            log.info("%s: nobody is let go: %s", key, unsure)
            freed, wait = Freed(refused=said), SOON
        await self._write(one, status(one, leaving, freed))
        wait = wait or (AGAIN if freed.refused else None)
        return Requeue(after=wait) if wait else None

    def _is_leaving(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.leaving

    async def _let_go(self, names: list[str], *, said: Mapping[str, str]) -> Freed:
        here = await self._still_here(names)
        refused = dict.fromkeys(here, "its Pod is there still, though no NodeSet of this cluster owns it")
        absent = [name for name in names if name not in here]
        if not absent:
            return Freed(refused=refused)
        mirror = self._ground.mirror
        await mirror.read_after(whole=True)
        # Also while Slurm is hard to believe, which may last for hours: a drain of that time is later than the Pod.
        for name in absent:
            self._absent.setdefault(name, mirror.clock)
        mirror.require_fresh(within=FRESH)
        free = {name for name in absent if name not in mirror.nodes or not self._ground.manner.clean_up}
        rest = [name for name in absent if name not in free and self._is_leaving(name)]
        hindered = {name: why for name in rest if (why := self._hindrance(name, said.get(name, "")))}
        deleted, failed = await self._delete([name for name in rest if name not in hindered])
        return Freed(free=frozenset(free | deleted), refused=refused | hindered | failed)

    async def _still_here(self, names: list[str]) -> set[str]:
        """Those that have a Pod, by the API server's own word."""
        found: set[str] = set()
        limit = asyncio.Semaphore(AT_ONCE)

        async def ask(name: str) -> None:
            async with limit:
                try:
                    await self._ground.client.get(COMPUTE_PODS, name, namespace=self._ground.namespace)
                except NotFound:
                    return
                found.add(name)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(ask(name), name=f"is Pod {name} gone?")
        return found

    def _hindrance(self, name: str, said: str) -> str:
        """A drain comes first: a slice that names a reservation tells the next process nothing of it."""
        node = self._ground.mirror.nodes.get(name)
        reservations = self._ground.mirror.reservations.all()
        if node is None:
            return ""
        found = drained_since(node, absent=self._absent[name], said=said)
        return found or hindrance(node, jobs=self._holders.of(name), reservations=reservations)

    async def _delete(self, names: list[str]) -> tuple[set[str], dict[str, str]]:
        """Delete records. Give the names that are gone, and why others are not."""
        if not names or not self._ground.may_write():
            return set(), {}
        nodes = self._ground.mirror.nodes
        seen = {name: node for name in names if (node := nodes.get(name)) is not None}
        outcome = await self._ground.orders.delete(names, seen=seen)
        self.deleted.update((name, node.address) for name, node in seen.items() if name in outcome.done)
        if outcome.done:
            log.info("records of %s are deleted: they have left", ", ".join(outcome.done))
        return set(outcome.done), {name: outcome.why.get(name, "Slurm refused") for name in outcome.refused}

    async def _write(self, one: NodeSlice, wanted: NodeSliceStatus) -> None:
        if wanted == one.status or not self._ground.may_write():
            return
        at = {"uid": one.metadata.uid, "resourceVersion": one.metadata.resource_version}
        await self._ground.slices.patch(one.key, Merge({"metadata": at, "status": to_builtins(wanted)}), status=True)
