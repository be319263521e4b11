"""Slurm, asked from the event loop.

libslurm blocks: a read of thousands of nodes for milliseconds, any call at all for nine seconds and more while
slurmctld is away. So every call runs on one of a few threads (four give nearly all that slurmctld can give), and its
caller waits for a bounded time only.

That bound is in two steps. A call that takes longer than a moment (`doubt`) is no reason to give up, slurmctld may be
at work; but it is one to ask with a ping, which answers at once whether somebody is there. If nobody is, the caller
learns it now and not nine seconds later. If somebody is, the caller waits on, for `patience` at most.

A call that was given up cannot be recalled. Its thread ends it when libslurm does, and an order may still be carried
out; this is why `Unreachable` means «unknown». Pings have a thread of their own, so that they never queue behind calls
that are stuck; whoever asks during one shares it.

Waiting for a thread is no part of that bound: a thousand orders at once take as long as a thousand orders take, and
none of them has anything to complain about while others come to an end. So a call's time counts from when its thread
begins it, and until then from when slurmctld last answered any call.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from msgspec import Struct

from sunk.slurm.errors import InvalidJob, Pending, Unreachable
from sunk.slurm.reading import Others, together
from sunk.slurm.records import Allocation, Job, Node, Partition, Reservation, Statistics, Table
from sunk.slurm.wire import Wire

T = TypeVar("T")
THREADS: Final = 4
DOUBT: Final = 1.0
PATIENCE: Final = 20.0
PING: Final = 2.0
NO_ANSWER: Final = 1800
"""SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR, also when it is us who stopped waiting."""


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
        self._pings = ThreadPoolExecutor(1, thread_name_prefix="slurm-ping")
        self._answered = 0.0
        self._ping: asyncio.Future[bool] | None = None

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

    async def others(self, since: Mapping[str, int]) -> Others:
        """Read all tables but that of the nodes, and when slurmctld started."""
        (jobs, boot), (partitions, reservations) = await together(
            self.call(partial(self.wire.jobs_and_boot, since), asked="read the jobs"),
            self.call(partial(self.wire.layout, since), asked="read partitions and reservations"),
        )
        return Others(jobs, partitions, reservations, boot)

    async def all_nodes(self) -> Table[Node]:
        """Read all nodes, whether or not they changed."""
        found = await self.nodes()
        # Asked about the beginning of time Slurm has never said «unchanged»; if it did, we would know nothing.
        if found is None:
            raise Unreachable(
                NO_ANSWER, asked="read the nodes", text="an unconditional read was answered by «no change»"
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

    async def ping(self) -> bool:
        """Tell whether slurmctld answers, within two seconds."""
        if self._ping is None or self._ping.done():
            self._ping = asyncio.get_running_loop().run_in_executor(self._pings, self.wire.ping)
        done, _ = await asyncio.wait({asked := self._ping}, timeout=PING)
        return bool(done) and asked.result()

    async def call(self, blocking: Callable[[], T], *, asked: str) -> T:
        """Run a blocking call of the wire on a thread, and wait for it within bounds."""
        turn = Turn(queued=time.monotonic())
        answer = asyncio.get_running_loop().run_in_executor(self._threads, self._run, blocking, turn)
        there, still = True, 0.0
        try:
            while there and still < self._doubt + self._patience:
                if (await asyncio.wait({answer}, timeout=self._doubt))[0]:
                    break
                still = time.monotonic() - (turn.began or max(turn.queued, self._answered))
                there = still < self._doubt / 2 or await self.ping()
            if answer.done():
                return answer.result()
        finally:
            answer.cancel()  # of a call that waits for a thread it is the end; one that runs cannot be recalled
        waited = "slurmctld answers a ping, but not this" if there else "slurmctld does not answer a ping"
        raise Unreachable(NO_ANSWER, asked=asked, text=waited, name="SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR")

    def _run(self, blocking: Callable[[], T], turn: Turn) -> T:
        """On a thread: note what the loop needs to know. Waking it for that would cost as much as a call."""
        turn.began = time.monotonic()
        reached = True
        try:
            return blocking()
        except Unreachable:
            reached = False  # it is no sign that the next one will get any further
            raise
        finally:
            if reached:
                self._answered = time.monotonic()

    async def _table(self, name: str, since: int) -> Table[T] | None:
        found: Table[T] | None = await self.call(lambda: self.wire.table(name, since), asked=f"read the {name}")
        return found

    def close(self) -> None:
        """Take no further calls. Those on their way end by themselves."""
        for pool in (self._threads, self._pings):
            pool.shutdown(wait=False, cancel_futures=True)
