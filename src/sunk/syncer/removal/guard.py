"""The one door through which the syncer destroys.

The problem. Five parts give something up: `clearance` lets a Pod go, `release` deletes the record of a member that has
left and frees its name, `orphans` deletes records of nobody, `reshape` those of another size, and `unregistered` has Pods
restarted. Each has its own rule for when, and all need the same proof that it is still so. A check that is forgotten in
one of five places costs somebody a job.

The design. The parts decide, by pure functions, and write nothing. All that destroys passes here, and meets in this order

1. a whole read of Slurm that begins after the question, is young, and is believed. If not, `Stale` is raised;
2. what speaks against it: somebody's drain, a job, a reservation (`blockers`);
3. the Pod, by the API server's own word, where it has to be gone, or to be that very Pod still;
4. the first two and leadership once more, as the last thing before the write, since all of the above takes time;
5. what the write itself carries: uid and version of the Pod or slice, and the rows of Slurm as they were seen.

`Guard.permit` is the first of these, and its `Permit` has the rest: without a read there is nothing to destroy with. Two
writes need no read, since they give nothing up: to take back a clearance, which has to work above all while Slurm does
not answer, and to name in a slice what is refused.

What was refused: one method that takes a rule and does everything. The parts ask other things between read and write: a
name that is leaving has lost its Pod before Slurm is read, and an orphan must have none after it. To hide that behind
options would make it harder to see, and no safer.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from msgspec import Struct, to_builtins

from sunk.kube.api.patch import Merge
from sunk.kube.errors import Conflict, Invalid, KubeError, NotFound
from sunk.kube.resource import Key, Record
from sunk.model import loopclock, names
from sunk.model.contract import clearance
from sunk.model.nodeslice import NodeSliceStatus
from sunk.objects.computepods import restart_request
from sunk.objects.nodesets import NodeSlice
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.records import Node
from sunk.syncer.context import Context
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.pods import COMPUTE_PODS, ComputePod
from sunk.syncer.removal.blockers import blocker

FRESH: Final = 5.0
"""Seconds since the begin of the read that anything is given up on."""
CONCURRENCY: Final = 16
_NOT_LEADING: Final = "another process leads"


class DeletedRecords(Struct, frozen=True):
    """What became of records that were to be deleted. While another process leads, they are in neither."""

    done: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    """Why each of these stays."""


class RequestedRestart(Struct, frozen=True):
    pod: ComputePod
    """As the API server had it."""
    why: str


class Permit:
    """Leave to destroy, on a read of Slurm that was made for the question. `Guard.permit` gives it."""

    def __init__(self, context: Context, jobs_by_node: JobsByNode, *, began: float) -> None:
        self._context = context
        self._jobs_by_node = jobs_by_node
        self._began = began
        """When that read began, by the loop's clock."""

    async def clear(self, pod: ComputePod, *, drain: str) -> bool:
        """Let the NodeSet controller delete a Pod, as it was seen. False if a job holds it, or another process leads."""
        if self._jobs_by_node.has_jobs(pod.metadata.name) or not self._context.may_write():
            return False
        read = self._context.client.clock.now() - timedelta(seconds=loopclock.now() - self._began)
        with suppress(NotFound):
            await _annotate(self._context, pod, {names.CLEAR_TO_DELETE: clearance.write(drain, read=read)})
        return True

    async def delete_records(
        self, seen: Mapping[str, Node], *, drain_blocker: Callable[[Node], str], podless: bool = False
    ) -> DeletedRecords:
        """Delete records, by their rows as they were decided on; one that has changed since is kept, with its drain.

        `drain_blocker` says which drains keep a record. A drain comes first: a slice that names a reservation would tell
        the next process nothing of it. With `podless`, a record whose Pod is there, or cannot be asked for, stays. To ask
        for Pods and to compare the rows takes time, so everything is checked once more when the call is about to be sent.
        """
        rows = self._context.mirror.nodes

        def blockers(node_names: Iterable[str]) -> dict[str, str]:
            now = {name: rows.get(name) or seen[name] for name in node_names}
            return {name: why for name, node in now.items() if (why := drain_blocker(node) or self._blocker(node))}

        def must_stay(node_names: Collection[str]) -> dict[str, str]:
            self._context.mirror.require_fresh(within=FRESH)
            if not self._context.may_write():
                return dict.fromkeys(node_names, _NOT_LEADING)
            return blockers(node_names)

        refused = blockers(seen)
        free = [name for name in seen if name not in refused]
        if podless:
            refused |= await _pods(self._context, free)
            free = [name for name in free if name not in refused]
        if not free:
            return DeletedRecords(refused=refused)
        as_seen = {name: seen[name] for name in free}
        outcome = await self._context.orders.delete(free, seen=as_seen, must_stay=must_stay)
        failed = {name: outcome.why.get(name, "Slurm refused") for name in outcome.refused}
        return DeletedRecords(
            done=outcome.done, refused=refused | {name: why for name, why in failed.items() if why != _NOT_LEADING}
        )

    async def confirm(self, key: Key) -> ComputePod | None:
        """The Pod as it is now, by the API server's own word; None if there is none.

        That takes time, in which Slurm may become unknown or hard to believe. Then Stale is raised.
        """
        pod = await self._context.pods.confirm(key)
        self._context.mirror.require_fresh(within=FRESH)
        return pod

    async def restart(
        self, seen: ComputePod, *, reason: Callable[[ComputePod, Node | None], str], tries: int = 1
    ) -> RequestedRestart | None:
        """Ask for a new Pod in place of this one. None if that was not done.

        `reason` says why, by the Pod and the row of now; empty if there is no reason any more. A Pod that changes while it
        is asked for is tried again, with the same questions.
        """
        name = seen.metadata.name
        for _ in range(tries):
            pod = await self.confirm(seen.key)
            if pod is None or pod.metadata.uid != seen.metadata.uid:
                return None
            why = reason(pod, self._context.mirror.nodes.get(name))
            if not why or self._jobs_by_node.has_jobs(name) or not self._context.may_write():
                return None
            if await self._request_restart(pod, why=why):
                return RequestedRestart(pod, why)
        return None

    async def _request_restart(self, pod: ComputePod, *, why: str) -> bool:
        """False if the Pod is another by now, or has changed."""
        request = restart_request(why, now=self._context.client.clock.now())
        try:
            await _annotate(self._context, pod, {names.RESTART: request})
        except (Conflict, Invalid, NotFound):
            return False
        return True

    def _blocker(self, node: Node) -> str:
        reservations = self._context.mirror.reservations.all()
        return blocker(node, jobs=self._jobs_by_node.ids(node.name), reservations=reservations)


