"""Records that Slurm makes are born drained, so that nothing runs before the syncer has looked (D13)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from tests.integration.syncer.stage import ALICE, Stage, on_stage
from tests.versions import BOTH

from sunk.local.slurm import Node as SlurmNode
from sunk.model import names
from sunk.model.contract import drains

pytestmark = on_stage

VERSIONS = BOTH
SLURM = {"gpus": ("h100",)}
SYNCER = ("--restart-unknown-after", "600")


def born(name: str, *, gres: str = "") -> SlurmNode:
    """A node as the operator has its slurmd introduce it."""
    return SlurmNode(name, gres=gres, more=drains.BORN_DRAINED)


async def queued(stage: Stage, node: str) -> int:
    """A job that waits for this node."""
    words = ("sbatch", "--parsable", "--output=/dev/null", "-w", node, "--wrap", "sleep 60")
    return int(await asyncio.to_thread(stage.slurm.run, *words, uid=ALICE))


@asynccontextmanager
async def without_syncer(stage: Stage) -> AsyncIterator[None]:
    await asyncio.to_thread(stage.syncer.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(stage.syncer.start)


async def test_nothing_runs_on_a_new_record_before_the_syncer_has_looked(stage: Stage) -> None:
    async with without_syncer(stage):
        await stage.join("a1", line=born("a1"), annotations={names.CORDON: "bad fan"}, wait=False)
        await stage.join("a2", line=born("a2"), annotations={names.KEPT_DRAIN: "alice: bad disk"}, wait=False)
        await stage.join("a3", line=born("a3"), wait=False)
        jobs = [await queued(stage, name) for name in ("a1", "a2", "a3")]
        await asyncio.sleep(3)  # Slurm tries to start jobs every second
        for name in ("a1", "a2", "a3"):
            await stage.drained(name, drains.NEW)
            assert "ALLOCATED" not in (await stage.seen(name)).states
    await stage.drained("a1", "k8s: cordon: bad fan")
    await stage.drained("a2", "alice: bad disk")
    await stage.slurm_when("a3", lambda seen: bool(seen.states & {"ALLOCATED", "MIXED"}))
    for name in ("a1", "a2"):
        assert not (await stage.seen(name)).states & {"ALLOCATED", "MIXED"}
    for job in jobs:
        await stage.scancel(job)


async def test_a_new_record_is_in_service_soon(stage: Stage) -> None:
    await stage.make_pod("b1")
    await stage.join("b1", slurmd=False, pod=False)
    await asyncio.to_thread(stage.slurm.add, born("b1"))
    await stage.free("b1")
    await stage.slurm_when("b1", lambda seen: seen.states <= {"IDLE", "DYNAMIC_NORM"})
    await stage.condition("b1", names.SLURM_DRAIN, "False")


async def test_a_slurmd_that_starts_again_does_not_drain_its_node(stage: Stage) -> None:
    await stage.join("c1", line=born("c1"))
    await stage.free("c1")
    slurm = stage.slurm
    async with without_syncer(stage):
        await asyncio.to_thread(slurm.stop, "c1")
        await asyncio.to_thread(slurm.start, "c1")
        await stage.free("c1")
        await asyncio.to_thread(slurm.kill, "c1")
        await asyncio.to_thread(slurm.start, "c1")
        await stage.free("c1")
        async with stage.without_slurmctld():
            pass
        await stage.scontrol("reconfigure")
        await asyncio.to_thread(slurm.expect, "c1", "IDLE")
        await stage.free("c1")


async def test_a_new_record_keeps_its_drain_while_no_syncer_runs(stage: Stage) -> None:
    async with without_syncer(stage):
        await stage.join("d1", line=born("d1"), wait=False)
        async with stage.without_slurmctld():
            pass
        await stage.scontrol("reconfigure")
        await asyncio.to_thread(stage.slurm.expect, "d1", "IDLE", without=("NOT_RESPONDING",))
        await asyncio.to_thread(stage.slurm.stop, "d1")
        await asyncio.to_thread(stage.slurm.start, "d1")
        await stage.drained("d1", drains.NEW)
    await stage.free("d1")


async def test_a_record_that_is_made_again_is_born_drained_too(stage: Stage) -> None:
    await stage.join("g1", line=born("g1"))
    await stage.free("g1")
    async with without_syncer(stage):
        await asyncio.to_thread(stage.slurm.kill, "g1")
        await stage.scontrol("delete", "nodename=g1")
        await asyncio.to_thread(stage.slurm.start, "g1")
        await stage.drained("g1", drains.NEW)
    await stage.free("g1")


async def test_a_person_may_drain_a_record_that_nobody_has_looked_at(stage: Stage) -> None:
    async with without_syncer(stage):
        await stage.join("e1", line=born("e1"), wait=False)
        await stage.scontrol("update", "nodename=e1", "state=drain", "reason=alice: not yet")
    await stage.condition("e1", names.SLURM_DRAIN, "True")
    await stage.drained("e1", "alice: not yet")


async def test_what_slurm_itself_has_against_a_new_node_is_not_lifted(stage: Stage) -> None:
    """A registration that promises less than its line, on a record that was born drained."""
    await stage.join("f1", slurmd=False, wait=False)
    async with without_syncer(stage):
        await asyncio.to_thread(partial(stage.slurm.add, born("f1", gres="gpu:h100:16"), usable=False))
        await stage.slurm_when("f1", lambda seen: "INVALID_REG" in seen.states)
    found = await stage.slurm_when("f1", lambda seen: "INVALID_REG" in seen.states)
    assert found.reason.startswith("gres/gpu count")
    await stage.condition("f1", names.SLURM_DRAIN, "True")
    assert "DRAIN" in (await stage.seen("f1")).states
