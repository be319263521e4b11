"""Kubernetes to Slurm: drains, features and requests of people, for all nodes that changed in one go.

Whatever changes on either side enqueues the name of its node: a Pod, an entry of a NodeSlice, a row of Slurm. One worker
takes all names that have gathered, decides for each by pure rules (`plan`), and tells Slurm in as few calls as there are
different things to tell (`executor`). The first change after a quiet time is acted on at once; while more come, rounds
follow at growing intervals, so that a thousand changes cost a handful of calls.

The decision stands on the mirror, which may be older than a person's drain, and people do drain and cordon in one breath.
So each order about a drain holds only for nodes that are still as they were seen, which is checked right before it is
sent (`sunk.slurm.orders.guarded`); the others are decided once more, on a read that began after that. Afterwards all is
read once more: nothing is remembered of what was sent, and what did not take effect is seen.

While Slurm does not answer, nothing is decided and names wait. An order that was refused is tried again, later and later,
and keeps no other node waiting.

Rejected: a reconcile for each node, as Pods and Nodes have it, since a call for each node is what makes a thousand
cordons slow; and a memory of what was sent, since it would be wrong whenever somebody else has a say.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from typing import Final, Never

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.control.events import about
from sunk.kube.control.queue import Priority, Queue, QueueStatistics
from sunk.kube.errors import KubeError
from sunk.kube.resource import Key
from sunk.kube.tasks import forever
from sunk.model import hostlist, loopclock
from sunk.model.backoff import BackOff
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract.report import Report
from sunk.model.faults import survived
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Context
from sunk.syncer.drains import extra
from sunk.syncer.drains.executor import OrderCounts, OrderExecutor, RefusedOrders
from sunk.syncer.drains.extra import ExtraWriter
from sunk.syncer.drains.plan import Actions
from sunk.syncer.drains.snapshot import Snapshots
from sunk.syncer.members import Members
from sunk.syncer.work import next_batch

log = logging.getLogger(__name__)

_GROWTH: Final = 1.5
_LONGEST_GATHER: Final = 10
"""How often `gather` at most, however much there is to do."""
_SLICE: Final = 500
"""Nodes decided upon before other tasks get a turn."""
_DECISIONS: Final = 3
"""How often nodes that keep changing are decided upon in one round."""
_UNSETTLED: Final = 1.0
"""Seconds until it is asked again what became of an order that Slurm did not answer."""
_BACK_OFF: Final = BackOff(first=0.2, longest=30.0)


class DrainStatistics(Struct, frozen=True):
    """For metrics. `queue` holds nodes to decide upon, `extras` those whose Extra is to be written."""

    queue: QueueStatistics
    extras: QueueStatistics
    counts: OrderCounts
    marked: int
    waves: int
    delayed: bool
    """Whether drains wait for a wave of Pods to be ready again."""


class DrainController:
    """Work, to be made together with the collections."""

    name: Final = "drains"

    def __init__(
        self,
        context: Context,
        members: Members,
        *,
        want_reconfigure: Callable[[frozenset[str]], None],
        is_reached: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._context = context
        self._members = members
        self._snapshots = Snapshots(context, members, is_reached=is_reached)
        self._extra_writer = ExtraWriter(context, self._snapshots)
        self._executor = OrderExecutor(context, want_reconfigure=want_reconfigure)
        self._refused_orders = RefusedOrders()
        self._queue: Queue[str] = Queue(back_off=_BACK_OFF)

    @property
    def busy(self) -> bool:
        return any(queue.working for queue in (self._queue.statistics(), self._extra_writer.queue))

    @property
    def delayed(self) -> str:
        """What is put off for a while."""
        return self._snapshots.waves.delayed

    def report(self) -> Report:
        known = isinstance(self._context.mirror.state, Known)
        stuck = self._refused_orders.lasting(now=loopclock.now()) if known else ()
        return Report(delayed=self.delayed, stuck=stuck)

    def statistics(self) -> DrainStatistics:
        return DrainStatistics(
            queue=self._queue.statistics(),
            extras=self._extra_writer.queue,
            counts=replace(self._executor.counts),
            marked=self._extra_writer.written,
            waves=self._snapshots.waves.count,
            delayed=bool(self.delayed),
        )

    def enqueue(self, name: str) -> None:
        """Decide about a node again, for a reason that neither side shows."""
        self._queue.add(name)

    async def run(self) -> None:
        context = self._context
        with ExitStack() as subscriptions:
            subscriptions.callback(context.pods.store.subscribe(lambda key, *_: self._queue.add(key.name)))
            subscriptions.callback(context.mirror.nodes.subscribe(self._on_row))
            subscriptions.callback(self._members.subscribe(self._queue.add))
            # A Pod counts as ours when its NodeSet is known: until then a member would look as if it had none.
            await context.sets.store.complete()
            for store in (context.pods.store, context.slices.store):
                await store.complete()
            for member in self._members.all():
                self._queue.add(member.name, priority=Priority.LATER)
            async with asyncio.TaskGroup() as group:
                for duty, task in ((self._work(), "orders"), (self._extra_writer.run(), "extra")):
                    named = f"{self.name}: {task}"
                    group.create_task(forever(duty, name=named), name=named)

    async def shut_down(self) -> None:
        self._queue.close()
        await asyncio.gather(self._queue.idle(), self._extra_writer.shut_down())

    def _on_row(self, name: str, before: Node | None, after: Node | None) -> None:
        """Rows change all the time, by load and jobs: only what decisions stand on enqueues the node."""
        if after is not None and (before is None or not _same(before, after)):
            self._queue.add(name)

    async def _work(self) -> Never:
        gather = shortest = self._context.settings.gather
        clock = asyncio.get_running_loop().time
        while True:
            batch, began = await next_batch(self._queue, mirror=self._context.mirror), clock()
            ordered = False
            try:
                with survived(self.name):
                    ordered = await self._round(batch)
            finally:
                for name in batch:
                    self._queue.done(name)
            if ordered:
                await asyncio.sleep(began + gather - clock())
            gather = min(gather * _GROWTH, shortest * _LONGEST_GATHER) if ordered else shortest

    async def _round(self, batch: Collection[str]) -> bool:
        """Decide for these nodes and tell Slurm; say whether there was anything to tell."""
        actions = Actions()
        failed: dict[str, Exception] = {}
        try:
            self._report_wave()
            settled = await self._executor.settle()
            failed |= settled.failed
            for name in settled.unknown:
                self._queue.add_after(name, delay=_UNSETTLED)
            # Another order for a node would pass for somebody else's, and what is owed to that node would be dropped.
            free = [name for name in batch if name not in failed]
            actions = await self._plan(free)
            if actions.requests:  # a person is answered by what is so now, and may wait for a read
                await self._context.mirror.read_after()
                actions = await self._plan(free)
            failed |= await self._execute(actions) if actions else {}
        except Exception as trouble:  # noqa: BLE001 - whatever it is, the next change must still be handled
            failed |= dict.fromkeys(batch, trouble)
        for name in batch:
            if name not in failed:
                self._queue.forget(name)
        self._refused_orders.note(batch, failed, now=loopclock.now())
        self._retry(failed)
        return bool(actions)

    async def _execute(self, actions: Actions) -> dict[str, Exception]:
        """Tell Slurm, and decide once more about nodes that have changed; return what went wrong."""
        failed: dict[str, Exception] = {}
        changed: frozenset[str] = frozenset()
        for _ in range(_DECISIONS):
            result = await self._executor.execute(actions)
            failed, changed = failed | result.failed, result.changed
            if not changed or not (actions := await self._plan(changed)):
                return failed
        return failed | dict.fromkeys(changed, Stale("it keeps changing"))

    async def _plan(self, nodes: Iterable[str]) -> Actions:
        actions = Actions()
        for number, name in enumerate(nodes, 1):
            snapshot = self._snapshots.of(name)
            actions.add(name, pod=self._context.pod(name), snapshot=snapshot, skew=self._context.settings.clock_skew)
            if snapshot is not None:
                if extra.differs(snapshot):
                    self._extra_writer.enqueue(name)
                if (delay := self._snapshots.resync_after(snapshot)) is not None:
                    self._queue.add_after(name, delay=delay)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return actions

    def _retry(self, failed: dict[str, Exception]) -> None:
        """Enqueue what went wrong again, later each time; log each trouble once."""
        by_trouble: dict[Exception, list[str]] = {}
        for name, trouble in failed.items():
            by_trouble.setdefault(trouble, []).append(name)
        for trouble, names in by_trouble.items():
            delay = max(self._queue.retry(name) for name in names)
            known = isinstance(trouble, SlurmError | Stale | KubeError | ValueError)
            words = "%s: %s; retrying within %.1f s"
            log.warning(words, hostlist.shown(names), trouble, delay, exc_info=None if known else trouble)

    def _report_wave(self) -> None:
        wave = self._snapshots.waves.detect()
        if wave is None:
            return
        log.warning("%s", wave.message)
        cluster = self._context.clusters.store.get(Key(self._context.namespace, self._context.cluster))
        if cluster is not None:
            regarding = about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
            self._context.recorder.warn(regarding, "DrainsDelayed", wave.message, action="Drain")


def _same(before: Node, after: Node) -> bool:
    """Whether everything in a row that decisions stand on is as it was."""
    if before.state_bits != after.state_bits and _flags(before) != _flags(after):
        return False
    return (
        before.reason == after.reason
        and before.extra == after.extra
        and before.features == after.features
        and before.reason_time == after.reason_time
    )


def _flags(row: Node) -> tuple[bool, ...]:
    state = row.state
    return (
        state.draining,
        state.failing,
        state.rebooting,
        state.registered,
        state.in_power_saving,
        state.base is NodeBase.DOWN,
    )
