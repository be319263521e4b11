"""What may go, goes by itself and loses nothing; what may not, stays and says why."""

import asyncio

from tests.integration.syncer.stage import CLUSTER, SET, SLICE, Stage, on_stage

from sunk.kube.patch import Merge
from sunk.local.slurm import Node as SlurmNode
from sunk.local.slurm.configuration import CONTROLLER
from sunk.model import names
from sunk.model.nodeslice import NODESLICE, NodeSliceStatus
from sunk.objects.members import NODESETS, NODESLICES
from sunk.syncer.pods import ComputePod

pytestmark = on_stage
SYNCER = ("--forget-after", "2", "--restart-unknown-after", "2")
PENDING = "k8s: pending deletion"


def clearance(pod: ComputePod) -> str:
    return pod.metadata.annotations.get(names.CLEAR_TO_DELETE, "")


async def cleared(stage: Stage, name: str) -> str:
    return clearance(await stage.pod_when(name, lambda pod: bool(clearance(pod))))


async def gone_from_kubernetes(stage: Stage, name: str) -> None:
    """What the NodeSet controller and a kubelet do with a Pod that is cleared."""
    await stage.delete_pod(name)
    await asyncio.to_thread(stage.slurm.kill, name)


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
        await asyncio.sleep(2)
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
    status = await stage.status_when(lambda status: "e2" in status.released and bool(refusal(status, "e1")))
    assert refusal(status, "e1") == "it is in the reservation fix"
    assert (await stage.seen("e1")).known
    await stage.scontrol("delete", "reservationname=fix")
    status = await stage.status_when(lambda status: "e1" in status.released)
    assert not refusal(status, "e1")
    for name in ("e1", "e2"):
        await stage.drop(name)


async def test_a_job_keeps_the_record_of_a_pod_that_was_lost(stage: Stage) -> None:
    await stage.join("f1")
    job = await stage.sbatch("f1")
    await stage.leave("f1")
    await stage.delete_pod("f1")
    status = await stage.status_when(lambda status: bool(refusal(status, "f1")))
    assert refusal(status, "f1") == f"job {job} is on it"
    await stage.scancel(job)
    await stage.status_when(lambda status: "f1" in status.released)
    await stage.drop("f1")


async def test_a_pod_without_our_labels_is_not_gone(stage: Stage) -> None:
    await stage.join("g1")
    await stage.leave("g1")
    patch = Merge({"metadata": {"labels": {names.COMPONENT: None}}})
    await stage.client.patch(NODESLICES, SLICE, Merge({}), namespace=stage.namespace)
    await _patch_pod(stage, "g1", patch)
    status = await stage.status_when(lambda status: bool(refusal(status, "g1")))
    assert "lacks the labels" in refusal(status, "g1")
    assert (await stage.seen("g1")).known
    await _patch_pod(stage, "g1", Merge({"metadata": {"labels": {names.COMPONENT: names.COMPUTE}}}))
    await stage.join("g1", slurmd=False, pod=False)


async def _patch_pod(stage: Stage, name: str, patch: Merge) -> None:
    from sunk.syncer.pods import COMPUTE_PODS

    await stage.client.patch(COMPUTE_PODS, name, patch, namespace=stage.namespace)


async def test_an_entry_that_moves_to_another_slice_loses_nothing(stage: Stage) -> None:
    await stage.join("h1")
    await stage.slurm_when("h1", lambda node: bool(node.ours))
    entry = stage.entry("h1")
    owner = (await stage.client.get(NODESETS, SET, namespace=stage.namespace)).metadata.uid
    body = {
        "apiVersion": NODESLICE.api_version,
        "kind": NODESLICE.name,
        "metadata": {"name": f"{SET}-1", "labels": {names.CLUSTER: CLUSTER}},
        "spec": {
            "nodeSet": SET,
            "nodeSetUid": owner,
            "cluster": CLUSTER,
            "entries": [{"name": entry.name, "node": entry.node}],
        },
    }
    await stage.client.create(NODESLICES, body, namespace=stage.namespace)
    here = (await stage.client.get(NODESLICES, SLICE, namespace=stage.namespace)).spec.entries
    left = [{"name": one.name, "node": one.node, "state": one.state} for one in here if one.name != "h1"]
    await stage.client.patch(NODESLICES, SLICE, Merge({"spec": {"entries": left}}), namespace=stage.namespace)
    await asyncio.sleep(4)
    assert (await stage.seen("h1")).ours["pod"] == "h1"
    assert not (await stage.seen("h1")).drained
    await stage.join("h1", slurmd=False, pod=False)
    await stage.client.delete(NODESLICES, f"{SET}-1", namespace=stage.namespace)


async def test_what_was_ours_and_is_nobody_s_goes_and_what_a_person_made_stays(stage: Stage) -> None:
    await stage.scontrol("create", "nodename=hand", "cpus=1", "state=cloud")
    await stage.join("i1")
    await stage.slurm_when("i1", lambda node: bool(node.ours))
    await gone_from_kubernetes(stage, "i1")
    await stage.drop("i1")
    await stage.slurm_when("i1", lambda node: not node.known)
    assert (await stage.seen("hand")).known
    await stage.scontrol("delete", "nodename=hand")


