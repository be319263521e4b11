"""A person's drain keeps a record whose Pod is gone, whichever process looks and whatever was in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.slurm.blank import blank
from tests.unit.syncer.both import drained, entry, row, slice_of
from tests.unit.syncer.scripted import NOWHERE, NoPods, Slurm, Stage

from sunk.kube.resource import Key
from sunk.model.nodeslice import NodeSliceStatus
from sunk.slurm.records import Reservation
from sunk.syncer.removal.holders import Holders
from sunk.syncer.removal.release import Release

pytestmark = pytest.mark.looptime
SLICE = Key("slurm", "set-0")
ALICE = "somebody has drained it: alice: bad fan"
CROWD = tuple(row(f"x{number}") for number in range(8))


def reserved(nodes: str) -> Reservation:
    return blank(Reservation, name="fix", nodes=nodes)


@asynccontextmanager
async def leaving(*names: str, others: Iterable[Any] = ()) -> AsyncIterator[Stage]:
    """Members without Pods that leave, and a Slurm that is read."""
    stage = Stage(Slurm(*map(row, names), *others), client=NoPods(NOWHERE))
    stage.put(slice_of(*(entry(name, "leaving") for name in names)))
    stage.complete()
    try:
        async with stage.ground.mirror.running():
            await asyncio.sleep(1)
            yield stage
    finally:
        await stage.client.close()


@asynccontextmanager
async def releasing(stage: Stage) -> AsyncIterator[None]:
    """A process that leads for as long as the block lasts."""
    release = Release(stage.ground, stage.members, Holders(stage.ground.mirror.jobs))
    task = asyncio.create_task(release.controller.run(), name="release")
    try:
        await asyncio.sleep(30)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


def said(stage: Stage) -> NodeSliceStatus:
    one = stage.ground.slices.store.get(SLICE)
    assert one is not None
    return one.status


def refusal(stage: Stage, name: str) -> str:
    return next((one.reason for one in said(stage).refused if one.name == name), "")


def alice_drains(stage: Stage, name: str) -> None:
    stage.slurm.put(drained(name, reason="alice: bad fan", reason_time=stage.slurm.clock))


async def test_a_drain_outlives_the_process_that_saw_the_pod_gone() -> None:
    async with leaving("n1", others=[reserved("n1")]) as stage:
        async with releasing(stage):
            assert refusal(stage, "n1") == "it is in the reservation fix"
            alice_drains(stage, "n1")
            await asyncio.sleep(30)
            assert refusal(stage, "n1") == ALICE
        stage.slurm.put(reserved("others"))
        async with releasing(stage):
            assert refusal(stage, "n1") == ALICE
            assert stage.slurm.node("n1") is not None
            stage.slurm.put(row("n1"))
            await asyncio.sleep(30)
            assert said(stage) == NodeSliceStatus(released=("n1",))


async def test_a_drain_of_a_time_in_which_slurm_was_hard_to_believe_keeps_the_record() -> None:
    async with leaving("n1", others=CROWD) as stage:
        stage.slurm.drop(*(one.name for one in CROWD))
        await asyncio.sleep(5)
        assert stage.ground.mirror.suspicious
        async with releasing(stage):
            assert said(stage) == NodeSliceStatus()
            alice_drains(stage, "n1")
            await asyncio.sleep(5)
            stage.ground.mirror.accept()
            await asyncio.sleep(30)
            assert refusal(stage, "n1") == ALICE
            assert stage.slurm.node("n1") is not None


async def test_a_drain_from_before_the_pod_went_keeps_nothing() -> None:
    async with leaving("n1") as stage:
        alice_drains(stage, "n1")
        await asyncio.sleep(5)
        async with releasing(stage):
            assert said(stage) == NodeSliceStatus(released=("n1",))
            assert stage.slurm.node("n1") is None
