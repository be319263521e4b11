"""A slurmd that registers when its record was deleted already: what it leaves is known by its address."""

import asyncio

from tests.integration.syncer.stage import Stage, on_stage
from tests.integration.syncer.test_leftovers import leftover

pytestmark = on_stage
# Sooner one would be taken for lost that only stands still for a while.
SLURM = {"config": {"SlurmdTimeout": 20}}
LATER = 180.0
SYNCER = ("--forget-after", "1")


async def left(stage: Stage, name: str) -> None:
    """Have somebody join and leave; Slurm has forgotten it when this returns, though its slurmd may live."""
    await stage.join(name)
    await stage.slurm_when(name, lambda node: bool(node.ours))
    await stage.leave(name)
    await stage.delete_pod(name)
    await stage.status_when(lambda status: name in status.released)
    assert not (await stage.seen(name)).known
    await stage.drop(name)


async def test_a_record_that_a_late_slurmd_left_goes_when_that_has_ended(stage: Stage) -> None:
    """M17."""
    await left(stage, "a1")
    await asyncio.to_thread(stage.slurm.stop, "a1")
    await asyncio.to_thread(stage.slurm.start, "a1")
    late = await stage.slurm_when("a1", lambda node: node.known)
    assert not late.ours
    await leftover(stage, "x1")
    assert (await stage.seen("a1")).known, "as long as it lives it may hold a job"
    await asyncio.to_thread(stage.slurm.kill, "a1")
    await stage.slurm_when("a1", lambda node: not node.known, seconds=LATER)


async def test_a_node_that_a_person_makes_under_a_name_that_was_ours_stays(stage: Stage) -> None:
    await left(stage, "b1")
    await asyncio.to_thread(stage.slurm.kill, "b1")
    await stage.scontrol("create", "nodename=b1", "cpus=1", "state=cloud")
    await stage.scontrol("update", "nodename=b1", "state=down", "reason=Not responding")
    await leftover(stage, "x2")
    assert (await stage.seen("b1")).known
