"""Jobs that slurmctld lost with its state, with accounting: it may have closed them, and that proves nothing.

Apart from the tests of jobs that ended, because the numbers of jobs begin at 1 again, which is hard to believe too.
"""

import asyncio

import pytest
from tests.integration.syncer.stage import Stage, on_stage
from tests.versions import BOTH

from sunk.local.slurm.configuration import CONTROLLER
from sunk.slurm.mirror.accounting import EVERY
from sunk.slurm.mirror.confidence import UNSAVED

pytestmark = [on_stage, pytest.mark.timeout(900)]
SLURM = {"config": {"MinJobAge": 2, "AccountingStorageEnforce": None}, "accounting": True}
VERSIONS = BOTH
STATE = "/var/spool/slurmctld"
AFTER_A_LOSS = {"24.11": "CANCELLED", "26.05": "RUNNING"}
"""24.11 has slurmdbd close the jobs that it has forgotten; 26.05 leaves them as they are."""


async def test_jobs_that_slurmctld_lost_hold_everything_back_also_if_accounting_has_closed_them(stage: Stage) -> None:
    for name in ("a1", "a2"):
        await stage.join(name)
    jobs = sorted([await stage.sbatch(name) for name in ("a1", "a2")])
    await asyncio.sleep(UNSAVED + 15)
    await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
    # Without the last one 26.05 takes it for a first start; with it, it would rather not start than go on without jobs.
    lose = f"rm -f {STATE}/job_state* {STATE}/last_config_lite* {STATE}/clustername"
    await asyncio.to_thread(stage.slurm.run, "sh", "-c", lose, on=CONTROLLER)
    await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await stage.held(f"2 of 2 jobs disappeared at once: {jobs[0]}, {jobs[1]}")
    for job in jobs:
        await stage.accounted(job, AFTER_A_LOSS[stage.slurm.layout.version])
    await asyncio.sleep(3 * EVERY + 2)
    await stage.held("2 of 2 jobs disappeared at once")
