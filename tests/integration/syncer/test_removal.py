"""What may go, goes by itself and loses nothing; what may not, stays and says why."""

import asyncio

from tests.integration.syncer.stage import Stage, on_stage

from sunk.kube.api.patch import Merge
from sunk.model import names
from sunk.model.contract import clearance as dated
from sunk.model.nodeslice import NodeSliceStatus
from sunk.syncer.pods import COMPUTE_PODS, ComputePod

pytestmark = on_stage
# A slurmd that registers, which it does now and then, would bring back a node that a person has set down.
SLURM = {"config": {"ReturnToService": 1}}
PENDING = "k8s: pending deletion"


def clearance(pod: ComputePod) -> str:
    """The drain that it stands on."""
    found = dated.read(pod.metadata.annotations.get(names.CLEAR_TO_DELETE, ""))
    return "" if found is None else found.drain


async def cleared(stage: Stage, name: str) -> str:
    return clearance(await stage.pod_when(name, lambda pod: bool(clearance(pod))))


async def gone_from_kubernetes(stage: Stage, name: str) -> None:
    """What the NodeSet controller and a kubelet do with a Pod that is cleared."""
    await stage.delete_pod(name)
    await asyncio.to_thread(stage.slurm.kill, name)


async def refused(stage: Stage, name: str, text: str) -> str:
    """Wait until this is said of it, and give all that is said; another reason may come first."""
    return refusal(await stage.status_when(lambda status: text in refusal(status, name)), name)


def refusal(status: NodeSliceStatus, name: str) -> str:
    return next((one.reason for one in status.refused if one.name == name), "")


async def test_a_busy_member_leaves_when_its_job_has_ended_and_gets_no_other(stage: Stage) -> None:
    await stage.join("a1")
    job = await stage.sbatch("a1")
    await stage.leave("a1")
    await stage.mark("a1", {names.PENDING_DELETION: "scaled in"})
    await stage.drained("a1", PENDING)
    await stage.condition("a1", names.SLURM_DRAIN, "True", message=PENDING)
    words = ("sbatch", "--parsable", "--output=/dev/null", "-w", "a1", "--wrap", "sleep 600")
    waiting = int(await asyncio.to_thread(stage.slurm.run, *words))
    assert not clearance(await stage.pod("a1"))
    await stage.scancel(job)
    text = await cleared(stage, "a1")
    time, _, reason = text.partition(":")
    assert time.isdecimal()
    assert reason == PENDING
    assert await stage.job_state(waiting) == "PENDING"
    await stage.scancel(waiting)
    await gone_from_kubernetes(stage, "a1")
    await stage.status_when(lambda status: "a1" in status.released)
    assert not (await stage.seen("a1")).known
    await stage.drop("a1")
    await stage.status_when(lambda status: "a1" not in status.released)


async def test_a_clearance_is_taken_back_with_the_mark_and_stands_on_the_drain_of_now(stage: Stage) -> None:
    await stage.join("b1")
    await stage.mark("b1", {names.PENDING_DELETION: "its template was changed"})
    first = await cleared(stage, "b1")
    await asyncio.sleep(1.1)  # Slurm counts the time of a drain in seconds
    await stage.scontrol("update", "nodename=b1", "state=undrain")
    second = clearance(await stage.pod_when("b1", lambda pod: clearance(pod) not in {"", first}))
    assert int(second.partition(":")[0]) > int(first.partition(":")[0])
    await stage.mark("b1", {names.PENDING_DELETION: None})
    await stage.pod_when("b1", lambda pod: not clearance(pod))
    await stage.free("b1")


async def test_a_clearance_is_taken_back_if_a_job_has_come_while_nobody_looked(stage: Stage) -> None:
    await stage.join("j1")
    await stage.mark("j1", {names.PENDING_DELETION: "scaled in"})
    await cleared(stage, "j1")
    await asyncio.to_thread(stage.syncer.kill)
    await stage.scontrol("update", "nodename=j1", "state=undrain")
    job = await stage.sbatch("j1")
    assert clearance(await stage.pod("j1"))
    await asyncio.to_thread(stage.syncer.start)
    await stage.pod_when("j1", lambda pod: not clearance(pod))
    await stage.drained("j1", PENDING)
    await stage.condition("j1", names.SLURM_DRAIN, "True", message=PENDING)
    assert not clearance(await stage.pod("j1"))
    assert await stage.job_state(job) == "RUNNING"
    await stage.scancel(job)
    await cleared(stage, "j1")


