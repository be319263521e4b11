"""The syncer as a process: it leads, says how it finds Slurm, and outlives what happens around it."""

import asyncio

from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.kube.core import LEASES

pytestmark = on_stage


async def renewed(stage: Stage) -> str:
    found = await stage.client.get(LEASES, f"{CLUSTER}-syncer", namespace=stage.namespace)
    return f"{found.spec.holder_identity} {found.spec.renew_time}"


async def test_it_leads_and_says_how_it_finds_slurm(stage: Stage) -> None:
    await stage.eventually(lambda: renewed(stage), lambda found: "syncer-on-stage" in found)
    found = await stage.eventually(stage.report, lambda report: report is not None and bool(report.version))
    assert found is not None
    assert found.version.startswith("24.11")


async def test_killed_it_leads_again(stage: Stage) -> None:
    await asyncio.to_thread(stage.syncer.kill)
    before = await renewed(stage)
    await asyncio.to_thread(stage.syncer.start)
    await stage.eventually(lambda: renewed(stage), lambda found: found != before)


async def test_it_outlives_a_slurmctld_that_is_away(stage: Stage) -> None:
    before = stage.syncer.process
    async with stage.without_slurmctld():
        await stage.syncer_says("Slurm does not answer")
    await stage.syncer_says("Slurm answers again")
    assert stage.syncer.process == before
