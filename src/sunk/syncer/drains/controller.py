"""Kubernetes to Slurm: drains, features and orders of people, for all nodes that changed in one go.

Whatever changes on either side is a wish to look at that node: a Pod, an entry of a NodeSlice, a row of Slurm. One
worker takes all that have gathered, decides for each of them by pure rules, and tells Slurm in as few calls as there
are different things to tell. The first change after a quiet time is acted on at once; while more come, rounds follow in
growing distance, so that a thousand changes cost a handful of calls.

What is decided upon is the mirror, which may be older than a person's drain, and people do drain and cordon in one
breath. So each order about a drain holds only for nodes that are still as they were seen, which is looked at right
before it is sent (`sunk.slurm.orders.guarded`); the others are decided once more, upon a read that began after that.
Afterwards all is read once more: nothing is remembered of what was sent, and what did not take effect is seen.

While Slurm does not answer, nothing is decided and wishes wait. An order that was refused is tried again, later and
later, and keeps nobody else waiting.

What was refused: a reconcile for each node, as Pods and Nodes have it, since a call for each node is what makes a
thousand cordons slow; and a memory of what was sent, since it would be wrong whenever somebody else has a say.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from typing import Final, Never

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.control.events import about
from sunk.kube.control.queue import BackOff, Priority, Queue, QueueStatistics
from sunk.kube.control.tasks import forever
from sunk.kube.errors import KubeError
from sunk.kube.resource import Key
from sunk.model import hostlist
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract.report import Report
from sunk.model.faults import survived
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Ground
from sunk.syncer.drains import extra
from sunk.syncer.drains.executor import Counts, Teller
from sunk.syncer.drains.marking import Marking
from sunk.syncer.drains.plan import Groups
from sunk.syncer.drains.refused import Refused
from sunk.syncer.drains.snapshot import Pairs, taken
from sunk.syncer.members import Members

log = logging.getLogger(__name__)

_GROWTH: Final = 1.5
_LONGEST_GATHER: Final = 10
"""How often `gather` at most, however much there is to do."""
_SLICE: Final = 500
"""Nodes looked at before others get a turn."""
_LOOKS: Final = 3
"""How often nodes that change under our hands are decided upon in one round."""
_UNSETTLED: Final = 1.0
"""Seconds until it is asked again what became of an order that Slurm did not answer."""
_BACK_OFF: Final = BackOff(first=0.2, longest=30.0)


class DownwardStatistics(Struct, frozen=True):
    """For metrics. `queue` is of nodes to look at, `extras` of those whose Extra is to be written."""

    queue: QueueStatistics
    extras: QueueStatistics
    counts: Counts
    marked: int
    waves: int
    delayed: bool
    """Whether drains wait for a wave of Pods to be ready again."""


class Downward:
    """Work, to be made together with the collections."""

    name: Final = "downward"

    def __init__(self, ground: Ground, members: Members, *, want_reconfigure: Callable[[frozenset[str]], None]) -> None:
        self._ground = ground
        self._members = members
        self._pairs = Pairs(ground, members)
        self._marking = Marking(ground, self._pairs)
        self._teller = Teller(ground, want_reconfigure=want_reconfigure)
        self._refused = Refused()
        self._queue: Queue[str] = Queue(back_off=_BACK_OFF)

    @property
    def busy(self) -> bool:
        return any(each.working for each in (self._queue.statistics(), self._marking.queue))

    @property
    def delayed(self) -> str:
        """What is put off for a while."""
        return self._pairs.falls.delayed

    def report(self) -> Report:
        known = isinstance(self._ground.mirror.state, Known)
        stuck = self._refused.lasting(now=asyncio.get_running_loop().time()) if known else ()
        return Report(delayed=self.delayed, stuck=stuck)

    def statistics(self) -> DownwardStatistics:
        return DownwardStatistics(
            queue=self._queue.statistics(),
            extras=self._marking.queue,
            counts=replace(self._teller.counts),
            marked=self._marking.written,
            waves=self._pairs.falls.waves,
            delayed=bool(self.delayed),
        )

    async def run(self) -> None:
        ground = self._ground
        with ExitStack() as subscriptions:
            subscriptions.callback(ground.pods.store.subscribe(lambda key, *_: self._queue.add(key.name)))
            subscriptions.callback(ground.mirror.nodes.subscribe(self._hear))
            subscriptions.callback(self._members.subscribe(self._queue.add))
            for store in (ground.pods.store, ground.slices.store):
                await store.complete()
            for member in self._members.all():
                self._queue.add(member.name, priority=Priority.LATER)
            async with asyncio.TaskGroup() as group:
                for duty, task in ((self._work(), "orders"), (self._marking.run(), "extra")):
                    named = f"{self.name}: {task}"
                    group.create_task(forever(duty, name=named), name=named)

    async def shut_down(self) -> None:
        self._queue.close()
        await asyncio.gather(self._queue.idle(), self._marking.shut_down())

    def _hear(self, name: str, before: Node | None, after: Node | None) -> None:
        """Rows change all the time, by load and jobs: only what is decided upon is a reason to look."""
        if after is not None and (before is None or not _same(before, after)):
            self._queue.add(name)

    async def _work(self) -> Never:
        gather = shortest = self._ground.manner.gather
        clock = asyncio.get_running_loop().time
        while True:
            found, began = await taken(self._queue, mirror=self._ground.mirror), clock()
            told = False
            try:
                with survived(self.name):
                    told = await self._round(found)
            finally:
                for name in found:
                    self._queue.done(name)
            if told:
                await asyncio.sleep(began + gather - clock())
            gather = min(gather * _GROWTH, shortest * _LONGEST_GATHER) if told else shortest

    async def _round(self, found: Collection[str]) -> bool:
        """Look at these nodes and tell Slurm; say whether there was anything to tell."""
        groups = Groups()
        failed: dict[str, Exception] = {}
        try:
            self._tell_of_waves()
            settled = await self._teller.settle()
            failed |= settled.failed
            for name in settled.unknown:
                self._queue.add_after(name, delay=_UNSETTLED)
            # Another order for a node would pass for somebody's word, and what is owed to that node be dropped.
            free = [name for name in found if name not in failed]
            groups = await self._look(free)
            if groups.asked:  # a person is answered by what is so now, and may wait for a read
                await self._ground.mirror.read_after()
                groups = await self._look(free)
            failed |= await self._tell(groups) if groups else {}
        except Exception as trouble:  # noqa: BLE001 - whatever it is, the next change must still be looked at
            failed |= dict.fromkeys(found, trouble)
        for name in found:
            if name not in failed:
                self._queue.forget(name)
        self._refused.note(found, failed, now=asyncio.get_running_loop().time())
        self._put_off(failed)
        return bool(groups)

    async def _tell(self, groups: Groups) -> dict[str, Exception]:
        """Tell Slurm, and decide once more about those that are not what they were; give what went wrong."""
        failed: dict[str, Exception] = {}
        changed: frozenset[str] = frozenset()
        for _ in range(_LOOKS):
            result = await self._teller.tell(groups)
            failed, changed = failed | result.failed, result.changed
            if not changed or not (groups := await self._look(changed)):
                return failed
        return failed | dict.fromkeys(changed, Stale("it changes all the time"))

    async def _look(self, found: Iterable[str]) -> Groups:
        groups = Groups()
        for number, name in enumerate(found, 1):
            pair = self._pairs.of(name)
            groups.add(name, pod=self._ground.pod(name), pair=pair, skew=self._ground.manner.skew)
            if pair is not None:
                if extra.differs(pair):
                    self._marking.wish(name)
                if (delay := self._pairs.again(pair)) is not None:
                    self._queue.add_after(name, delay=delay)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return groups

    def _put_off(self, failed: dict[str, Exception]) -> None:
        """Look again at what went wrong, later each time; say each trouble once."""
        by_trouble: dict[Exception, list[str]] = {}
        for name, trouble in failed.items():
            by_trouble.setdefault(trouble, []).append(name)
        for trouble, names in by_trouble.items():
            delay = max(self._queue.retry(name) for name in names)
            known = isinstance(trouble, SlurmError | Stale | KubeError | ValueError)
            words = "%s: %s; again in %.1f s at most"
            log.warning(words, hostlist.shown(names), trouble, delay, exc_info=None if known else trouble)

    def _tell_of_waves(self) -> None:
        wave = self._pairs.falls.look()
        if wave is None:
            return
        log.warning("%s", wave.words)
        cluster = self._ground.clusters.store.get(Key(self._ground.namespace, self._ground.cluster))
        if cluster is not None:
            regarding = about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
            self._ground.recorder.warn(regarding, "DrainsDelayed", wave.words, action="Drain")


def _same(before: Node, after: Node) -> bool:
    """Whether all of a row that is decided upon is as it was."""
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
