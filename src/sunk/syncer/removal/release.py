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

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself
from sunk.kube.resource import Key
from sunk.model.nodeslice import NodeSliceStatus, Refused
from sunk.objects.nodesets import NodeSlice
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.records import Node
from sunk.syncer.context import Context
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.members import Members
from sunk.syncer.removal.blockers import DRAINED, FORMER_DRAINED, drain_blocker
from sunk.syncer.removal.guard import DeletedRecords, Guard, Permit

log = logging.getLogger(__name__)

AGAIN: Final = 10.0
SOON: Final = 5.0
_LONGEST: Final = 1000


class ReleaseResult(Struct, frozen=True):
    """What became of members that were to be released."""

    released: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}
    permit: Permit | None = None
    """On what they were released."""


class ReleasePlan(Struct, frozen=True):
    """What to do with members whose Pods are gone."""

    free: frozenset[str] = frozenset()
    """No record keeps the name."""
    records: Mapping[str, Node] = {}
    """These have to be deleted before the name is free."""


def release_plan(
    absent: Iterable[str], *, records: Mapping[str, Node], leaving: Collection[str], clean_up: bool
) -> ReleasePlan:
    """Decide by the records that Slurm has. One that is not leaving any more, because it stays after all, is left alone."""
    free = frozenset(name for name in absent if name not in records or not clean_up)
    return ReleasePlan(free, {name: node for name, node in records.items() if name not in free and name in leaving})


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
    late = node.reason_time > absent or refusal.startswith((DRAINED, FORMER_DRAINED))
    return drain_blocker(node) if late else ""


class ReleaseController:
    """Decides on the status of NodeSlices, and on the records of members that are leaving."""

    def __init__(self, context: Context, members: Members, jobs_by_node: JobsByNode, guard: Guard) -> None:
        self._context = context
        self._members = members
        self._guard = guard
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
            log.info("%s: releasing no nodes for now: %s", key, unsure)
            result, wait = ReleaseResult(refused=refusals), SOON
        result = replace(result, refused=self._with_drains(gone, result.refused, refusals=refusals))
        await self._guard.write_status(node_slice, slice_status(node_slice, leaving, result), permit=result.permit)
        wait = wait or (AGAIN if result.refused else None)
        return Requeue(after=wait) if wait else None

    def _is_leaving(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.leaving

    async def _release(self, names: list[str], *, refusals: Mapping[str, str]) -> ReleaseResult:
        refused = await self._guard.pods(names)
        absent = [name for name in names if name not in refused]
        if not absent:
            return ReleaseResult(refused=refused)
        permit = await self._guard.permit(on_read=partial(self._note_absent, absent))
        plan = self._plan(absent)
        deleted = await self._delete(plan.records, permit=permit, refusals=refusals)
        return ReleaseResult(plan.free | set(deleted.done), refused={**refused, **deleted.refused}, permit=permit)

    def _with_drains(
        self, gone: Iterable[str], refused: Mapping[str, str], *, refusals: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Name drains that are later than the Pod, whatever else keeps a record: the next process knows them by this only."""
        drained: dict[str, str] = {}
        for name in gone:
            node, absent = self._context.mirror.nodes.get(name), self._absent.get(name)
            if node is not None and absent is not None:
                why = drained_since(node, absent=absent, refusal=refusals.get(name, ""))
                other = refused.get(name, "")
                if why and not other.startswith(DRAINED):
                    drained[name] = f"{why}; {other}" if other else why
        return {**refused, **drained}

    def _note_absent(self, names: Iterable[str]) -> None:
        """Also while Slurm is hard to believe, which may last for hours: a drain of that time is later than the Pod."""
        for name in names:
            self._absent.setdefault(name, self._context.mirror.clock)

    def _plan(self, absent: list[str]) -> ReleasePlan:
        nodes = self._context.mirror.nodes
        return release_plan(
            absent,
            records={name: node for name in absent if (node := nodes.get(name)) is not None},
            leaving={name for name in absent if self._is_leaving(name)},
            clean_up=self._context.settings.slurm_node_clean_up,
        )

    async def _delete(
        self, records: Mapping[str, Node], *, permit: Permit, refusals: Mapping[str, str]
    ) -> DeletedRecords:
        def later_drain(node: Node) -> str:
            return drained_since(node, absent=self._absent[node.name], refusal=refusals.get(node.name, ""))

        deleted = await permit.delete_records(records, drain_blocker=later_drain)
        self.deleted.update((name, node.address) for name, node in records.items() if name in deleted.done)
        if deleted.done:
            log.info("deleted Slurm nodes %s: they left the NodeSet", ", ".join(deleted.done))
        return deleted
