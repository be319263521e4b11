"""Jobs that are gone when slurmctld is back: those that it forgot hold everything back, those that ended do not."""

import asyncio

from tests import waiting
from tests.integration.syncer.stage import Stage, on_stage

from sunk.local.slurm.configuration import CONTROLLER
from sunk.slurm.mirror.confidence import UNSAVED

pytestmark = on_stage
SLURM = {"config": {"MinJobAge": 2}}
STATE = "/var/spool/slurmctld"


async def command(stage: Stage, text: str) -> None:
    await asyncio.to_thread(stage.slurm.run, "sh", "-c", text, on=CONTROLLER)


async def test_a_job_that_ends_while_slurmctld_is_away_holds_nothing_back(stage: Stage) -> None:
    await stage.join("a1")
    job = await stage.sbatch("a1", script="until [ -e /home/alice/over ]; do sleep 0.2; done; touch /home/alice/ended")
    home = stage.slurm.layout.home / "alice"
    async with stage.without_slurmctld():
        (home / "over").touch()
        await asyncio.to_thread(waiting.eventually, (home / "ended").exists)
        await asyncio.sleep(5)
    await stage.eventually(lambda: stage.job_state(job), lambda state: state != "RUNNING", seconds=180)
    await stage.free("a1")
    await asyncio.sleep(3)
    await stage.not_held(seconds=1)


async def test_jobs_that_slurmctld_forgot_hold_everything_back_until_they_are_back(stage: Stage) -> None:
    for name in ("b1", "b2"):
        await stage.join(name)
    jobs = sorted([await stage.sbatch(name) for name in ("b1", "b2")])
    await asyncio.sleep(UNSAVED + 15)
    await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
    await command(stage, f"mkdir /tmp/kept && cp -a {STATE}/. /tmp/kept && rm -f {STATE}/job_state*")
    await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await stage.held(f"2 of 2 jobs disappeared at once: {jobs[0]}, {jobs[1]}")
    await asyncio.sleep(10)
    await stage.held("2 of 2 jobs disappeared at once")

    await asyncio.to_thread(stage.slurm.stop, CONTROLLER)
    await command(stage, f"cp -a /tmp/kept/job_state* {STATE}/")
    await asyncio.to_thread(stage.slurm.start, CONTROLLER)
    await stage.not_held()
