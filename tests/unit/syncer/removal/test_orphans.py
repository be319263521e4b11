"""Records in no slice go by themselves, but not with somebody's drain."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.syncer.builders import CLUSTER, drained, entry, node_set, row, slice_of
from tests.unit.syncer.scripted import NOWHERE, NoPods, Slurm, Stage
from tests.unit.syncer.stores import complete, put

from sunk.objects.nodesets import NodeSet, NodeSlice
from sunk.slurm.records import Node, Reservation
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.orphans import (
    OrphanPlan,
    OrphanRecords,
    OrphanSightings,
    OrphanSnapshot,
    incomplete,
    orphan_plan,
    registered_late,
    too_many,
    why_held,
)

pytestmark = pytest.mark.looptime
MARK = '{"k8s": {"pod": "gone"}}'


async def after_a_while(*strays: Node, others: tuple[Any, ...] = ()) -> tuple[set[str], tuple[str, ...]]:
    """Which of the strays are left among other nodes, and what is said to need a person."""
    members = [f"n{number}" for number in range(8)]
    marked = [replace(one, extra=MARK) for one in strays]
    stage = Stage(Slurm(*map(row, members), *marked, *others), client=NoPods(NOWHERE))
    stage.put(slice_of(*map(entry, members)))
    put(stage.context.sets.store, node_set(members=len(members)))
    stage.complete()
    complete(stage.context.sets.store)
    guard = Guard(stage.context, JobsByNode(stage.context.mirror.jobs))
    orphans = OrphanRecords(stage.context, stage.members, guard, deleted={})
    async with stage.context.mirror.running():
        task = asyncio.create_task(orphans.work.run(), name="orphans")
        await asyncio.sleep(75)
        task.cancel()
        await asyncio.wait({task})
    await stage.client.close()
    return {one.name for one in strays if stage.slurm.node(one.name) is not None}, orphans.report().stuck


async def test_a_record_that_somebody_has_drained_is_kept_and_that_is_said() -> None:
    left, said = await after_a_while(row("s1"), drained("s2", reason="alice: bad fan"))
    assert left == {"s2"}
    assert said == ("s2 is in no NodeSlice but is kept: drained by a user or by Slurm: alice: bad fan",)


async def test_a_record_that_somebody_has_reserved_is_kept_and_that_is_said() -> None:
    left, said = await after_a_while(row("s1"), row("s2"), others=(blank(Reservation, name="fix", nodes="s2"),))
    assert left == {"s2"}
    assert said == ("s2 is in no NodeSlice but is kept: it is in the reservation fix",)


async def test_a_drain_of_ours_keeps_nothing() -> None:
    assert await after_a_while(drained("s1", reason="k8s: pod terminated")) == (set(), ())


# As rules


def test_slices_are_complete_if_they_are_all_that_the_node_sets_tell_of() -> None:
    both = [slice_of(entry("a"), entry("b")), slice_of(entry("c"), name="set-1")]
    assert incomplete([node_set(members=3)], both, cluster=CLUSTER) == ""
    moved = [slice_of(entry("a"), entry("b"), entry("c")), slice_of(entry("c"), name="set-1")]
    assert incomplete([node_set(members=3)], moved, cluster=CLUSTER) == "", "one that moves is seen twice, never not"


@pytest.mark.parametrize(
    ("sets", "slices"),
    [
        ([], []),
        ([node_set(members=3)], []),
        ([node_set(members=2)], [slice_of(entry("a"))]),
        ([node_set(members=1, generation=2)], [slice_of(entry("a"))]),
        ([node_set(members=0, uid="another")], [slice_of(entry("a"))]),
    ],
    ids=["all are gone", "slices are gone", "a slice is missing", "the spec is new", "the set is missing"],
)
def test_slices_that_may_not_be_all_are_nothing_to_go_by(sets: list[NodeSet], slices: list[NodeSlice]) -> None:
    assert incomplete(sets, slices, cluster=CLUSTER)


def test_what_another_cluster_has_does_not_matter() -> None:
    other = slice_of(entry("z"), name="other-0", cluster="small")
    assert incomplete([node_set(members=1)], [slice_of(entry("a")), other], cluster=CLUSTER) == ""


def test_a_few_orphans_may_go_and_many_may_not() -> None:
    assert not too_many(3, ours=4)
    assert too_many(4, ours=4)
    assert not too_many(20, ours=100)
    assert too_many(21, ours=100)


DELETED = {"n1": "10.0.0.7", "n2": "n2"}
LOST = (NodeFlag.NOT_RESPONDING,)


@pytest.mark.parametrize(
    "node",
    [
        row("n1", *LOST, address="10.0.0.7"),
        row("n1", base=NodeBase.DOWN, reason="Not responding", address="10.0.0.7"),
        row("n1", base=NodeBase.DOWN, reason="k8s: pod terminated", address="10.0.0.7"),
    ],
    ids=lambda node: f"{node.state} {node.reason}",
)
def test_a_record_at_the_address_of_one_that_we_deleted_is_known_again(node: Node) -> None:
    assert registered_late(node, DELETED)


@pytest.mark.parametrize(
    "node",
    [
        row("n1", address="10.0.0.7"),
        row("n1", base=NodeBase.DOWN, reason="bad fan", address="10.0.0.7"),
        row("n1", *LOST, address="10.0.0.8"),
        row("n1", *LOST, address="n1"),
        row("n1", *LOST),
        row("n2", *LOST, address="n2"),
        row("n3", *LOST, address="10.0.0.7"),
    ],
    ids=lambda node: f"{node.name} {node.state} {node.reason} {node.address}",
)
def test_what_may_be_somebody_else_s_or_lives_is_not(node: Node) -> None:
    assert not registered_late(node, DELETED)


ORPHANS = OrphanSnapshot({"s1": row("s1"), "s2": drained("s2", reason="alice: bad fan")}, members=8)
INCOMPLETE = replace(ORPHANS, missing="NodeSet set was changed a moment ago")


def test_an_orphan_is_due_after_its_grace_and_a_drained_one_is_named() -> None:
    sightings = OrphanSightings().next(ORPHANS, now=100)
    assert orphan_plan(ORPHANS, sightings, now=159, grace=60) == OrphanPlan()
    plan = orphan_plan(ORPHANS, sightings.next(ORPHANS, now=160), now=160, grace=60)
    assert (plan.due, plan.held) == (("s1", "s2"), "")
    assert plan.stuck == ("s2 is in no NodeSlice but is kept: drained by a user or by Slurm: alice: bad fan",)


def test_the_grace_starts_over_when_slices_were_missing_and_that_is_said() -> None:
    sightings = OrphanSightings().next(ORPHANS, now=100).next(INCOMPLETE, now=160)
    plan = orphan_plan(INCOMPLETE, sightings, now=160, grace=60)
    assert (plan.due, plan.stuck) == ((), ())
    assert plan.held == (
        "2 Slurm nodes created by SUNK are in no NodeSlice (s1, s2). Kept for now: NodeSet set was changed a moment ago"
    )
    sightings = sightings.next(ORPHANS, now=165)
    assert orphan_plan(ORPHANS, sightings, now=224, grace=60) == OrphanPlan()
    assert orphan_plan(ORPHANS, sightings, now=225, grace=60).due == ("s1", "s2")


def test_a_record_that_was_in_a_slice_in_between_is_counted_from_then() -> None:
    sightings = OrphanSightings().next(ORPHANS, now=100).next(OrphanSnapshot(), now=130).next(ORPHANS, now=140)
    assert orphan_plan(ORPHANS, sightings, now=160, grace=60) == OrphanPlan()


def test_more_than_a_few_are_all_kept() -> None:
    many = OrphanSnapshot({f"s{number}": row(f"s{number}") for number in range(4)}, members=8)
    assert why_held(many) == (
        "4 Slurm nodes created by SUNK are in no NodeSlice (s0, s1, s2, …). "
        "That is too many to delete automatically. If you do not need them, delete them with scontrol"
    )
    assert why_held(replace(many, members=16)) == ""