class Guard:
    """Gives permits. It deletes records, requests restarts, and writes clearances and the status of slices; nobody else."""

    def __init__(self, context: Context, jobs_by_node: JobsByNode) -> None:
        self._context = context
        self._jobs_by_node = jobs_by_node

    async def permit(self, *, catch_up: bool = False, on_read: Callable[[], None] = lambda: None) -> Permit:
        """Read Slurm for whoever asks, and raise Stale if that is not enough to give anything up.

        With `catch_up`, all that is known of Kubernetes is proven to be of now, before Slurm is read. `on_read` is called
        once Slurm has answered, also if what it says is not believed.
        """
        context = self._context
        for collection in (context.slices, context.sets, context.pods) if catch_up else ():
            await collection.catch_up()
        await context.mirror.read_after(whole=True)
        on_read()
        context.mirror.require_fresh(within=FRESH)
        return Permit(context, self._jobs_by_node, began=loopclock.now() - context.mirror.age)

    async def pods(self, node_names: Collection[str]) -> dict[str, str]:
        """Those that have a Pod, by the API server's own word and without any selection, or of which it does not say."""
        return await _pods(self._context, node_names)

    async def revoke(self, pod: ComputePod) -> bool:
        """Take back a clearance. False if another process leads."""
        if not self._context.may_write():
            return False
        with suppress(NotFound):
            await _annotate(self._context, pod, {names.CLEAR_TO_DELETE: None})
        return True

    async def write_status(self, node_slice: NodeSlice, wanted: NodeSliceStatus, *, permit: Permit | None) -> None:
        """Say which names of a slice are free, and why others are not. No name becomes free without a permit."""
        freed = set(wanted.released) - set(node_slice.status.released)
        if freed and permit is None:
            raise Stale(f"{', '.join(sorted(freed))} would be released without a read of Slurm")
        if wanted == node_slice.status or not self._context.may_write():
            return
        change = Merge({"metadata": _as_seen(node_slice), "status": to_builtins(wanted)})
        await self._context.slices.patch(node_slice.key, change, status=True)


async def _pods(context: Context, node_names: Collection[str]) -> dict[str, str]:
    """Why these nodes are not without a Pod. One that cannot be asked for keeps no other from an answer."""
    answers: dict[str, str] = {}
    limit = asyncio.Semaphore(CONCURRENCY)

    async def ask(name: str) -> None:
        async with limit:
            try:
                await context.client.get(COMPUTE_PODS, name, namespace=context.namespace)
            except NotFound:
                return
            except KubeError as error:
                answers[name] = f"its Pod cannot be checked: {error}"
            else:
                answers[name] = "its Pod still exists, but no NodeSet of this cluster owns it"

    async with asyncio.TaskGroup() as group:
        for name in node_names:
            group.create_task(ask(name), name=f"is Pod {name} gone?")
    return answers


async def _annotate(context: Context, pod: ComputePod, annotations: Mapping[str, str | None]) -> None:
    change = Merge({"metadata": _as_seen(pod) | {"annotations": annotations}})
    await context.pods.patch(pod.key, change, status=True)


def _as_seen(record: Record) -> dict[str, Any]:
    """What a write carries, so that it applies to the object as it was decided on or to nothing."""
    return {"uid": record.metadata.uid, "resourceVersion": record.metadata.resource_version}
