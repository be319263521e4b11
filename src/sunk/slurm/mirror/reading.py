"""How Slurm is read: how often, everything that it has tables of at once, and whether its times can be trusted.

Each table is asked for with the time that slurmctld gave with the last one; "no change" is then to be believed as long
as its clock only went forward. So that clock is looked at again and again. It comes with every table, and reservations
are therefore read whole each time: there are few, mostly none, and no call could be cheaper. (When slurmctld started
would tell a restart, which is the usual reason for another clock, but that comes with all of its configuration, in a
call of its own; and a clock can be set back without a restart.)

Every call costs all sides the same, however little it brings. So there are two kinds of reads: of everything, and of
what moves by itself, nodes and jobs, with half the calls. The second kind has no clock unless a table came.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from sunk.model.backoff import BackOff
from sunk.slurm.mirror.confidence import ROUNDING, Stale, Suspicion
from sunk.slurm.records import Configuration, Job, Node, Partition, Reservation, Table, Tables

SELDOM: Final = ("partitions", "reservations")
"""These change when a person changes them."""
NOT_NOW: Final = -1
"""Instead of a time: the table is not asked for, and comes as one that has not changed."""


class TableReader(Protocol):
    """What is asked of Slurm, with the times that came with earlier tables, by name; 0 is long before any change.

    All but nodes can be left out (`NOT_NOW`).
    """

    async def everything(self, since: Mapping[str, int]) -> Tables: ...
    async def boot_time(self) -> int: ...
    async def configuration(self) -> Configuration: ...


class ReadTables(Struct, frozen=True):
    """What Slurm answered. None: unchanged."""

    whole: bool
    nodes: Table[Node] | None
    jobs: Table[Job] | None
    partitions: Table[Partition] | None
    reservations: Table[Reservation] | None
    clock: int | None
    """slurmctld's, in whole seconds; None if no table came and none was asked for that always does."""

    @property
    def tables(self) -> tuple[Table[Any] | None, ...]:
        return self.nodes, self.jobs, self.partitions, self.reservations

    @property
    def nothing(self) -> bool:
        return all(table is None for table in self.tables)


async def read(
    reader: TableReader,
    since: Mapping[str, int],
    *,
    whole: bool,
    seldom: bool = True,
    reservations: Collection[Reservation] = (),
) -> ReadTables:
    """Ask for all tables, each as it changed since the time that came with it; or for all of them, if it is whole.

    `seldom` says whether to ask for those too that change seldom; `reservations` are those that are known.
    """
    wanted = {**since, "reservations": 0} if seldom else {**since, **dict.fromkeys(SELDOM, NOT_NOW)}
    now = await reader.everything({} if whole else wanted)
    if whole and None in (now.nodes, now.jobs, now.partitions, now.reservations):
        raise Stale('slurmctld answered "no change" when asked for everything')
    # In the order in which they are asked for, the last first.
    clock = next((table.updated for table in (now.reservations, now.partitions, now.jobs, now.nodes) if table), None)
    newer = now.reservations
    if newer and not whole and frozenset(newer.rows) == frozenset(reservations):
        newer = None
    return ReadTables(whole, now.nodes, now.jobs, now.partitions, newer, clock=clock)


def may_hide(clock: int, since: Mapping[str, int], *, passed: float) -> bool:
    """Whether "no change" may be said by a slurmctld whose clock is behind, though it does not look so.

    A change is kept from us if its time is before that of our table. If the clock was set back that far, then it is now
    behind what it showed when it was last looked at, `passed` seconds ago, or it was set back by no more than has passed
    since. So only a table that is not older than that can be meant.
    """
    return max(since.values()) >= clock - passed - ROUNDING


class MirrorPace(Struct, frozen=True):
    """How often to read, in seconds."""

    quickest: float = 0.2
    slowest: float = 0.65
    growth: float = 1.5
    rest: float = 0.01
    """The least time between two reads, however many ask."""
    retry: float = 0.1
    """The least time after one that failed; doubled with each, up to `longest_retry`."""
    longest_retry: float = 5.0
    whole: float = 30.0
    """After so long nothing is believed to be unchanged."""
    seldom: float = 1.0
    """Partitions and reservations are read this often, where nobody asks, and slurmctld's clock is looked at."""
    patience: float = 30.0
    """A read that takes longer has failed. The reader's own bounds are shorter; this one is the last."""

    def __post_init__(self) -> None:
        if not 0 < self.rest <= self.quickest <= self.slowest or self.growth < 1:
            raise ValueError(f"{self} is not valid: it needs 0 < rest ≤ quickest ≤ slowest and growth ≥ 1")

    def after(self, period: float, *, quick: bool) -> float:
        return self.quickest if quick else min(period * self.growth, self.slowest)

    def back_off(self, failures: int) -> float:
        return BackOff(self.retry, self.longest_retry).delay(failures)


class ReadCounts(Struct):
    """What was done since the start; the duration in seconds."""

    reads: int = 0
    unchanged: int = 0
    whole: int = 0
    failures: int = 0
    restarts: int = 0
    last_duration: float = 0.0


class MirrorStatistics(Struct, frozen=True):
    """For metrics. Times are in seconds; `age` is infinite while nothing is known."""

    counts: ReadCounts
    age: float
    period: float
    suspicions: tuple[Suspicion, ...]
    rows: dict[str, int]
