"""Ten thousand jobs of a plain user, each with 4 KB of texts: the mirror keeps what it needs of them."""

import asyncio
import gc
from pathlib import Path

import pytest

from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.bounds import JOB_TEXT
from sunk.slurm.orders.jobs import JobOrders

pytestmark = pytest.mark.timeout(1500)
MANY = 10_000
MOST = 60
"""MiB that they may take."""
USER = 1001


def resident() -> float:
    """MiB of this process that are in memory."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def wanted(number: int) -> JobDescription:
    text = f"{number:05d}".ljust(JOB_TEXT, "x")
    nodes = ",".join(["n1"] * (JOB_TEXT // 3))
    return JobDescription(
        name=text,
        comment=text,
        extra=text,
        wanted_nodes=nodes,
        min_nodes=1,
        memory=10,
        priority=0,
        user_id=USER,
        group_id=USER,
    )


async def test_the_texts_of_ten_thousand_jobs_do_not_fill_the_memory(library: Library, jobs: JobOrders) -> None:
    mirror = Mirror(library)
    async with mirror.running():
        await mirror.read_after(whole=True)
        before = resident()
        for start in range(0, MANY, 500):
            await asyncio.gather(*(jobs.allocate(wanted(number)) for number in range(start, start + 500)))
        await mirror.read_after(whole=True)
        gc.collect()
        grown = resident() - before
        assert len(mirror.jobs) == MANY
    print(f"{MANY:,} jobs with 4 KB of texts each: {grown:.1f} MiB")  # noqa: T201 - a figure
    assert grown < MOST, f"{grown:.1f} MiB"
