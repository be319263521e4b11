"""Graces are counted by the API server's clock: the syncer's machine may be minutes ahead or behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.unit.syncer.builders import pod
from tests.unit.syncer.scripted import Stage, staged

from sunk.kube.api.limits import Bucket
from sunk.model import names
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.pods import ComputePodCondition
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.unregistered import UnregisteredPods
from sunk.syncer.visibility.clocks import ClockOffsets, Clocks, wrong_clock

OFF = [pytest.param(-600.0, id="the machine is ahead"), pytest.param(600.0, id="the machine is behind")]
"""Seconds by which the API server is ahead of this machine."""


@asynccontextmanager
async def unknown_for(seconds: float, *, ahead: float) -> AsyncIterator[Stage]:
    """A Pod that Slurm has not known for so long, as it says itself, by a server whose clock is another."""
    async with staged(["n1"]) as stage:
        now = asyncio.get_running_loop().time()
        date = datetime.now(UTC) + timedelta(seconds=ahead)
        stage.client.clock.hear(format_datetime(date, usegmt=True), sent=now, got=now)
        told = ComputePodCondition(
            names.SLURM_RUNNING, "Unknown", last_transition_time=date - timedelta(seconds=seconds)
        )
        stage.slurm.drop("n1")
        await asyncio.sleep(5)
        stage.put(pod("n1", told))
        yield stage


def unregistered_pods(stage: Stage) -> UnregisteredPods:
    guard = Guard(stage.context, JobsByNode(stage.context.mirror.jobs))
    return UnregisteredPods(stage.context, stage.members, guard, restarts=Bucket(1.0, burst=1))


@pytest.mark.looptime
@pytest.mark.parametrize("ahead", OFF)
async def test_a_pod_that_slurm_does_not_know_has_its_grace_and_no_more(ahead: float) -> None:
    async with unknown_for(30, ahead=ahead) as stage:
        unregistered = unregistered_pods(stage)
        await unregistered.resync()
        assert unregistered.report().held == "", "it has a minute"
    async with unknown_for(90, ahead=ahead) as stage:
        unregistered = unregistered_pods(stage)
        await unregistered.resync()
        assert "1 of 1 ready Pods is not registered in Slurm" in unregistered.report().held, "it is over"


@pytest.mark.looptime
@pytest.mark.parametrize("ahead", OFF)
async def test_a_machine_that_is_off_by_minutes_is_said(ahead: float) -> None:
    async with staged(["n1"]) as stage:
        clocks, now = Clocks(stage.context), asyncio.get_running_loop().time()
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
        stage.client.clock.hear(date, sent=now, got=now)
        assert wrong_clock(ClockOffsets(stage.client.clock.ahead), allowed=5.0) is not None
        (words,) = clocks.report().stuck
        assert ("behind" if ahead > 0 else "ahead of") in words