async def test_many_that_are_nobody_s_are_kept_and_that_is_said(stage: Stage) -> None:
    await stage.scontrol("create", "nodename=k[1-5]", "cpus=1", "state=cloud")
    await stage.scontrol("update", "nodename=k[1-5]", 'extra={"k8s": {"pod": "k"}}')
    found = await stage.eventually(stage.report, lambda report: report is not None and "k1" in report.held)
    assert found is not None
    assert "5 Slurm nodes that were ours are in no NodeSlice" in found.held
    assert (await stage.seen("k1")).known
    for number in (1, 2):
        await stage.scontrol("delete", f"nodename=k{number}")
        await asyncio.sleep(1.5)  # many at once would be hard to believe
    await stage.slurm_when("k5", lambda node: not node.known)
    await stage.eventually(stage.report, lambda report: report is not None and not report.held)


async def test_slices_that_are_gone_for_a_while_delete_nothing(stage: Stage) -> None:
    await stage.join("l1")
    await stage.slurm_when("l1", lambda node: bool(node.ours))
    held = await stage.client.get(NODESLICES, SLICE, namespace=stage.namespace)
    await stage.client.delete(NODESLICES, SLICE, namespace=stage.namespace)
    found = await stage.eventually(stage.report, lambda report: report is not None and "in no NodeSlice" in report.held)
    assert found is not None
    assert "slices tell 0" in found.held
    assert (await stage.seen("l1")).known
    body = {
        "apiVersion": NODESLICE.api_version,
        "kind": NODESLICE.name,
        "metadata": {"name": SLICE, "labels": held.metadata.labels},
        "spec": {"nodeSet": SET, "nodeSetUid": held.spec.node_set_uid, "cluster": CLUSTER, "entries": []},
    }
    await stage.client.create(NODESLICES, body, namespace=stage.namespace)
    await stage.join("l1", slurmd=False, pod=False)
    await stage.eventually(stage.report, lambda report: report is not None and not report.held)
    assert (await stage.seen("l1")).ours["pod"] == "l1"


async def test_a_ready_pod_that_slurm_does_not_know_is_started_anew(stage: Stage) -> None:
    for name in ("m1", "m2", "m3"):
        await stage.join(name)
    before = await stage.pod("m1")
    await stage.scontrol("delete", "nodename=m1")
    await stage.eventually(stage.pod_names, lambda found: "m1" not in found)
    assert (
        "Slurm has no node of this name"
        in (await stage.eventually(lambda: stage.events("UnknownToSlurm"), bool))[0].note
    )
    assert before.metadata.uid
    assert {"m2", "m3"} <= await stage.pod_names()


async def test_a_pod_of_another_size_gets_a_new_record_once_its_job_has_ended(stage: Stage) -> None:
    await stage.join("n1", line=SlurmNode("n1", cpus=2, memory=1000))
    job = await stage.sbatch("n1")
    await stage.delete_pod("n1")
    await stage.make_pod("n1", annotations={names.SHAPE: "CPUs=4 RealMemory=1000 Gres="})
    await stage.free("n1")
    assert await stage.job_state(job) == "RUNNING"
    await stage.scancel(job)
    await stage.slurm_when("n1", lambda node: not node.known)
    # Its slurmd has registered with the old record and would be unknown to Slurm from now on.
    await stage.eventually(stage.pod_names, lambda found: "n1" not in found)
    assert await stage.events("Reshaped")


async def test_a_pod_of_another_size_whose_slurmd_has_not_begun_keeps_on(stage: Stage) -> None:
    await stage.join("o1", line=SlurmNode("o1", cpus=2, memory=1000))
    await stage.delete_pod("o1")
    await asyncio.to_thread(stage.slurm.kill, "o1")
    made = asyncio.create_task(
        stage.make_pod("o1", annotations={names.SHAPE: "CPUs=4 RealMemory=1000", "fake-kubelet.sunk/start-after": "6s"})
    )
    await stage.slurm_when("o1", lambda node: not node.known)
    pod = await made
    assert (await stage.pod("o1")).metadata.uid == pod.metadata.uid
    await asyncio.to_thread(stage.slurm.run, "true", on=CONTROLLER)


async def test_somebody_s_drain_keeps_a_record_of_another_size(stage: Stage) -> None:
    await stage.join("p1", line=SlurmNode("p1", cpus=2, memory=1000))
    await stage.scontrol("update", "nodename=p1", "state=drain", "reason=bad fan")
    await stage.mark("p1", {names.SHAPE: "CPUs=4"})
    await stage.eventually(
        stage.report, lambda report: report is not None and any("bad fan" in one for one in report.stuck)
    )
    assert (await stage.seen("p1")).reason == "bad fan"
