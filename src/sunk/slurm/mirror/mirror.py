"""The mirror: what Slurm says now, and how sure that is.

The problem. Slurm tells nobody when something changes; it has to be asked, and a whole table is the answer. Who asks
seldom is late, who asks often is a burden, and everybody who asks on their own is both. Worse are the ways to be wrong:
a change in the second of a read, a controller that came back with another clock or without its state, and one that is
away, which looks much like a cluster in which there is nothing. Pods, Nodes and jobs are deleted upon what stands here.

The design. One loop reads all tables, one read at a time, for everybody in the process.

- A read is conditional: each table is asked for with the time that the server gave with the last one, never with a
  time of ours. The server leaves a second of overlap, so a change in the same second is not missed. A clock that was
  set back defeats that, so all is read whole when it is seen to be back, after a reconnect, after a new boot time, and
  every half minute. The boot time is asked for at the end of a read that brought a table, or shortly after one: a
  restart in the middle of a read is then seen, and the read is done again.
- A read counts as a whole or not at all: no subscriber sees half of one. They are called once all of it is in place.
- `read_after` is for who has just written or was told something. It wants a read that *begins* after the call; one
  under way may have passed the row already. So all who ask during a read share the next one, which follows at once.
- Partitions and reservations change when a person changes them: unless somebody asks they are read once a second,
  however short the period, and with them slurmctld's clock. What is said to be unchanged in between is shown as such,
  but only a read with a look at the clock counts as one that was fresh (`age`).
- The period is short after a change or a question, and grows while nothing happens.
- If a read does not succeed, the state is `Unknown`: the rows stay, for people and metrics to look at, but they are not
  fresh, whatever is asked. One failure is enough. It costs a moment of patience, and not noticing may cost a job.
- If a read lacks nodes or jobs for which Slurm has no reason to let go of them, or shows a restarted slurmctld whose job
  numbers went back, it is `suspicious`: a controller that lost its state tells such things with full conviction. What
  counts as a reason, and what ends it, is in `confidence`. `require_fresh` stands in front of every act that destroys and
  minds all of this.

What was refused: to hide a suspicious read and go on showing the rows of before, since acts would then be decided on
what nobody says any more; one loop for each table, which is four times as much to reason about when slurmctld is lost;
and triggers (`strigger`), which come nine seconds late, once, and beside slurmctld.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import Any, Final, Never, Self

from sunk.model import faults, loopclock
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror import reading
from sunk.slurm.mirror.confidence import Known, MissingRow, Passage, Stale, State, Suspicion, Unknown
from sunk.slurm.mirror.doubts import Doubts
from sunk.slurm.mirror.reading import MirrorPace, MirrorStatistics, ReadCounts, ReadTables, TableReader
from sunk.slurm.mirror.rows import Rows, TableDifference
from sunk.slurm.records import Job, Node, Partition, Reservation

MOST_RESTARTS: Final = 3


class Mirror:
    """Tables of Slurm, kept by `run`. Such shares of the nodes and of unfinished jobs may vanish and be believed."""

    def __init__(
        self,
        reader: TableReader,
        *,
        pace: MirrorPace = MirrorPace(),  # noqa: B008 - frozen
        share: float = 0.5,
        job_share: float = 0.1,
    ) -> None:
        self.nodes: Final = Rows[str, Node]("nodes", key=lambda row: row.name)
        self.jobs: Final = Rows[int, Job]("jobs", key=lambda row: row.id)
        self.partitions: Final = Rows[str, Partition]("partitions", key=lambda row: row.name)
        self.reservations: Final = Rows[str, Reservation]("reservations", key=lambda row: row.name)
        self.state: State = Unknown(since=0.0, reason="not read yet")
        self._doubts = Doubts(self.nodes, self.jobs, share=share, job_share=job_share)
        self._reader = reader
        self._pace = pace
        self._period = pace.quickest
        self._updated: dict[str, int] = {}
        self._boot: int | None = None
        self._rebooted = False
        """slurmctld was found started since the last read that succeeded."""
        self._min_job_age = 0
        self._clock = 0
        self._attempt = 0.0
        """When this read began, or began again because slurmctld was started in the middle: that one's clock counts."""
        self._last: float | None = None
        """The same, of the last read that succeeded."""
        self._begun = self._whole = self._everything = float("-inf")
        self._failures = 0
        self._version = 0
        self._ended = False
        self._wanted = asyncio.Event()
        self._want_whole = False
        self._waiters: list[asyncio.Future[Known]] = []
        self._listeners: list[Callable[[State], None]] = []
        self._counts = ReadCounts()

    # How sure it is

    @property
    def age(self) -> float:
        """Seconds since a read began that is beyond doubt; all that was so then is in here. Infinite while unknown."""
        return loopclock.now() - self._begun if isinstance(self.state, Known) else float("inf")

    @property
    def begun(self) -> float:
        """When that read began, by the loop's clock; in the infinite past while unknown."""
        return self._begun if isinstance(self.state, Known) else float("-inf")

    @property
    def clock(self) -> int:
        """Slurmctld's own time in the read that `age` speaks of, in whole seconds; 0 before the first."""
        return self._clock

    @property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """What of the last reads is hard to believe; empty if all is well."""
        return self._doubts.suspicions((self.nodes, self.jobs, self.partitions, self.reservations))

    @property
    def suspicious(self) -> bool:
        return bool(self.suspicions)

    def require_fresh(self, *, within: float) -> None:
        """Stand in front of every act that destroys: what could not be read lately is not "gone", "idle", "drained"."""
        if isinstance(self.state, Unknown):
            raise Stale(
                f"the state of Slurm has been unknown for {loopclock.now() - self.state.since:.0f} s ({self.state.reason}): try again later"
            )
        if self.age > within:
            raise Stale(f"the last read of Slurm is {self.age:.1f} s old (limit {within:g} s)")
        for suspicion in self.suspicions:
            raise Stale(f"Slurm reports an implausible loss: {suspicion.reason}. Confirm it if it is correct")

    async def read_after(self, *, whole: bool = False) -> Known:
        """Wait for a read that begins after this call, and happens at once. Raises Stale if it does not succeed.

        Whoever destroys upon it asks for a whole one, which also a clock that was set back a moment ago cannot fool.
        """
        if self._ended:
            raise Stale("the mirror of Slurm has ended and no longer reads")
        waiter: asyncio.Future[Known] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._want_whole |= whole
        self._wanted.set()
        return await waiter

    def subscribe(self, listener: Callable[[State], None]) -> Callable[[], None]:
        """Be called after every read, failed or not, and after the subscribers of the rows. Returns how to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def expect_gone(self, nodes: Collection[str], *, within: float = 60.0) -> None:
        """Hear that these nodes are about to be deleted by us: their absence is then nothing to wonder about."""
        self._doubts.expect_gone(nodes, until=loopclock.now() + within)

    def doubt(self) -> None:
        """Believe no "no change" at the next read, and read soon.

        slurmctld (24.11) does not take the deletion of its very last nodes for a change.
        """
        self._want_whole = True
        self._wanted.set()

    def accept(self) -> None:
        """Hear from somebody who knows that what looked suspicious is true."""
        self._doubts.accept((self.nodes, self.jobs, self.partitions, self.reservations))

    @property
    def missing_jobs(self) -> Mapping[int, MissingRow[Job]]:
        """The jobs whose loss is hard to believe; empty if all is well with jobs."""
        return self._doubts.missing_jobs

    def hear_ended(self, proven: Mapping[int, MissingRow[Job]]) -> None:
        """Hear from accounting that these of the missing jobs have ended."""
        self._doubts.explain_jobs(proven)

    def statistics(self) -> MirrorStatistics:
        tables = (self.nodes, self.jobs, self.partitions, self.reservations)
        return MirrorStatistics(
            counts=copy(self._counts),
            age=self.age,
            period=self._period,
            suspicions=self.suspicions,
            rows={rows.name: len(rows) for rows in tables},
        )

    # The loop

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Read for as long as the block lasts. If reading ends by a fault, so does the block."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.run(), name="mirror of Slurm")
            try:
                yield self
            finally:
                task.cancel()

    async def run(self) -> Never:
        """Read for ever. Neither a Slurm that does not answer ends it nor a subscriber that fails."""
        asked: list[asyncio.Future[Known]] = []
        self.state = Unknown(since=loopclock.now(), reason="not read yet")
        try:
            while True:
                self._wanted.clear()
                asked, self._waiters = self._waiters, []
                await self._read(asked=bool(asked))
                self._answer(asked)
                await self._pause()
        finally:
            self._ended = True
            self.state = Unknown(since=loopclock.now(), reason="the mirror has ended")
            self._answer(asked + self._waiters)

    def _answer(self, asked: list[asyncio.Future[Known]]) -> None:
        for waiter in asked:
            if waiter.done():
                continue
            if isinstance(self.state, Known):
                waiter.set_result(self.state)
            else:
                waiter.set_exception(Stale(f"Slurm could not be read: {self.state.reason}"))

    async def _pause(self) -> None:
        """Wait for the next time or the next who asks, but never too short: many may ask, one after another."""
        pause = self._pace.back_off(self._failures) if self._failures else self._period
        # A back-off is there for when nobody asks: who does need not wait for all of a long one.
        least = min(pause, self._pace.quickest if self._failures else self._pace.rest)
        began = loopclock.now()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wanted.wait()
        if (left := began + least - loopclock.now()) > 0:
            await asyncio.sleep(left)

    async def _read(self, *, asked: bool) -> None:
        begun = loopclock.now()
        whole = self._want_whole or isinstance(self.state, Unknown) or begun - self._whole >= self._pace.whole
        seldom = whole or asked or begun - self._everything >= self._pace.seldom
        self._want_whole = False
        self._counts.reads += 1
        try:
            async with asyncio.timeout(self._pace.patience):
                found = await self._gather(whole=whole, seldom=seldom)
                self._counts.last_duration = loopclock.now() - begun
                self._take(found, begun=begun, asked=asked)
                self._everything = begun if seldom else self._everything
        except (SlurmError, TimeoutError, Stale) as error:
            self._lose(str(error) or f"no answer within {self._pace.patience:g} s")
        except Exception as fault:  # noqa: BLE001 - whatever it is, the next read may be well
            faults.note("mirror of Slurm", fault)
            self._lose(f"an unexpected error in the syncer: {faults.words(fault)}")
        else:
            faults.over("mirror of Slurm")
        for listener in tuple(self._listeners):
            with faults.survived("who listens to the mirror of Slurm"):
                listener(self.state)

    async def _gather(self, *, whole: bool, seldom: bool) -> ReadTables:
        """Ask for everything, and again from the beginning if slurmctld's clock went back or it was restarted."""
        if self._boot is None:
            await self._know_boot()
        for _ in range(MOST_RESTARTS):
            known, self._attempt = self.reservations.all(), loopclock.now()
            found = await reading.read(self._reader, self._updated, whole=whole, seldom=seldom, reservations=known)
            if found.clock is None:
                return found
            back, self._clock = found.clock < self._clock, found.clock
            # Where no table came, and none could be kept from us, what was known when the read began is still so.
            sure = found.nothing and not back and not self._may_hide(found.clock)
            if sure or not (await self._restarted() or back):
                return found
            whole = True
        raise Stale("slurmctld keeps restarting, or its clock keeps going backwards")

    def _may_hide(self, clock: int) -> bool:
        return reading.may_hide(clock, self._updated, passed=loopclock.now() - self._begun)

    async def _restarted(self) -> bool:
        if self._boot == await self._reader.boot_time():
            return False
        await self._know_boot()
        self._rebooted = True
        self._counts.restarts += 1
        return True

    async def _know_boot(self) -> None:
        runs = await self._reader.configuration()
        self._boot, self._min_job_age = runs.boot_time, runs.min_job_age

    def _lose(self, reason: str) -> None:
        self._failures += 1
        self._counts.failures += 1
        self.state = Unknown(
            since=self.state.since if isinstance(self.state, Unknown) else loopclock.now(), reason=reason
        )

    def _take(self, found: ReadTables, *, begun: float, asked: bool) -> None:
        differences = [*self._differences(found)]
        passage = self._passage(begun)
        for rows, difference in differences:
            self._doubts.examine(rows, difference, passage)
            rows.replace(difference)
        self._last, self._rebooted = self._attempt, self._rebooted and not found.whole
        changed = any(difference.changes for _, difference in differences)
        self._version += 1
        self.state = Known(since=self.state.since if isinstance(self.state, Known) else begun, version=self._version)
        self._begun = self._begun if found.clock is None else begun
        self._failures = 0
        self._whole = begun if found.whole else self._whole
        self._counts.whole += found.whole
        self._counts.unchanged += not changed
        self._period = self._pace.after(self._period, quick=changed or asked)
        told = {rows.name: difference for rows, difference in differences}
        for rows in (self.nodes, self.jobs, self.partitions, self.reservations):
            if rows.name in told or rows.unheard:
                rows.tell(told.get(rows.name))

    def _differences(self, found: ReadTables) -> Iterator[tuple[Rows[Any, Any], TableDifference[Any, Any]]]:
        held: tuple[Rows[Any, Any], ...] = (self.nodes, self.jobs, self.partitions, self.reservations)
        for rows, table in zip(held, found.tables, strict=True):
            if table is not None:
                self._updated[rows.name] = table.updated
                self._doubts.unreadable(rows.name, table.unreadable, now=loopclock.now())
                yield rows, rows.compare(table.rows, unreadable=table.unreadable)

    def _passage(self, begun: float) -> Passage:
        return Passage(
            now=begun,
            gap=0.0 if self._last is None else self._attempt - self._last,
            clock=self._clock,
            restarted=self._rebooted,
            boot=self._boot or 0,
            min_job_age=self._min_job_age,
        )
