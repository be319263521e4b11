"""One read of everything that Slurm has tables of, and whether its times can be trusted.

Each table is asked for with the time that slurmctld gave with the last one; «no change» is then to be believed as long
as its clock only went forward. So every read takes a look at that clock. It comes with a table that is read whole each
time, that of the reservations: there are few, mostly none, and no call could be cheaper. (When slurmctld started would
tell a restart, which is the usual reason for another clock, but that comes with all of its configuration, in a call of
its own; and a clock can be set back without a restart.)
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from sunk.slurm.belief import Stale
from sunk.slurm.records import Job, Node, Partition, Reservation, Table, Tables

NOT_NOW: Final = -1
"""Instead of a time: the table is not asked for, and comes as one that has not changed."""
ROUNDING: Final = 2
"""Seconds: two times of whole seconds, each up to one too early."""


class Reader(Protocol):
    """What is asked of Slurm, with the times that came with earlier tables, by name; 0 is long before any change.

    Partitions can be left out (`NOT_NOW`).
    """

    async def everything(self, since: Mapping[str, int]) -> Tables: ...
    async def boot_time(self) -> int: ...


class Found(Struct, frozen=True):
    """What Slurm answered. None: unchanged."""

    whole: bool
    nodes: Table[Node] | None
    jobs: Table[Job] | None
    partitions: Table[Partition] | None
    reservations: Table[Reservation] | None
    clock: int
    """slurmctld's, in whole seconds."""

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
    partitions: bool = True,
    reservations: Collection[Reservation] = (),
) -> Found:
    """Ask for all tables, each as it changed since the time that came with it; or for all of them, if it is whole.

    `partitions` says whether to ask for those too; `reservations` are those that are known.
    """
    left_out = {} if partitions else {"partitions": NOT_NOW}
    now = await reader.everything({} if whole else {**since, **left_out})
    if whole and None in (now.nodes, now.jobs, now.partitions):
        raise Stale("slurmctld answered «no change» when asked for everything")
    same = not whole and frozenset(now.reservations.rows) == frozenset(reservations)
    return Found(
        whole, now.nodes, now.jobs, now.partitions, None if same else now.reservations, clock=now.reservations.updated
    )


def may_hide(found: Found, since: Mapping[str, int], *, passed: float) -> bool:
    """Whether «no change» may be said by a slurmctld whose clock is behind, though it does not look so.

    A change is kept from us if its time is before that of our table. If the clock was set back that far, then it is now
    behind what it showed at the last read, `passed` seconds ago, or it was set back by no more than has passed since. So
    only a table that is not older than that can be meant.
    """
    return max(since.values()) >= found.clock - passed - ROUNDING
