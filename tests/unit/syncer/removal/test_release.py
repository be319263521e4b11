"""A person's drain keeps a record whose Pod is gone, whichever process looks and whatever was in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.syncer.builders import drained, entry, row, slice_of
from tests.unit.syncer.scripted import NOWHERE, NoPods, Slurm, Stage

from sunk.kube.resource import Key
from sunk.model.nodeslice import NodeSliceStatus, Refused
from sunk.objects.nodesets import NodeSlice
from sunk.slurm.records import Node, Reservation
from sunk.slurm.states import NodeBase
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.release import (
    ReleaseController,
    ReleasePlan,
    ReleaseResult,
    drained_since,
    release_plan,
    slice_status,
)

pytestmark = pytest.mark.looptime
SLICE = Key("slurm", "set-0")
ALICE = "drained by a user or by Slurm: alice: bad fan"
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
        async with stage.context.mirror.running():
            await asyncio.sleep(1)
            yield stage
    finally:
        await stage.client.close()


@asynccontextmanager
async def releasing(stage: Stage) -> AsyncIterator[None]:
    """A process that leads for as long as the block lasts."""
    jobs_by_node = JobsByNode(stage.context.mirror.jobs)
    release = ReleaseController(stage.context, stage.members, jobs_by_node, Guard(stage.context, jobs_by_node))
    task = asyncio.create_task(release.controller.run(), name="release")
    try:
        await asyncio.sleep(30)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


def said(stage: Stage) -> NodeSliceStatus:
    one = stage.context.slices.store.get(SLICE)
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
        assert stage.context.mirror.suspicious
        async with releasing(stage):
            assert said(stage) == NodeSliceStatus()
            alice_drains(stage, "n1")
            await asyncio.sleep(5)
            stage.context.mirror.accept()
            await asyncio.sleep(30)
            assert refusal(stage, "n1") == ALICE
            assert stage.slurm.node("n1") is not None


async def test_a_drain_of_such_a_time_outlives_the_process_that_saw_the_pod_gone() -> None:
    async with leaving("n1", others=CROWD) as stage:
        stage.slurm.drop(*(one.name for one in CROWD))
        await asyncio.sleep(5)
        async with releasing(stage):
            alice_drains(stage, "n1")
            await asyncio.sleep(30)
            assert stage.context.mirror.suspicious
            assert refusal(stage, "n1") == ALICE
        stage.context.mirror.accept()
        async with releasing(stage):
            assert refusal(stage, "n1") == ALICE
            assert stage.slurm.node("n1") is not None


async def test_a_drain_from_before_the_pod_went_keeps_nothing() -> None:
    async with leaving("n1") as stage:
        alice_drains(stage, "n1")
        await asyncio.sleep(5)
        async with releasing(stage):
            assert said(stage) == NodeSliceStatus(released=("n1",))
            assert stage.slurm.node("n1") is None


# As rules


def leaving_slice(*names: str, released: tuple[str, ...] = (), refused: tuple[str, ...] = ()) -> NodeSlice:
    made = slice_of(*(entry(name, "leaving") for name in names))
    said = tuple(Refused(name=name, reason="busy") for name in refused)
    return replace(made, status=NodeSliceStatus(released=released, refused=said))


def test_released_names_stay_until_their_entry_is_gone() -> None:
    one = leaving_slice("a", "b", released=("a", "old"), refused=("b", "older"))
    found = slice_status(one, ["a", "b"], ReleaseResult(released=frozenset({"b"})))
    assert found == NodeSliceStatus(released=("a", "b"))


def test_who_stays_after_all_is_taken_off_again() -> None:
    assert slice_status(leaving_slice("a", released=("a",)), [], ReleaseResult()) == NodeSliceStatus()


def test_who_cannot_go_is_named_with_the_reason_and_keeps_no_other() -> None:
    found = slice_status(
        leaving_slice("a", "b"), ["a", "b"], ReleaseResult(released=frozenset({"b"}), refused={"a": "job 7 is on it"})
    )
    assert found == NodeSliceStatus(released=("b",), refused=(Refused("a", "job 7 is on it"),))


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (drained(reason="alice: bad fan", reason_time=101), "drained by a user or by Slurm: alice: bad fan"),
        (drained(reason="alice: bad fan", reason_time=100), ""),
        (drained(reason="k8s: pod terminated", reason_time=200), ""),
        (row(reason="alice: bad fan", reason_time=200), ""),
        (row(base=NodeBase.DOWN, reason="ResumeTimeout reached", reason_time=200), ""),
    ],
    ids=["later", "before", "ours", "lifted", "only down"],
)
def test_a_drain_that_came_after_the_pod_was_gone_keeps_the_record(node: Node, said: str) -> None:
    assert drained_since(node, absent=100) == said


def test_a_record_that_was_kept_for_a_drain_is_kept_by_the_next_process_too() -> None:
    said = "drained by a user or by Slurm: alice: bad fan"
    node = drained(reason="alice: bad fan, ordered", reason_time=100)
    assert drained_since(node, absent=200, refusal=said) == "drained by a user or by Slurm: alice: bad fan, ordered"
    former = "somebody has drained it: alice: bad fan"
    assert drained_since(node, absent=200, refusal=former), "an earlier version wrote that"
    assert drained_since(node, absent=200, refusal="it is in the reservation fix") == ""
    assert drained_since(row(reason="alice: bad fan", reason_time=100), absent=200, refusal=said) == "", "it is lifted"


RECORDS = {"n1": row("n1"), "n2": row("n2")}


def test_a_name_without_a_record_is_free_and_the_others_wait_for_theirs() -> None:
    plan = release_plan(["n1", "n2", "n3"], records=RECORDS, leaving={"n1", "n2", "n3"}, clean_up=True)
    assert plan == ReleasePlan(free=frozenset({"n3"}), records=RECORDS)


def test_the_record_of_a_member_that_stays_after_all_is_left_alone() -> None:
    plan = release_plan(["n1", "n2"], records=RECORDS, leaving={"n2"}, clean_up=True)
    assert plan == ReleasePlan(records={"n2": RECORDS["n2"]})


def test_where_records_are_not_ours_to_delete_they_keep_no_name() -> None:
    plan = release_plan(["n1", "n2"], records=RECORDS, leaving={"n1", "n2"}, clean_up=False)
    assert plan == ReleasePlan(free=frozenset(RECORDS))
