"""Jobs that are gone when slurmctld is back, with accounting: what it proves to have ended holds nothing back."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.integration.syncer.stage import Stage, on_stage

from sunk.local.slurm.configuration import CONTROLLER
from sunk.slurm.accounting import EVERY
from sunk.slurm.belief import UNSAVED

pytestmark = [on_stage, pytest.mark.timeout(300)]
SLURM = {"config": {"MinJobAge": 2, "AccountingStorageEnforce": None}, "accounting": True}
VERSIONS = ("24.11", pytest.param("26.05", marks=pytest.mark.full))
STATE = "/var/spool/slurmctld"
AFTER_A_LOSS = {"24.11": "CANCELLED", "26.05": "RUNNING"}
"""24.11 has slurmdbd close the jobs that it has forgotten; 26.05 leaves them as they are."""


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


async def held(stage: Stage, text: str) -> None:
    await stage.eventually(stage.report, lambda report: report is not None and text in report.held)


async def not_held(stage: Stage, *, seconds: float) -> None:
    await stage.eventually(stage.report, lambda report: report is not None and not report.held, seconds=seconds)


async def forgotten(stage: Stage, job: int) -> None:
    """Wait until slurmctld does not know it any more."""
    await stage.eventually(lambda: stage.job_state(job), lambda state: state == "", seconds=90)


async def accounted(stage: Stage, job: int, state: str) -> None:
    """Wait until `sacct` shows it so."""
    words = ("sacct", "--noheader", "--parsable2", "--allusers", "--allocations", "--format=state", f"--jobs={job}")
    show = partial(stage.slurm.run, *words)
    await stage.eventually(lambda: asyncio.to_thread(show), lambda found: found.strip() == state, seconds=60)


async def test_jobs_that_ended_unseen_over_a_restart_hold_nothing_back_once_accounting_says_so(stage: Stage) -> None:
    for name in ("a1", "a2"):
        await stage.join(name)
    jobs = sorted([await stage.sbatch(name) for name in ("a1", "a2")])
    await asyncio.sleep(UNSAVED + 5)
    async with stopped_syncer(stage):
        for job in jobs:
            await stage.scancel(job)
        for job in jobs:
            await forgotten(stage, job)
            await accounted(stage, job, "CANCELLED by 0")
        await asyncio.to_thread(stage.slurm.stop, "accounting")
        await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
        await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await held(stage, f"2 of 2 jobs are gone at once: {jobs[0]}, {jobs[1]}")
    await asyncio.sleep(EVERY + 2)
    await held(stage, "2 of 2 jobs are gone at once")  # nobody can be asked, and that proves nothing
    await asyncio.to_thread(stage.slurm.start, "accounting")
    await not_held(stage, seconds=90)
    await stage.syncer_says("accounting says that 2 jobs have ended")


async def test_jobs_that_slurmctld_lost_hold_everything_back_also_if_accounting_has_closed_them(stage: Stage) -> None:
    for name in ("b1", "b2"):
        await stage.join(name)
    jobs = sorted([await stage.sbatch(name) for name in ("b1", "b2")])
    await asyncio.sleep(UNSAVED + 5)
    await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
    # Without the last one 26.05 takes it for a first start; with it, it would rather not start than go on without jobs.
    lose = f"rm -f {STATE}/job_state* {STATE}/last_config_lite* {STATE}/clustername"
    await asyncio.to_thread(stage.slurm.run, "sh", "-c", lose, on=CONTROLLER)
    await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await held(stage, f"2 of 2 jobs are gone at once: {jobs[0]}, {jobs[1]}")
    for job in jobs:
        await accounted(stage, job, AFTER_A_LOSS[stage.slurm.layout.version])
    await asyncio.sleep(3 * EVERY + 2)
    await held(stage, "2 of 2 jobs are gone at once")
