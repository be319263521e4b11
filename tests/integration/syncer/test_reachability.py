"""Slurm cannot be read: that is said, with since when and why, and it ends with it."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from tests.hanging import SLURM as CAN_HANG, hanging
from tests.integration.syncer.asking import asked
from tests.integration.syncer.stage import Stage, on_stage

from sunk.model import names
from sunk.model.contract.report import Report

pytestmark = on_stage
LATER = 120.0
GOOD, NOT_READY = 200, 503
SLURM = CAN_HANG


async def unseen(stage: Stage, text: str) -> Report | None:
    found = await stage.eventually(stage.report, lambda report: report is not None and text in report.unseen)
    code, said = await asked(stage.slurm, "readyz")
    assert code == NOT_READY
    assert text in said, "the same is said to who asks whether it is ready"
    assert (await asked(stage.slurm, "healthz"))[0] == GOOD, "a restart of the syncer would not help"
    return found


async def seen_again(stage: Stage) -> None:
    await stage.eventually(stage.report, lambda report: report is not None and not report.unseen, seconds=LATER)
    await stage.eventually(lambda: asked(stage.slurm, "readyz"), lambda answer: answer[0] == GOOD)


@asynccontextmanager
async def hung(stage: Stage) -> AsyncIterator[None]:
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, hanging(stage.slurm))
        try:
            yield
        finally:
            await asyncio.to_thread(stack.close)


@asynccontextmanager
async def cut(stage: Stage) -> AsyncIterator[None]:
    """Cut the way from the syncer to slurmctld, and no other."""
    rule = ("OUTPUT", "-p", "tcp", "--dport", "6817", "-j", "DROP")

    def say(word: str) -> None:
        command = ("ip", "netns", "exec", stage.syncer.network, "iptables", "--wait", word, *rule)
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
    async with hung(stage):
        await unseen(stage, "slurmctld answers only pings")
        assert "UP" in await stage.scontrol("ping")
    await seen_again(stage)
    await stage.mark("b1", {names.CORDON: "fan"})
    await stage.drained("b1", "k8s: cordon: fan")
