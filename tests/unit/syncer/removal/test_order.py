"""What each part that gives something up asks and writes, from the question to the write, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.builders import drained, entry, node_set, pod, row, slice_of
from tests.unit.syncer.removal.door import Door, conflict, door
from tests.unit.syncer.stores import put

from sunk.kube.api.limits import Bucket
from sunk.kube.control.controller import Controller
from sunk.kube.core import ContainerStatus
from sunk.kube.resource import Key
from sunk.model import names
from sunk.syncer.pods import ComputePod, ComputePodCondition
from sunk.syncer.removal.clearance import ClearanceController
from sunk.syncer.removal.orphans import OrphanRecords
from sunk.syncer.removal.release import ReleaseController
from sunk.syncer.removal.reshape import ReshapeController
from sunk.syncer.removal.unregistered import UnregisteredPods

pytestmark = pytest.mark.looptime
IDLE = drained("n1", reason="k8s: pending deletion", reason_time=5)
CLEARED = "2026-01-01T00:00:00.000Z 5:k8s: pending deletion"


@asynccontextmanager
async def running(controller: Controller[Key], *, seconds: float = 0.2) -> AsyncIterator[None]:
    """A process that leads, and has done what there was to do."""
    task = asyncio.create_task(controller.run(), name=controller.name)
    try:
        await asyncio.sleep(seconds)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


# Clearances


def clearing(at: Door) -> Controller[Key]:
    return ClearanceController(at.context, at.jobs_by_node, at.guard).controller


async def test_a_pod_is_cleared_on_a_read_that_was_made_for_it() -> None:
    async with door(IDLE, pods=(pod("n1", pending_deletion="scale-in"),)) as at, running(clearing(at)):
        assert at.steps == ["read Slurm", "leads?", "patch pods/n1"]
        assert at.kube.pods["n1"].metadata.annotations[names.CLEAR_TO_DELETE].endswith(" 5:k8s: pending deletion")


async def test_a_node_that_somebody_has_just_resumed_is_not_cleared() -> None:
    async with door(IDLE, pods=(pod("n1", pending_deletion="scale-in"),)) as at:
        at.slurm.put(row("n1"))
        async with running(clearing(at)):
            assert at.steps == ["read Slurm"]


async def test_a_clearance_is_taken_back_without_a_read() -> None:
    marked = pod("n1", pending_deletion="scale-in", clear_to_delete=CLEARED)
    async with door(IDLE, pods=(marked,)) as at:
        at.slurm.away = gone()
        await asyncio.sleep(5)
        at.steps.clear()
        async with running(clearing(at)):
            assert [step for step in at.steps if step != "read Slurm"] == ["leads?", "patch pods/n1"]
            assert names.CLEAR_TO_DELETE not in at.kube.pods["n1"].metadata.annotations


async def test_a_clearance_is_taken_back_while_a_read_hangs() -> None:
    marked = pod("n1", pending_deletion="scale-in", clear_to_delete=CLEARED)
    async with door(IDLE, pods=(marked,)) as at, running(clearing(at)):
        assert at.steps == []
        at.slurm.delay = 60.0
        await asyncio.sleep(15)
        assert names.CLEAR_TO_DELETE not in at.kube.pods["n1"].metadata.annotations


async def test_a_short_wait_for_restarts_does_not_shorten_that_for_clearances() -> None:
    since = datetime.now(UTC) - timedelta(seconds=900)
    told = ComputePodCondition(names.SLURM_RUNNING, "Unknown", last_transition_time=since)
    async with door(row("n2"), pods=(pod("n1", told, pending_deletion="scale-in"), pod("n2"))) as at:
        settings = replace(at.context.settings, restart_unknown_after=1.0)
        controller = ClearanceController(replace(at.context, settings=settings), at.jobs_by_node, at.guard).controller
        async with running(controller, seconds=10):
            assert names.CLEAR_TO_DELETE not in at.kube.pods["n1"].metadata.annotations, "it may be about to register"
            await asyncio.sleep(10)
            assert at.kube.pods["n1"].metadata.annotations[names.CLEAR_TO_DELETE].endswith(" 0:Slurm does not know it")


# Names


async def test_a_pod_is_asked_for_before_slurm_and_the_record_goes_before_the_name_is_free() -> None:
    async with door(row("n1")) as at:
        at.stage.put(slice_of(entry("n1", "leaving")))
        controller = ReleaseController(at.context, at.stage.members, at.jobs_by_node, at.guard).controller
        async with running(controller, seconds=0.1):
            release = ["get n1", "read Slurm", "leads?", "delete n1", "leads?", "patch nodeslices/set-0"]
            assert at.steps[: len(release)] == release


# Records in no slice


async def test_kubernetes_is_caught_up_with_before_orphans_go_and_their_pods_are_asked_for_last() -> None:
    members = [f"n{number}" for number in range(8)]
    async with door(*map(row, members), row("s1", extra='{"k8s": {"pod": "s1"}}')) as at:
        at.stage.put(slice_of(*map(entry, members)))
        put(at.context.sets.store, node_set(members=len(members)))
        orphans = OrphanRecords(at.context, at.stage.members, at.guard, deleted={})
        await orphans.resync()
        await asyncio.sleep(at.context.settings.forget_after)
        at.steps.clear()
        await orphans.resync()
        both_sides = ["list nodeslices", "list nodesets", "list pods", "read Slurm"]
        assert at.steps == [*both_sides, "get s1", "leads?", "delete s1"]


# Records of another size


def shaped(*, started: bool) -> ComputePod:
    larger = pod("n1", shape="CPUs=16")
    slurmd = ContainerStatus(name=names.SLURMD, restart_count=int(started))
    return replace(larger, status=replace(larger.status, container_statuses=(slurmd,)))


@asynccontextmanager
async def reshaping(*, started: bool, conflicts: int = 0) -> AsyncIterator[list[str]]:
    """The steps of it, without the reads that the mirror makes by itself."""
    async with door(row("n1", cpus=8), pods=(shaped(started=started),)) as at:
        at.stage.put(slice_of(entry("n1")))
        at.kube.refusals = iter([conflict() for _ in range(conflicts)])
        parts = (at.context, at.stage.members, at.jobs_by_node, at.guard)
        async with running(ReshapeController(*parts, restarts=Bucket(1.0, burst=1)).controller, seconds=2):
            assert at.steps[0] == "read Slurm"
            yield [step for step in at.steps if step not in {"read Slurm", "leads?"}]


async def test_the_record_goes_before_the_pod_is_restarted() -> None:
    async with reshaping(started=True) as steps:
        assert steps == ["list pods n1", "delete n1", "list pods n1", "patch pods/n1"]


async def test_a_pod_that_changes_meanwhile_is_asked_for_again() -> None:
    async with reshaping(started=True, conflicts=2) as steps:
        assert steps[:2] == ["list pods n1", "delete n1"]
        assert steps.count("patch pods/n1") == 3
        assert steps[-1] == "patch pods/n1"


async def test_a_record_that_slurm_does_not_delete_is_named() -> None:
    async with door(row("n1", cpus=8), pods=(shaped(started=False),)) as at:
        at.stage.put(slice_of(entry("n1")))
        at.slurm.busy = frozenset({"n1"})
        parts = (at.context, at.stage.members, at.jobs_by_node, at.guard)
        reshape = ReshapeController(*parts, restarts=Bucket(1.0, burst=1))
        async with running(reshape.controller, seconds=2):
            (stuck,) = reshape.report().stuck
            assert stuck.startswith("the Pod of n1 has CPUs=16 (Slurm has 8). Its Slurm node cannot be updated yet: ")


async def test_a_slurmd_that_has_not_registered_needs_no_restart() -> None:
    async with reshaping(started=False) as steps:
        assert steps == ["list pods n1", "delete n1"]


# Pods that Slurm does not know


async def restarted(*, uid: str = "") -> tuple[list[str], str]:
    """The steps for a Pod that Slurm has not known for long; by now the API server has one with this uid."""
    since = datetime.now(UTC) - timedelta(seconds=900)
    unknown = pod("n1", ComputePodCondition(names.SLURM_RUNNING, "Unknown", last_transition_time=since))
    async with door(row("n2"), row("n3"), pods=(unknown, pod("n2"), pod("n3"))) as at:
        at.stage.put(slice_of(*map(entry, ("n1", "n2", "n3"))))
        unregistered = UnregisteredPods(at.context, at.stage.members, at.guard, restarts=Bucket(1.0, burst=1))
        await asyncio.sleep(20)
        at.kube.pods["n1"] = pod("n1", uid=uid) if uid else at.kube.pods["n1"]
        at.steps.clear()
        await unregistered.resync()
        return at.steps, at.kube.pods["n1"].metadata.annotations.get(names.RESTART, "")


async def test_a_pod_is_restarted_that_is_the_same_after_a_read_of_slurm() -> None:
    steps, request = await restarted()
    assert steps == ["read Slurm", "list pods n1", "leads?", "patch pods/n1"]
    assert request.endswith(":Slurm has no node of this name")


async def test_another_pod_of_the_same_name_is_not_restarted() -> None:
    assert await restarted(uid="another") == (["read Slurm", "list pods n1"], "")
