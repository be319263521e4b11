"""Slurm, asked from the event loop.

libslurm blocks: a read of thousands of nodes for milliseconds, any call at all for nine seconds and more while
slurmctld is away. So every call runs on one of a few threads (four give nearly all that slurmctld can give), and its
caller waits for a bounded time only.

That bound is in two steps. A call that takes longer than a moment (`doubt`) is no reason to give up, slurmctld may be
at work; but it is one to ask with a ping, which answers at once whether somebody is there. If nobody is, the caller
learns it now and not nine seconds later. If somebody is, the caller waits on, for `patience` at most. A read of all
tables has less: it is made again and again, and a slurmctld that answers pings and no reads hangs, which has to be known
within seconds. Where reads take long it has some times as long as the last one took.

A call that was given up cannot be recalled. Its thread ends it when libslurm does, and an order may still be carried
out; this is why `Unreachable` means "unknown". Pings have a thread of their own, so that they never queue behind calls
that are stuck; whoever asks during one shares it.

Waiting for a thread is no part of that bound: a thousand orders at once take as long as a thousand orders take, and
none of them has anything to complain about while others come to an end. So a call's time counts from when its thread
begins it, and until then from when slurmctld last answered any call.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from msgspec import Struct

from sunk.slurm.errors import InvalidJob, Pending, Unreachable
from sunk.slurm.libslurm.wire import Wire
from sunk.slurm.records import (
    Accounted,
    Allocation,
    Configuration,
    Job,
    Node,
    Partition,
    Reservation,
    Statistics,
    Table,
    Tables,
)

T = TypeVar("T")
THREADS: Final = 4
DOUBT: Final = 1.0
PATIENCE: Final = 20.0
READ_PATIENCE: Final = 5.0
"""For a read of all tables, if the last one took less than a tenth of that."""
SLOWER: Final = 10.0
"""How many times longer than the last a read may take."""
PING: Final = 2.0
NO_ANSWER: Final = 1800
"""SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR, also when it is us who stopped waiting."""


HANGS: Final = "slurmctld answers a ping, but not this"


class Turn(Struct):
    """When a call was asked for, and when a thread began it; 0 before that. By a clock that threads can read too."""

    queued: float
    began: float = 0.0


class Library:
    """Read Slurm's tables; `call` is for orders."""

    def __init__(self, wire: Wire, *, threads: int = THREADS, doubt: float = DOUBT, patience: float = PATIENCE) -> None:
        self.wire: Final = wire
        self._doubt = doubt
        self._patience = patience
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="slurm")
        self._most, self._working = threads, 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._pings = ThreadPoolExecutor(1, thread_name_prefix="slurm-ping")
        self._answered = 0.0
        self._read_took = math.inf
        """How long the last read of all tables took; before the first it may take as long as anything."""
        self._ping: asyncio.Future[bool] | None = None
        self._asking: set[str] = set()
        """What slurmdbd is being asked for."""

    @classmethod
    def load(cls, configuration: Path | None = None) -> Self:
        """Load libslurm into this process. Blocks for a moment: call it before the loop has work to do."""
        return cls(Wire(configuration))

    async def nodes(self, since: int = 0) -> Table[Node] | None:
        """Read all nodes; None if nothing changed since the `updated` of an earlier table."""
        return await self._table("nodes", since)

    async def jobs(self, since: int = 0) -> Table[Job] | None:
        return await self._table("jobs", since)

    async def partitions(self, since: int = 0) -> Table[Partition] | None:
        return await self._table("partitions", since)

    async def reservations(self, since: int = 0) -> Table[Reservation] | None:
        return await self._table("reservations", since)

    async def everything(self, since: Mapping[str, int]) -> Tables:
        """Read all tables, each as it changed since the time that came with it; by name, and 0 for those not named."""
        began, wanted = time.monotonic(), max(READ_PATIENCE, SLOWER * self._read_took)
        patience = min(wanted, self._patience)
        found = await self.call(partial(self.wire.everything, since), asked="read all tables", patience=patience)
        self._read_took = time.monotonic() - began
        return found

    async def all_nodes(self) -> Table[Node]:
        """Read all nodes, whether or not they changed."""
        found = await self.nodes()
        # Asked about the beginning of time Slurm has never said "unchanged"; if it did, we would know nothing.
        if found is None:
            raise Unreachable(
                NO_ANSWER, asked="read the nodes", text='slurmctld answered an unconditional read with "no change"'
            )
        return found

    async def job(self, number: int) -> tuple[Job, ...]:
        """Read one job (the tasks of an array are several); empty if Slurm does not know it, or no longer."""
        try:
            table: Table[Job] = await self.call(lambda: self.wire.table("job", number), asked=f"read job {number}")
        except InvalidJob:
            return ()
        return table.rows

    async def allocation(self, number: int) -> Allocation | None:
        """Read how many CPUs a job has on each of its nodes; None while it holds none."""
        try:
            found: Allocation = await self.call(
                lambda: self.wire.table("allocation", number), asked=f"read the allocation of job {number}"
            )
        except (InvalidJob, Pending):
            return None
        return found

    async def statistics(self) -> Statistics:
        return await self.call(self.wire.statistics, asked="read the statistics")

    async def boot_time(self) -> int:
        """When slurmctld started: another value means that what was read before may not hold."""
        return await self.call(self.wire.boot_time, asked="read the configuration")

    async def configuration(self) -> Configuration:
        """What slurmctld runs with, which may be another thing than what lies in its file."""
        return await self.call(self.wire.configuration, asked="read the configuration")

    async def accounted(self, cluster: str, jobs: Collection[int], *, since: int = 0) -> Table[Accounted]:
        """Ask slurmdbd for these jobs, one question at a time, on a thread that no call to slurmctld ever waits for.

        Rows that ended before `since` are left out. slurmdbd may take a quarter of an hour. Who gives up earlier is
        told Unreachable until the thread is free again, and the process may end over it.
        """
        return await self.ask_slurmdbd(lambda: self.wire.accounted(cluster, tuple(jobs), since), purpose="jobs")

    async def ask_slurmdbd(self, blocking: Callable[[], T], *, purpose: str) -> T:
        """Run a call to slurmdbd on a thread of its own, one at a time for each purpose.

        Nothing ends it but its answer. Who asks again for the same purpose before that is told Unreachable.
        """
        if purpose in self._asking:
            raise Unreachable(NO_ANSWER, asked="ask accounting", text="slurmdbd has not answered the last question yet")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def ask() -> T:
            try:
                return blocking()
            finally:
                self._asking.discard(purpose)  # before the answer is told, so that the next question can follow it

        self._asking.add(purpose)
        try:
            threading.Thread(target=_answered, args=(ask, answer), name=f"slurmdbd {purpose}", daemon=True).start()
        except BaseException:
            self._asking.discard(purpose)
            raise
        return await answer

    async def ping(self) -> bool:
        """Tell whether slurmctld answers, within two seconds."""
        if self._ping is None or self._ping.done():
            self._ping = asyncio.get_running_loop().run_in_executor(self._pings, self.wire.ping)
        done, _ = await asyncio.wait({asked := self._ping}, timeout=PING)
        return bool(done) and asked.result()

    async def call(self, blocking: Callable[[], T], *, asked: str, patience: float | None = None) -> T:
        """Run a blocking call of the wire on a thread, and wait for it within bounds."""
        patience = self._patience if patience is None else patience
        turn = Turn(queued=time.monotonic())
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._begin(partial(self._run, blocking, turn, answer))
        there, still = True, 0.0
        try:
            while there and still < self._doubt + patience:
                if await _settled(answer, within=self._doubt):
                    break
                still = time.monotonic() - (turn.began or max(turn.queued, self._answered))
                there = still < self._doubt / 2 or await self.ping()
            if answer.done():
                return answer.result()
        finally:
            answer.cancel()  # of a call that waits for a thread it is the end; one that runs cannot be recalled
        waited = HANGS if there else "slurmctld does not answer a ping"
        raise Unreachable(NO_ANSWER, asked=asked, text=waited, name="SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR")

    def _begin(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.append(work)
            if self._working == self._most:
                return
            self._working += 1
        self._threads.submit(self._work)

    def _work(self) -> None:
        """On a thread: do what waits, until nothing does. Handing over each alone costs both sides more time."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._working -= 1
                    return
                work = self._waiting.popleft()
            work()

    def _run(self, blocking: Callable[[], T], turn: Turn, answer: "asyncio.Future[T]") -> None:
        """On a thread: call, and tell the loop. What it needs to know before that is noted where it can look."""
        if answer.done():  # given up while it waited
            return
        turn.began = time.monotonic()
        try:
            found = blocking()
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            # One that did not get through is no sign that the next one will get any further.
            self._answered = self._answered if isinstance(error, Unreachable) else time.monotonic()
            _tell(answer, partial(answer.set_exception, error))
        else:
            self._answered = time.monotonic()
            _tell(answer, partial(answer.set_result, found))

    async def _table(self, name: str, since: int) -> Table[T] | None:
        found: Table[T] | None = await self.call(lambda: self.wire.table(name, since), asked=f"read the {name}")
        return found

    def close(self) -> None:
        """Take no further calls. Those on their way end by themselves."""
        with self._lock:
            self._waiting.clear()
        for pool in (self._threads, self._pings):
            pool.shutdown(wait=False, cancel_futures=True)


# What asyncio has for these two (`run_in_executor` and `wait`) takes twice the time, and there are thousands of calls.


def _tell(answer: "asyncio.Future[T]", settle: Callable[[], None]) -> None:
    """From a thread: settle an answer, unless nobody waits for it any more."""

    def in_the_loop() -> None:
        if not answer.done():
            settle()

    with suppress(RuntimeError):  # the loop may have been closed
        answer.get_loop().call_soon_threadsafe(in_the_loop)


def _answered(ask: Callable[[], T], answer: "asyncio.Future[T]") -> None:
    """On a thread: ask, and tell the loop."""
    try:
        found = ask()
    except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
        _tell(answer, partial(answer.set_exception, error))
    else:
        _tell(answer, partial(answer.set_result, found))


async def _settled(answer: "asyncio.Future[T]", *, within: float) -> bool:
    """Wait for so long; an answer that has not come by then is still waited for."""
    woken: asyncio.Future[None] = answer.get_loop().create_future()

    def wake(*_: object) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = answer.get_loop().call_later(within, wake)
    answer.add_done_callback(wake)
    try:
        await woken
    finally:
        timer.cancel()
        answer.remove_done_callback(wake)
    return answer.done()