async def test_a_person_who_sets_a_node_down_is_not_written_over_and_it_can_go(stage: Stage) -> None:
    await stage.join("c1")
    await stage.scontrol("update", "nodename=c1", "state=down", "reason=bad fan")
    await stage.mark("c1", {names.PENDING_DELETION: "scaled in"})
    assert (await cleared(stage, "c1")).endswith(":bad fan")
    assert (await stage.seen("c1")).reason == "bad fan"


async def test_nothing_is_cleared_while_slurm_is_away_and_what_was_is_taken_back(stage: Stage) -> None:
    await stage.join("d1")
    await stage.join("d2")
    await stage.mark("d1", {names.PENDING_DELETION: "scaled in"})
    await cleared(stage, "d1")
    async with stage.without_slurmctld():
        await stage.pod_when("d1", lambda pod: not clearance(pod))
        await stage.mark("d2", {names.PENDING_DELETION: "scaled in"})
        await stage.kill_syncer()
        await stage.syncer_says("Slurm does not answer")
        assert not clearance(await stage.pod("d1"))
        assert not clearance(await stage.pod("d2"))
    await cleared(stage, "d1")
    await cleared(stage, "d2")


async def test_a_reservation_keeps_the_record_and_nobody_else_s(stage: Stage) -> None:
    await stage.join("e1")
    await stage.join("e2")
    await stage.scontrol(
        "create", "reservation", "reservationname=fix", "starttime=now", "duration=60", "nodes=e1", "users=root"
    )
    for name in ("e1", "e2"):
        await stage.leave(name)
        await gone_from_kubernetes(stage, name)
    await stage.status_when(lambda status: "e2" in status.released)
    assert await refused(stage, "e1", "reservation") == "it is in the reservation fix"
    assert (await stage.seen("e1")).known
    await stage.scontrol("delete", "reservationname=fix")
    status = await stage.status_when(lambda status: "e1" in status.released)
    assert not refusal(status, "e1")
    for name in ("e1", "e2"):
        await stage.drop(name)


async def test_a_drain_that_a_person_puts_on_while_a_record_is_held_keeps_it(stage: Stage) -> None:
    await stage.join("h1")
    await stage.scontrol(
        "create", "reservation", "reservationname=hold", "starttime=now", "duration=60", "nodes=h1", "users=root"
    )
    await stage.leave("h1")
    await gone_from_kubernetes(stage, "h1")
    await stage.status_when(lambda status: "reservation" in refusal(status, "h1"))
    await asyncio.sleep(2)  # Slurm's times are of whole seconds
    await stage.scontrol("update", "nodename=h1", "state=drain", "reason=alice: bad fan")
    await stage.scontrol("delete", "reservationname=hold")
    status = await stage.status_when(lambda status: "drained" in refusal(status, "h1"))
    assert refusal(status, "h1") == "drained by a user or by Slurm: alice: bad fan"
    assert (await stage.seen("h1")).known
    await stage.scontrol("update", "nodename=h1", "state=undrain")
    await stage.status_when(lambda status: "h1" in status.released)
    await stage.drop("h1")


async def test_a_job_keeps_the_record_of_a_pod_that_was_lost(stage: Stage) -> None:
    await stage.join("f1")
    job = await stage.sbatch("f1")
    await stage.leave("f1")
    await stage.delete_pod("f1")
    assert await refused(stage, "f1", f"job {job}") == f"job {job} is on it"
    await stage.scancel(job)
    await stage.status_when(lambda status: "f1" in status.released)
    await stage.drop("f1")


async def test_a_pod_without_an_owner_of_ours_is_not_gone(stage: Stage) -> None:
    await stage.join("g1")
    await stage.leave("g1")
    await _patch_pod(stage, "g1", Merge({"metadata": {"ownerReferences": None}}))
    await refused(stage, "g1", "no NodeSet of this cluster owns it")
    assert (await stage.seen("g1")).known
    await _patch_pod(stage, "g1", Merge({"metadata": {"ownerReferences": [await stage.owner()]}}))
    await stage.join("g1", slurmd=False, pod=False)


async def _patch_pod(stage: Stage, name: str, patch: Merge) -> None:
    await stage.client.patch(COMPUTE_PODS, name, patch, namespace=stage.namespace)
