"""Slurm cannot be read: that is said within seconds, with since when and why, and it ends with it."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.integration.syncer.stage import ALICE, Stage, on_stage

from sunk.model import names
from sunk.model.report import Report

pytestmark = on_stage
SOON = 15.0
HANG = 40
# It keeps the locks of slurmctld, as a plugin or a name that is not found can: pings are answered, reads of nodes are not.
SUBMITTED = f"""
function slurm_job_submit(job)
    if job.name == "hang" then
        local last = os.time() + {HANG}
        while os.time() < last do end
    end
    return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
"""
SLURM = {"config": {"JobSubmitPlugins": "lua"}, "files": {"job_submit.lua": SUBMITTED}}


async def unseen(stage: Stage, text: str) -> Report | None:
    began = time.monotonic()
    found = await stage.eventually(stage.report, lambda report: report is not None and text in report.unseen)
    assert time.monotonic() - began < SOON
    return found


async def seen_again(stage: Stage) -> None:
    await stage.eventually(stage.report, lambda report: report is not None and not report.unseen, seconds=2 * HANG)


@asynccontextmanager
async def cut(stage: Stage) -> AsyncIterator[None]:
    """Cut the way from the syncer to slurmctld, and no other."""
    rule = ("OUTPUT", "-p", "tcp", "--dport", "6817", "-j", "DROP")

    def say(word: str) -> None:
        command = ("ip", "netns", "exec", stage.syncer.network, "iptables", word, *rule)
        subprocess.run(command, check=True, capture_output=True)

    await asyncio.to_thread(say, "-A")
    try:
        yield
    finally:
        await asyncio.to_thread(say, "-D")


async def test_a_slurmctld_that_cannot_be_reached_is_said_and_a_cordon_follows_when_it_can(stage: Stage) -> None:
    await stage.join("a1")
    async with cut(stage):
        found = await unseen(stage, "the syncer has not been able to read Slurm since")
        await stage.mark("a1", {names.CORDON: "disk"})
        await asyncio.sleep(10)
        assert await stage.report() == found, "it is written once"
    await seen_again(stage)
    await stage.drained("a1", "k8s: cordon: disk")
    await stage.mark("a1", {names.CORDON: None})
    await stage.free("a1")


async def test_a_slurmctld_that_hangs_and_answers_pings_is_said(stage: Stage) -> None:
    await stage.join("b1")
    words = ("sbatch", "-J", "hang", "--output=/dev/null", "--wrap", "true")
    hanging = asyncio.create_task(asyncio.to_thread(stage.slurm.attempt, *words, uid=ALICE, timeout=2 * HANG))
    await unseen(stage, "slurmctld answers pings and nothing else")
    ping = await asyncio.to_thread(stage.slurm.run, "scontrol", "ping")
    assert "UP" in ping
    await hanging
    await seen_again(stage)
    await stage.mark("b1", {names.CORDON: "fan"})
    await stage.drained("b1", "k8s: cordon: fan")
