"""Jobs that are gone when slurmctld is back, with accounting: what it proves to have ended holds nothing back."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.integration.syncer.stage import Stage, on_stage
from tests.versions import BOTH

from sunk.local.slurm.configuration import CONTROLLER
from sunk.slurm.mirror.accounting import EVERY
from sunk.slurm.mirror.confidence import UNSAVED

pytestmark = [on_stage, pytest.mark.timeout(900)]
SLURM = {"config": {"MinJobAge": 2, "AccountingStorageEnforce": None}, "accounting": True}
VERSIONS = BOTH


@asynccontextmanager
async def stopped_syncer(stage: Stage) -> AsyncIterator[None]:
    """It neither reads nor writes, as on a machine that hangs, and remembers all."""
    process = stage.slurm.machines.daemon("syncer")
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


async def forgotten(stage: Stage, job: int) -> None:
    """Wait until slurmctld does not know it any more."""
    await stage.eventually(lambda: stage.job_state(job), lambda state: state == "", seconds=240)


async def test_jobs_that_ended_unseen_over_a_restart_hold_nothing_back_once_accounting_says_so(stage: Stage) -> None:
    for name in ("a1", "a2"):
        await stage.join(name)
    jobs = sorted([await stage.sbatch(name) for name in ("a1", "a2")])
    await asyncio.sleep(UNSAVED + 15)
    async with stopped_syncer(stage):
        for job in jobs:
            await stage.scancel(job)
        for job in jobs:
            await forgotten(stage, job)
            await stage.accounted(job, "CANCELLED by 0")
        await asyncio.to_thread(stage.slurm.stop, "accounting")
        await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
        await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await stage.held(f"2 of 2 jobs disappeared at once: {jobs[0]}, {jobs[1]}")
    await asyncio.sleep(EVERY + 2)
    await stage.held("2 of 2 jobs disappeared at once")  # nobody can be asked, and that proves nothing
    await asyncio.to_thread(stage.slurm.start, "accounting")
    await stage.not_held(seconds=180)
    await stage.syncer_says("accounting confirms that 2 jobs have ended")
