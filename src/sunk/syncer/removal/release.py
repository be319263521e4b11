"""Members that leave: once the Pod is gone Slurm's record goes, and the slice says that the name is free.

An entry that is leaving belongs to us from the moment that its Pod is gone: nobody creates another Pod of that name before
the name is released. So the record that is deleted cannot be a newer one's. That the Pod is gone is asked of the API
server for each, without any selection, since one that lost its labels is gone only from our view. That no job is on
the node is asked of Slurm by a whole read, and Slurm itself refuses if one comes in between.

What cannot go yet is named in the slice with the reason, and tried again; it keeps no other from leaving. That may take
hours, and a person may drain the node meanwhile: the record stays until that drain is lifted.
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
from sunk.objects.nodesets import NodeSlice
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.records import Node
from sunk.syncer.context import Context
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.members import Members
from sunk.syncer.pods import COMPUTE_PODS
from sunk.syncer.removal.blockers import DRAINED, blocker, drain_blocker

log = logging.getLogger(__name__)

FRESH: Final = 5.0
AGAIN: Final = 10.0
SOON: Final = 5.0
CONCURRENCY: Final = 16
_LONGEST: Final = 1000


class ReleaseResult(Struct, frozen=True):
    """What became of members that were to be released."""

    released: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}


def slice_status(node_slice: NodeSlice, leaving: Iterable[str], result: ReleaseResult) -> NodeSliceStatus:
    """What a slice should say. A name whose entry is gone, or stays after all, is taken off again."""
    names = [*leaving]
    held = set(node_slice.status.released) | result.released
    released = tuple(name for name in names if name in held)
    refused = tuple(
        Refused(name=name, reason=result.refused[name][:_LONGEST])
        for name in names
        if name in result.refused and name not in held
    )
    return NodeSliceStatus(released=released, refused=refused)


def drained_since(node: Node, *, absent: int, refusal: str = "") -> str:
    """Why a record has to stay that somebody has drained when its Pod was gone already; empty if nobody has.

    `refusal` is why the slice refuses the name by now. Whose words these are does not matter: the text of a drain may be
    changed, and any that stands on a record which was kept for one came after the Pod.
    """
    late = node.reason_time > absent or refusal.startswith(DRAINED)
    return drain_blocker(node) if late else ""


class ReleaseController:
    """Writes the status of NodeSlices, and deletes records of members that are leaving."""

    def __init__(self, context: Context, members: Members, jobs_by_node: JobsByNode) -> None:
        self._context = context
        self._members = members
        self._jobs_by_node = jobs_by_node
        self._absent: dict[str, int] = {}
        """When a member was first known to have no Pod, by slurmctld's clock."""
        self.deleted: Final[dict[str, str]] = {}
        """Names whose records were deleted here, and at which address each was: a slurmd may still register there."""
        sources: list[Source[Any, Key]] = [
            Source(context.slices.store, itself),
            Source(context.pods.store, lambda pod: self._slice_of(pod.metadata.name)),
        ]
        self.controller: Final[Controller[Key]] = Controller(
            "release", self._reconcile, sources=sources, effort=Effort(workers=4, patience=120.0)
        )
        context.mirror.nodes.subscribe(lambda name, *_: self._enqueue(name))
        context.mirror.reservations.subscribe(lambda *_: self._enqueue_all())
        jobs_by_node.subscribe(self._enqueue)

    def _slice_of(self, name: str) -> tuple[Key, ...]:
        member = self._members.get(name)
        return (member.slice,) if member is not None and member.leaving else ()

    def _enqueue(self, name: str) -> None:
        for key in self._slice_of(name):
            self.controller.enqueue(key)

    def _enqueue_all(self) -> None:
        for key in {member.slice for member in self._members.leaving()}:
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> Requeue | None:
        node_slice = self._context.slices.store.get(key)
        if node_slice is None or node_slice.spec.cluster != self._context.cluster:
            return None
        leaving = [entry.name for entry in node_slice.spec.entries if self._is_leaving(entry.name)]
        gone = [name for name in leaving if name not in node_slice.status.released and self._context.pod(name) is None]
        for name in {entry.name for entry in node_slice.spec.entries} - set(gone):
            self._absent.pop(name, None)
        wait: float | None = None
        refusals = {refused.name: refused.reason for refused in node_slice.status.refused}
        try:
            result = await self._release(gone, refusals=refusals) if gone else ReleaseResult()
        except (Stale, SlurmError) as unsure:
            log.info("%s: nobody is let go: %s", key, unsure)
            result, wait = ReleaseResult(refused=refusals), SOON
        await self._write(node_slice, slice_status(node_slice, leaving, result))
        wait = wait or (AGAIN if result.refused else None)
        return Requeue(after=wait) if wait else None

    def _is_leaving(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.leaving

    async def _release(self, names: list[str], *, refusals: Mapping[str, str]) -> ReleaseResult:
        present = await self._with_pod(names)
        refused = dict.fromkeys(present, "its Pod is there still, though no NodeSet of this cluster owns it")
        absent = [name for name in names if name not in present]
        if not absent:
            return ReleaseResult(refused=refused)
        mirror = self._context.mirror
        await mirror.read_after(whole=True)
        # Also while Slurm is hard to believe, which may last for hours: a drain of that time is later than the Pod.
        for name in absent:
            self._absent.setdefault(name, mirror.clock)
        mirror.require_fresh(within=FRESH)
        free = {name for name in absent if name not in mirror.nodes or not self._context.settings.slurm_node_clean_up}
        rest = [name for name in absent if name not in free and self._is_leaving(name)]
        blocked = {name: why for name in rest if (why := self._blocker(name, refusals.get(name, "")))}
        deleted, failed = await self._delete([name for name in rest if name not in blocked])
        return ReleaseResult(released=frozenset(free | deleted), refused=refused | blocked | failed)

    async def _with_pod(self, names: list[str]) -> set[str]:
        """Those that have a Pod, by the API server's own word."""
        present: set[str] = set()
        limit = asyncio.Semaphore(CONCURRENCY)

        async def ask(name: str) -> None:
            async with limit:
                try:
                    await self._context.client.get(COMPUTE_PODS, name, namespace=self._context.namespace)
                except NotFound:
                    return
                present.add(name)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(ask(name), name=f"is Pod {name} gone?")
        return present

    def _blocker(self, name: str, refusal: str) -> str:
        """A drain comes first: a slice that names a reservation tells the next process nothing of it."""
        node = self._context.mirror.nodes.get(name)
        reservations = self._context.mirror.reservations.all()
        if node is None:
            return ""
        by_drain = drained_since(node, absent=self._absent[name], refusal=refusal)
        return by_drain or blocker(node, jobs=self._jobs_by_node.ids(name), reservations=reservations)

    async def _delete(self, names: list[str]) -> tuple[set[str], dict[str, str]]:
        """Delete records. Return the names that are gone, and why others are not."""
        if not names or not self._context.may_write():
            return set(), {}
        nodes = self._context.mirror.nodes
        seen = {name: node for name in names if (node := nodes.get(name)) is not None}
        outcome = await self._context.orders.delete(names, seen=seen)
        self.deleted.update((name, node.address) for name, node in seen.items() if name in outcome.done)
        if outcome.done:
            log.info("records of %s are deleted: they have left", ", ".join(outcome.done))
        return set(outcome.done), {name: outcome.why.get(name, "Slurm refused") for name in outcome.refused}

    async def _write(self, node_slice: NodeSlice, wanted: NodeSliceStatus) -> None:
        if wanted == node_slice.status or not self._context.may_write():
            return
        at = {"uid": node_slice.metadata.uid, "resourceVersion": node_slice.metadata.resource_version}
        await self._context.slices.patch(
            node_slice.key, Merge({"metadata": at, "status": to_builtins(wanted)}), status=True
        )
