"""One read of everything that Slurm has tables of, and whether its times can be trusted.

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

from sunk.slurm.mirror.confidence import ROUNDING, Stale
from sunk.slurm.records import Configuration, Job, Node, Partition, Reservation, Table, Tables

SELDOM: Final = ("partitions", "reservations")
"""These change when a person changes them."""
NOT_NOW: Final = -1
"""Instead of a time: the table is not asked for, and comes as one that has not changed."""


class Reader(Protocol):
    """What is asked of Slurm, with the times that came with earlier tables, by name; 0 is long before any change.

    All but nodes can be left out (`NOT_NOW`).
    """

    async def everything(self, since: Mapping[str, int]) -> Tables: ...
    async def boot_time(self) -> int: ...
    async def configuration(self) -> Configuration: ...


class Found(Struct, frozen=True):
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
    reader: Reader,
    since: Mapping[str, int],
    *,
    whole: bool,
    seldom: bool = True,
    reservations: Collection[Reservation] = (),
) -> Found:
    """Ask for all tables, each as it changed since the time that came with it; or for all of them, if it is whole.

    `seldom` says whether to ask for those too that change seldom; `reservations` are those that are known.
    """
    wanted = {**since, "reservations": 0} if seldom else {**since, **dict.fromkeys(SELDOM, NOT_NOW)}
    now = await reader.everything({} if whole else wanted)
    if whole and None in (now.nodes, now.jobs, now.partitions, now.reservations):
        raise Stale('slurmctld answered "no change" when asked for everything')
    # In the order in which they are asked for, the last first.
    clock = next((one.updated for one in (now.reservations, now.partitions, now.jobs, now.nodes) if one), None)
    newer = now.reservations
    if newer and not whole and frozenset(newer.rows) == frozenset(reservations):
        newer = None
    return Found(whole, now.nodes, now.jobs, now.partitions, newer, clock=clock)


def may_hide(clock: int, since: Mapping[str, int], *, passed: float) -> bool:
    """Whether "no change" may be said by a slurmctld whose clock is behind, though it does not look so.

    A change is kept from us if its time is before that of our table. If the clock was set back that far, then it is now
    behind what it showed when it was last looked at, `passed` seconds ago, or it was set back by no more than has passed
    since. So only a table that is not older than that can be meant.
    """
    return max(since.values()) >= clock - passed - ROUNDING
