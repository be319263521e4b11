"""What is left over on one side only: records of nobody, Pods that Slurm does not know, records of another size."""

import asyncio

import pytest
from tests.integration.syncer.stage import CLUSTER, SET, SLICE, Stage, on_stage

from sunk.kube.api.patch import Merge
from sunk.local.slurm import Node as SlurmNode, Slurm
from sunk.model import names
from sunk.model.nodeslice import NODESLICE
from sunk.objects.nodesets import NODESETS, NODESLICES

pytestmark = on_stage
SYNCER = ("--forget-after", "1", "--restart-unknown-after", "1")


@pytest.fixture(scope="module", autouse=True)
def crowd(slurm_of_file: Slurm) -> None:
    """Nodes of somebody else: of a Slurm with three nodes, two that are deleted by hand would be hard to believe."""
    slurm_of_file.run("scontrol", "create", "nodename=crowd[1-16]", "cpus=1", "state=cloud")


async def leftover(stage: Stage, name: str) -> None:
    """A record that was ours, of no member; gone when this returns, as is the time that any other would have had."""
    await stage.scontrol("create", f"nodename={name}", "cpus=1", "state=cloud")
    await stage.scontrol("update", f"nodename={name}", 'extra={"k8s": {"pod": "gone"}}')
    await stage.slurm_when(name, lambda node: not node.known)


async def gone_from_kubernetes(stage: Stage, name: str) -> None:
    await stage.delete_pod(name)
    await asyncio.to_thread(stage.slurm.kill, name)


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
    await leftover(stage, "h0")
    assert (await stage.seen("h1")).ours["pod"] == "h1"
    assert not (await stage.seen("h1")).drained
    await stage.join("h1", slurmd=False, pod=False)
    await stage.client.delete(NODESLICES, f"{SET}-1", namespace=stage.namespace)


async def test_what_was_ours_and_is_nobody_s_goes_and_what_a_person_made_stays(stage: Stage) -> None:
    """M5."""
    await stage.scontrol("create", "nodename=hand", "cpus=1", "state=cloud")
    await stage.join("i1")
    await stage.slurm_when("i1", lambda node: bool(node.ours))
    await gone_from_kubernetes(stage, "i1")
    await stage.drop("i1")
    await stage.slurm_when("i1", lambda node: not node.known)
    # It stays for the tests behind: the last node that there is, deleted by hand, would be hard to believe.
    assert (await stage.seen("hand")).known


async def test_many_that_are_nobody_s_are_kept_and_that_is_said(stage: Stage) -> None:
    await stage.scontrol("create", "nodename=k[1-5]", "cpus=1", "state=cloud")
    await stage.scontrol("update", "nodename=k[1-5]", 'extra={"k8s": {"pod": "k"}}')
    found = await stage.held("k1")
    assert found is not None
    assert "5 Slurm nodes created by SUNK are in no NodeSlice" in found.held
    assert (await stage.seen("k1")).known
    await stage.scontrol("delete", "nodename=k1")  # one after the other: many at once would be hard to believe
    await stage.held("4 Slurm nodes")
    await stage.scontrol("delete", "nodename=k2")
    await stage.slurm_when("k5", lambda node: not node.known)
    await stage.not_held()


async def test_slices_that_are_gone_for_a_while_delete_nothing(stage: Stage) -> None:
    await stage.join("l1")
    await stage.slurm_when("l1", lambda node: bool(node.ours))
    held = await stage.client.get(NODESLICES, SLICE, namespace=stage.namespace)
    await stage.client.delete(NODESLICES, SLICE, namespace=stage.namespace)
    found = await stage.held("in no NodeSlice")
    assert found is not None
    assert "but its NodeSlices list 0" in found.held
    assert (await stage.seen("l1")).known
    body = {
        "apiVersion": NODESLICE.api_version,
        "kind": NODESLICE.name,
        "metadata": {"name": SLICE, "labels": held.metadata.labels},
        "spec": {"nodeSet": SET, "nodeSetUid": held.spec.node_set_uid, "cluster": CLUSTER, "entries": []},
    }
    await stage.client.create(NODESLICES, body, namespace=stage.namespace)
    await stage.join("l1", slurmd=False, pod=False)
    await stage.not_held()
    assert (await stage.seen("l1")).ours["pod"] == "l1"


async def test_a_ready_pod_that_slurm_does_not_know_is_restarted(stage: Stage) -> None:
    for name in ("m1", "m2", "m3"):
        await stage.join(name)
    await stage.scontrol("delete", "nodename=m1")
    await stage.eventually(stage.pod_names, lambda found: "m1" not in found)
    text = "Slurm has no node of this name"
    # Other Pods of these tests are told of too.
    await stage.eventually(lambda: stage.events("UnknownToSlurm"), lambda found: any(text in one.note for one in found))
    assert {"m2", "m3"} <= await stage.pod_names()


async def test_a_pod_of_another_size_gets_a_new_record_once_its_job_has_ended(stage: Stage) -> None:
    """M16."""
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


async def test_a_pod_of_another_size_whose_slurmd_has_not_begun_keeps_on(stage: Stage) -> None:
    await stage.join("o1", line=SlurmNode("o1", cpus=2, memory=1000))
    await gone_from_kubernetes(stage, "o1")
    late = {names.SHAPE: "CPUs=4 RealMemory=1000", "fake-kubelet.sunk/start-after": "10m"}
    async with asyncio.TaskGroup() as group:
        making = group.create_task(stage.make_pod("o1", annotations=late))
        made = await stage.pod_when("o1", lambda pod: bool(pod.metadata.uid))
        await stage.slurm_when("o1", lambda node: not node.known)
        making.cancel()
    now = await stage.pod("o1")
    assert now.metadata.uid == made.metadata.uid
    assert now.metadata.deletion_timestamp is None
    await stage.eventually(lambda: stage.events("Reshaped"), bool)


@pytest.mark.full
async def test_what_slurm_reads_otherwise_is_recreated_once_and_then_said(stage: Stage) -> None:
    wrong = {names.SHAPE: "CPUs=4 RealMemory=1000 Gres=gpu:none:1"}
    await stage.join("q1", line=SlurmNode("q1", cpus=2, memory=1000), annotations=wrong, wait=False)
    await stage.eventually(stage.pod_names, lambda found: "q1" not in found)
    await asyncio.to_thread(stage.slurm.stop, "q1")
    made = await stage.make_pod("q1", annotations=wrong)
    await asyncio.to_thread(stage.slurm.start, "q1")
    found = await stage.eventually(
        stage.report, lambda report: report is not None and any("did not help" in one for one in report.stuck)
    )
    assert found is not None
    assert "the Pod of q1 has CPUs=4 (Slurm has 2)" in next(one for one in found.stuck if "q1" in one)
    assert (await stage.pod("q1")).metadata.uid == made.metadata.uid
    assert (await stage.seen("q1")).known


async def test_somebody_s_drain_keeps_a_record_of_another_size(stage: Stage) -> None:
    await stage.join("p1", line=SlurmNode("p1", cpus=2, memory=1000))
    await stage.scontrol("update", "nodename=p1", "state=drain", "reason=bad fan")
    await stage.mark("p1", {names.SHAPE: "CPUs=4"})
    await stage.eventually(
        stage.report, lambda report: report is not None and any("bad fan" in one for one in report.stuck)
    )
    assert (await stage.seen("p1")).reason == "bad fan"
