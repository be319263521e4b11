"""Work that looks around every few seconds survives whatever a look raises."""

import asyncio

import pytest

from sunk.slurm.mirror.confidence import Stale
from sunk.syncer.work import PeriodicWork

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("fault", [Stale("later"), ValueError("a job state of a newer Slurm"), RecursionError("deep")])
async def test_a_look_that_fails_is_repeated_whatever_it_was(fault: Exception) -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise fault

    task = asyncio.create_task(PeriodicWork("test", look, period=1.0).run())
    await asyncio.sleep(4.5)
    assert not task.done()
    assert looks == 5
    task.cancel()
