"""Submit held jobs as fast as slurmctld takes them; `submit.c` does the same in C."""

import asyncio
import time

from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.library import THREADS, Library
from sunk.slurm.orders.jobs import JobOrders

ALICE = 1001
# Held: it neither starts nor costs a scheduler anything, on whatever nodes there are.
JOB = JobDescription(
    name="bench",
    script="#!/bin/sh\nsleep 600\n",
    user_id=ALICE,
    group_id=ALICE,
    min_nodes=1,
    memory=100,
    priority=0,
    extra='{"bench": true}',
)
AHEAD = 4
"""As many wait for each thread: whoever submits a lot does not wait for one to be taken before he asks for the next."""


async def submit(library: Library, *, count: int) -> list[int]:
    """Give the numbers of the new jobs."""
    jobs, left = JobOrders(library), iter(range(count))
    numbers: list[int] = []

    async def some() -> None:
        numbers.extend([(await jobs.submit(JOB)).job for _ in left])

    await asyncio.gather(*(some() for _ in range(THREADS * AHEAD)))
    return numbers


async def timed(library: Library, *, count: int) -> float:
    began = time.monotonic()
    await submit(library, count=count)
    return time.monotonic() - began
