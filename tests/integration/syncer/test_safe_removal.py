"""Safe removal as a whole: the NodeSet controller and the syncer, each with its half of it, on one Slurm."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

import pytest
from tests.integration.syncer.stage import CLUSTER, SET, SLICE, CaughtUp, Stage, on_stage

from sunk.kube.api.patch import Merge
from sunk.kube.errors import NotFound
from sunk.local.fakekubelet import FLEET
from sunk.local.slurm import Node as SlurmNode
from sunk.model import names
from sunk.model.nodeset import NODESET
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet
from sunk.operator.nodeset.controller import nodesets

pytestmark = on_stage


@asynccontextmanager
async def controlled(
    stage: Stage,
    name: str,
    *,
    replicas: int,
    leads: Callable[[], bool] = lambda: True,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[tuple[list[str], CaughtUp]]:
    """A NodeSet and its controller, with as many real slurmd; gives the names of its members.

    The controller hears of Pods and of NodeSets by different watches: who is to know of a job before a change waits for it.
    """
    await create(stage, name, replicas=replicas, **annotations)
    async with stage.operator(nodesets, leads=leads) as caught_up:
        made = await stage.eventually(lambda: members(stage, name), lambda found: len(found) == replicas)
        await asyncio.to_thread(stage.slurm.add, *(SlurmNode(one, cpus=2, memory=1000) for one in made))
        for one in made:
            await stage.condition(one, names.SLURM_RUNNING, "False", reason="Idle")
        yield made, caught_up


async def create(stage: Stage, name: str, *, replicas: int, **annotations: str) -> None:
    with suppress(NotFound):  # what the stage itself says would be this controller's from now on
        await stage.client.delete(NODESETS, SET, namespace=stage.namespace)
        await stage.client.delete(NODESLICES, SLICE, namespace=stage.namespace)
    spec = {"cluster": CLUSTER, "replicas": replicas, "podNamePrefix": name, "template": template(stage, **annotations)}
    body = {"apiVersion": NODESET.api_version, "kind": NODESET.name, "metadata": {"name": name}, "spec": spec}
    await stage.client.create(NODESETS, body, namespace=stage.namespace)


def template(stage: Stage, **annotations: str) -> dict[str, Any]:
    asked = [{"key": FLEET, "operator": "In", "values": [stage.namespace]}]
    required = {"nodeSelectorTerms": [{"matchExpressions": asked}]}
    return {
        "metadata": {"annotations": annotations},
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": names.SLURMD, "image": "none"}],
        },
    }


async def members(stage: Stage, name: str) -> list[str]:
    return sorted(one for one in await stage.pod_names() if one.startswith(f"{name}-"))


async def change(stage: Stage, name: str, **spec: Any) -> None:
    await stage.client.patch(NODESETS, name, Merge({"spec": spec}), namespace=stage.namespace)


async def settled(stage: Stage, name: str, count: int) -> NodeSet:
    return await stage.eventually(
        lambda: stage.client.get(NODESETS, name, namespace=stage.namespace), lambda one: one.status.members == count
    )


async def test_a_clearance_of_before_both_died_deletes_nothing_that_runs_a_job_by_now(stage: Stage) -> None:
    """Cleared; both die; a person resumes the node and a job starts; the operator is back first."""
    async with controlled(stage, "old", replicas=1, leads=lambda: False) as ((name,), _):
        await change(stage, "old", replicas=0)
        await stage.pod_when(name, lambda pod: names.CLEAR_TO_DELETE in pod.metadata.annotations)
        await asyncio.to_thread(stage.syncer.kill)
    await stage.scontrol("update", f"nodename={name}", "state=resume")
    job = await stage.sbatch(name)
    async with stage.operator(nodesets):
        await stage.pod_when(name, lambda pod: names.CLEAR_TO_DELETE not in pod.metadata.annotations)
        assert (await stage.pod(name)).metadata.deletion_timestamp is None
        assert "asking Slurm again" in (await stage.eventually(lambda: stage.events("AskedAgain"), bool))[0].note
        await asyncio.to_thread(stage.syncer.start)
        await stage.drained(name, "k8s: pending deletion")
        assert await stage.job_state(job) == "RUNNING"
        await stage.scancel(job)
        await stage.eventually(lambda: members(stage, "old"), lambda found: not found)
        await asyncio.to_thread(stage.slurm.kill, name)
        await settled(stage, "old", 0)


async def test_a_pod_that_the_kubelet_has_not_seen_start_stays_if_slurm_has_a_job_there(stage: Stage) -> None:
    """Slurmd registers, and is given a job, before the kubelet says that it runs."""
    await asyncio.to_thread(stage.syncer.kill)
    await create(stage, "early", replicas=1, **{"fake-kubelet.sunk/start-after": "600s"})
    async with stage.operator(nodesets):
        (name,) = await stage.eventually(lambda: members(stage, "early"), lambda found: len(found) == 1)
        await asyncio.to_thread(stage.slurm.add, SlurmNode(name, cpus=2, memory=1000))
        job = await stage.sbatch(name)
        await stage.pod_when(name, lambda pod: bool(pod.spec.node_name))
        await change(stage, "early", replicas=0)
        await stage.pod_when(name, lambda pod: names.PENDING_DELETION in pod.metadata.annotations)
        await asyncio.sleep(1)
        pod = await stage.pod(name)
        assert not pod.status.container_statuses or pod.status.container_statuses[0].state.running is None
        assert pod.metadata.deletion_timestamp is None
        await asyncio.to_thread(stage.syncer.start)
        await stage.drained(name, "k8s: pending deletion")
        assert await stage.job_state(job) == "RUNNING"
        await stage.scancel(job)
        await stage.eventually(lambda: members(stage, "early"), lambda found: not found)
        await asyncio.to_thread(stage.slurm.kill, name)
        await settled(stage, "early", 0)


async def test_a_scale_in_waits_for_the_job_and_takes_the_record_along(stage: Stage) -> None:
    async with controlled(stage, "in", replicas=2) as (made, caught_up):
        jobs = {name: await stage.sbatch(name) for name in made}
        for name in made:
            await stage.condition(name, names.SLURM_RUNNING, "True")
        await caught_up()
        await change(stage, "in", replicas=1)
        going = made[-1]
        await stage.drained(going, "k8s: pending deletion")
        await stage.condition(going, names.SLURM_DRAIN, "True")
        assert await members(stage, "in") == made
        await stage.scancel(jobs[going])
        await stage.eventually(lambda: members(stage, "in"), lambda found: found == made[:1])
        await asyncio.to_thread(stage.slurm.kill, going)
        await settled(stage, "in", 1)
        assert not (await stage.seen(going)).known
        assert await stage.job_state(jobs[made[0]]) == "RUNNING"
        await stage.scancel(jobs[made[0]])


@pytest.mark.full
async def test_an_update_to_another_size_has_slurm_take_the_new_one(stage: Stage) -> None:
    async with controlled(stage, "up", replicas=1, annotations={names.SHAPE: "CPUs=2 RealMemory=1000 Gres="}) as (
        (name,),
        _,
    ):
        before = (await stage.pod(name)).metadata.uid
        job = await stage.sbatch(name)
        await stage.condition(name, names.SLURM_RUNNING, "True")
        larger = {names.SHAPE: "CPUs=4 RealMemory=1000 Gres=", "fake-kubelet.sunk/start-after": "5s"}
        await change(stage, "up", template=template(stage, **larger))
        await stage.drained(name, "k8s: pending deletion")
        assert await stage.job_state(job) == "RUNNING"
        await stage.scancel(job)
        await stage.slurm_when(name, lambda node: not node.known)
        pod = await stage.pod_when(name, lambda found: found.metadata.uid != before)
        await asyncio.to_thread(stage.slurm.kill, name)
        box, daemon = stage.slurm.layout.node(SlurmNode(name, cpus=4, memory=1000))
        stage.slurm.machines.add(box, daemon=daemon)
        await stage.pod_when(name, lambda found: found.status.phase == "Running")
        await asyncio.to_thread(stage.slurm.start, name)
        await stage.condition(name, names.SLURM_RUNNING, "False", reason="Idle")
        assert "CPUTot=4" in await stage.scontrol("show", "node", name)
        await stage.free(name)
        assert (await stage.pod(name)).metadata.uid == pod.metadata.uid


@pytest.mark.full
async def test_a_syncer_that_is_killed_again_and_again_ends_where_it_should(stage: Stage) -> None:
    async with controlled(stage, "kill", replicas=3) as (made, caught_up):
        job = await stage.sbatch(made[0])
        await stage.condition(made[0], names.SLURM_RUNNING, "True")
        await caught_up()
        await change(stage, "kill", replicas=1)
        for pause in (0.0, 0.3, 0.6, 1.2, 2.4):
            await asyncio.sleep(pause)
            await stage.kill_syncer()
        await settled(stage, "kill", 1)
        assert await members(stage, "kill") == made[:1], "who runs a job goes last"
        assert await stage.job_state(job) == "RUNNING"
        assert not (await stage.seen(made[1])).known
        assert not (await stage.seen(made[2])).known
        await stage.scancel(job)
