"""The syncer as a process: it leads, says how it finds Slurm, and outlives what happens around it."""

import asyncio

from tests.integration.syncer.stage import CLUSTER, Stage, on_stage

from sunk.kube.core import LEASES
from sunk.local.slurm.configuration import LOGIN

pytestmark = on_stage
AGAIN = "Slurm answers again"


async def renewed(stage: Stage) -> str:
    found = await stage.client.get(LEASES, f"{CLUSTER}-syncer", namespace=stage.namespace)
    return f"{found.spec.holder_identity} {found.spec.renew_time}"


async def test_it_leads_and_says_how_it_finds_slurm(stage: Stage) -> None:
    await stage.eventually(lambda: renewed(stage), lambda found: "syncer-on-stage" in found)
    found = await stage.eventually(stage.report, lambda report: report is not None and bool(report.version))
    assert found is not None
    assert found.version.startswith("24.11")


async def test_killed_it_leads_again(stage: Stage) -> None:
    await stage.eventually(lambda: renewed(stage), lambda found: "syncer-on-stage" in found)
    await asyncio.to_thread(stage.syncer.kill)
    before = await renewed(stage)
    await asyncio.to_thread(stage.syncer.start)
    await stage.eventually(lambda: renewed(stage), lambda found: found != before)


async def test_it_outlives_a_slurmctld_that_is_away(stage: Stage) -> None:
    before, lost = stage.syncer.process, await silences(stage)
    async with stage.without_slurmctld():
        await stage.eventually(lambda: silences(stage), lambda count: count > lost)
        heard = await silences(stage, AGAIN)
    await stage.eventually(lambda: silences(stage, AGAIN), lambda count: count > heard)
    assert stage.syncer.process == before


async def test_it_outlives_a_sackd_that_is_away(stage: Stage) -> None:
    """Without it nobody vouches for us; libslurm must not take that for a reason to end the process."""
    before, lost = stage.syncer.process, await silences(stage)
    await asyncio.to_thread(stage.slurm.stop, LOGIN)
    await stage.eventually(lambda: silences(stage), lambda count: count > lost)
    heard = await silences(stage, AGAIN)
    await asyncio.to_thread(stage.slurm.start, LOGIN)
    await stage.eventually(lambda: silences(stage, AGAIN), lambda count: count > heard)
    assert stage.syncer.process == before


async def silences(stage: Stage, words: str = "Slurm does not answer") -> int:
    return stage.syncer.log().count(words)
