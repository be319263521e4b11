"""One read of everything that Slurm has tables of.

Nodes take slurmctld longest even if none changed, because it looks at each; so all the rest is asked for meanwhile, on
two threads that take about as long. One for each table would be no faster: with nothing to tell, handing a call over to
a thread costs us as much as the call. And three threads at a time leave one for orders.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sunk.slurm.belief import Stale
from sunk.slurm.records import Job, Node, Partition, Reservation, Table

A = TypeVar("A")
B = TypeVar("B")


class Others(Struct, frozen=True):
    """All tables but that of the nodes, and when slurmctld started. None: unchanged."""

    jobs: Table[Job] | None
    partitions: Table[Partition] | None
    reservations: Table[Reservation] | None
    boot: int


class Reader(Protocol):
    """What is asked of Slurm, with the times that came with earlier tables, by name; 0 is long before any change."""

    async def nodes(self, since: int = 0) -> Table[Node] | None: ...
    async def others(self, since: Mapping[str, int]) -> Others: ...
    async def boot_time(self) -> int: ...


class Found(Struct, frozen=True):
    """What Slurm answered. None: unchanged."""

    whole: bool
    nodes: Table[Node] | None
    jobs: Table[Job] | None
    partitions: Table[Partition] | None
    reservations: Table[Reservation] | None
    boot: int

    @property
    def tables(self) -> tuple[Table[Any] | None, ...]:
        return self.nodes, self.jobs, self.partitions, self.reservations

    @property
    def nothing(self) -> bool:
        return all(table is None for table in self.tables)


async def read(reader: Reader, since: Mapping[str, int], *, whole: bool) -> Found:
    """Ask for all tables, each as it changed since the time that came with it; or for all of them, if it is whole."""
    times: Mapping[str, int] = {} if whole else since
    nodes, others = await together(reader.nodes(times.get("nodes", 0)), reader.others(times))
    found = Found(whole, nodes, others.jobs, others.partitions, others.reservations, others.boot)
    if whole and None in found.tables:
        raise Stale("slurmctld answered «no change» when asked for everything")
    # slurmctld may have been started anew in between, and the tables then come from both. Where no table came, what
    # was known before is still what was so when the read began.
    return found if found.nothing else replace(found, boot=await reader.boot_time())


async def together(one: Coroutine[Any, Any, A], other: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Await both at once. If one fails, the other is given up before that is told."""
    try:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(one, name="read a part of Slurm")
            second = group.create_task(other, name="read another part of Slurm")
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return first.result(), second.result()
