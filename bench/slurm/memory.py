"""Read and submit for a long time, and look at the memory of this process now and then."""

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.slurm.submits import submit
from sunk.slurm.libslurm.library import THREADS, Library
from sunk.slurm.orders.jobs import JobOrders
from sunk.slurm.records import Table

PAGE = os.sysconf("SC_PAGE_SIZE")
WHOLE = (10, 2, 1, 1)
"""Of a thousand reads so many are whole: of nodes, jobs, partitions, reservations. The rest are conditional."""
CONDITIONAL = (0, 1, 1, 2, 3, 1, 1, 2, 3, 1)
"""Which tables are read so, in turn."""


def resident() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


async def round_of(library: Library, *, reads: int, submits: int) -> float:
    """Submit and cancel some jobs, read some thousand times, and give the megabytes that are resident after it."""
    left = iter(await submit(library, count=submits))
    jobs = JobOrders(library)

    async def cancel() -> None:
        for number in left:
            await jobs.cancel(number)

    await asyncio.gather(*(cancel() for _ in range(THREADS)))
    await asyncio.sleep(1.1)  # in the second of a change every read is whole
    for _ in range(reads // 1000):
        await _thousand(library)
    return resident()


async def _thousand(library: Library) -> None:
    """Whole reads first: what they give has the times to ask with in the conditional ones."""
    tables = (library.nodes, library.jobs, library.partitions, library.reservations)
    since = [await _whole(table, times) for table, times in zip(tables, WHOLE, strict=True)]
    left = iter(range(1000 - sum(WHOLE)))

    async def some() -> None:
        for turn in left:
            which = CONDITIONAL[turn % len(CONDITIONAL)]
            if found := await tables[which](since[which]):
                since[which] = found.updated  # slurmctld forgets cancelled jobs now and then

    await asyncio.gather(*(some() for _ in range(THREADS)))


async def _whole(read: Callable[[], Awaitable[Table[Any] | None]], times: int) -> int:
    updated = 0
    for _ in range(times):
        found = await read()
        updated = found.updated if found else 0
    return updated
