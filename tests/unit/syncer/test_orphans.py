"""Records in no slice go by themselves, but not with somebody's drain."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.unit.syncer.both import drained, entry, node_set, row, slice_of
from tests.unit.syncer.scripted import NOWHERE, NoPods, Slurm, Stage
from tests.unit.syncer.stores import complete, put

from sunk.slurm.records import Node
from sunk.syncer.removal.holders import Holders
from sunk.syncer.removal.orphans import Orphans

pytestmark = pytest.mark.looptime
MARK = '{"k8s": {"pod": "gone"}}'


async def after_a_while(*strays: Node) -> tuple[set[str], tuple[str, ...]]:
    """Which of the strays are left among other nodes, and what is said to need a person."""
    members = [f"n{number}" for number in range(8)]
    marked = [replace(one, extra=MARK) for one in strays]
    stage = Stage(Slurm(*map(row, members), *marked), client=NoPods(NOWHERE))
    stage.put(slice_of(*map(entry, members)))
    put(stage.ground.sets.store, node_set(members=len(members)))
    stage.complete()
    complete(stage.ground.sets.store)
    orphans = Orphans(stage.ground, stage.members, Holders(stage.ground.mirror.jobs), deleted={})
    async with stage.ground.mirror.running():
        task = asyncio.create_task(orphans.work.run(), name="orphans")
        await asyncio.sleep(75)
        task.cancel()
        await asyncio.wait({task})
    await stage.client.close()
    return {one.name for one in strays if stage.slurm.node(one.name) is not None}, orphans.report().stuck


async def test_a_record_that_somebody_has_drained_is_kept_and_that_is_said() -> None:
    left, said = await after_a_while(row("s1"), drained("s2", reason="alice: bad fan"))
    assert left == {"s2"}
    assert said == ("s2 is in no NodeSlice, and its record is kept: somebody has drained it: alice: bad fan",)


async def test_a_drain_of_ours_keeps_nothing() -> None:
    assert await after_a_while(drained("s1", reason="k8s: pod terminated")) == (set(), ())
