"""From Slurm to Kubernetes: a Pod says how its node is, soon, in one write, and no more than is known."""

import asyncio

import pytest
from tests.integration.syncer.stage import Stage, on_stage

from sunk.model import names
from sunk.syncer.pods import ComputePod, condition

pytestmark = on_stage
# A slurmd that registers, which it does now and then, would bring back a node that a person has set down.
SLURM = {"config": {"ReturnToService": 1}}
LATER = 180.0
"""Until a slurmd is believed to be gone. Sooner one would be that only stands still for a while."""
SYNCER = ("--calm", "60")  # on a machine with much to do a slurmd may take its time
SLURMS = (names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_NOT_RESPONDING)


def said(pod: ComputePod) -> dict[str, tuple[str, str, str]]:
    found = (condition(pod, kind) for kind in SLURMS)
    return {one.type: (one.status, one.reason, one.message) for one in found if one is not None}


def labels(pod: ComputePod) -> dict[str, str]:
    ours = (names.DRAIN, names.RUNNING, names.NOT_RESPONDING, names.EVICTABLE)
    return {key: value for key, value in pod.metadata.labels.items() if key in ours}


async def test_conditions_and_labels_follow_a_drain_in_one_write_each_way(stage: Stage) -> None:
    await stage.join("a1")
    await stage.slurm_when("a1", lambda node: bool(node.ours) and node.states >= {"IDLE"})
    idle = await stage.condition("a1", names.SLURM_RUNNING, "False", reason="Idle", message="IDLE")
    async with stage.followed("a1") as versions:
        await stage.scontrol("update", "nodename=a1", "state=drain", "reason=bad fan")
        drained = await stage.condition("a1", names.SLURM_DRAIN, "True", reason="FromSlurm", message="bad fan")
        assert len(await versions.up_to_now()) == 1
        assert labels(drained) == {
            names.DRAIN: "true",
            names.RUNNING: "false",
            names.NOT_RESPONDING: "false",
            names.EVICTABLE: "true",
        }
        await stage.scontrol("update", "nodename=a1", "state=undrain")
        free = await stage.condition("a1", names.SLURM_DRAIN, "False", reason="NotDrained")
        await stage.slurm_when("a1", lambda node: "NOT_RESPONDING" not in node.states)
        assert labels(free) == {names.DRAIN: "false", names.RUNNING: "false", names.NOT_RESPONDING: "false"}
        assert said(free) == said(idle)
        assert len(await versions.up_to_now()) == 2, (
            "that it does not respond for a moment after an undrain is not told"
        )
    since = condition(idle, names.SLURM_RUNNING)
    assert since == condition(free, names.SLURM_RUNNING), "its time moves with its status only"


async def test_a_job_is_seen_and_keeps_its_pod_from_eviction_until_it_has_ended(stage: Stage) -> None:
    """M2."""
    await stage.join("b1")
    job = await stage.sbatch("b1")
    busy = await stage.condition("b1", names.SLURM_RUNNING, "True", reason="Busy")
    assert labels(busy)[names.RUNNING] == "true"
    await stage.scontrol("update", "nodename=b1", "state=drain", "reason=bad fan")
    drained = await stage.condition("b1", names.SLURM_DRAIN, "True", message="bad fan")
    assert names.EVICTABLE not in drained.metadata.labels
    await stage.scancel(job)
    idle = await stage.condition("b1", names.SLURM_RUNNING, "False", reason="Idle", message="IDLE+DRAIN")
    assert idle.metadata.labels[names.EVICTABLE] == "true"


async def test_a_suspended_job_still_holds_its_node(stage: Stage) -> None:
    await stage.join("c1")
    job = await stage.sbatch("c1", "--exclusive")
    await stage.scontrol("suspend", str(job))
    await stage.eventually(lambda: stage.job_state(job), lambda state: state == "SUSPENDED")
    await stage.scontrol("update", "nodename=c1", "state=drain", "reason=bad fan")
    found = await stage.condition("c1", names.SLURM_DRAIN, "True", message="bad fan")
    assert said(found)[names.SLURM_RUNNING][:2] == ("True", "Busy")
    assert names.EVICTABLE not in found.metadata.labels
    await stage.scancel(job)
    await stage.label("c1", names.EVICTABLE, "true")


async def test_what_slurm_does_not_know_is_unknown_until_it_registers(stage: Stage) -> None:
    await stage.join("d1", slurmd=False, wait=False)
    found = await stage.condition("d1", names.SLURM_DRAIN, "Unknown", reason="NotRegistered")
    assert {status for status, _, _ in said(found).values()} == {"Unknown"}
    assert labels(found) == {}
    await asyncio.to_thread(stage.slurm.add, "d1")
    found = await stage.condition("d1", names.SLURM_RUNNING, "False", reason="Idle")
    assert labels(found)[names.RUNNING] == "false"


async def test_a_node_that_is_down_can_be_evicted_by_who_waits_for_a_drain_that_never_comes(stage: Stage) -> None:
    await stage.join("e1")
    await stage.scontrol("update", "nodename=e1", "state=down", "reason=bad fan")
    found = await stage.condition("e1", names.SLURM_RUNNING, "False", message="DOWN")
    assert names.EVICTABLE not in found.metadata.labels
    await stage.mark("e1", {names.CORDON: "disk"})
    await stage.label("e1", names.EVICTABLE, "true")
    assert not (await stage.seen("e1")).drained
    await stage.mark("e1", {names.CORDON: None})
    await stage.label("e1", names.EVICTABLE, None)


@pytest.mark.full
async def test_a_slurmd_that_is_gone_does_not_respond_and_then_is_down(stage: Stage) -> None:
    await stage.join("i1")
    await asyncio.to_thread(stage.slurm.kill, "i1")
    found = await stage.condition("i1", names.SLURM_NOT_RESPONDING, "True", reason="NotResponding", seconds=LATER)
    assert labels(found)[names.NOT_RESPONDING] == "true"
    await stage.condition("i1", names.SLURM_RUNNING, "False", message="DOWN", seconds=LATER)


async def test_what_somebody_else_writes_over_ours_is_put_right(stage: Stage) -> None:
    await stage.join("f1")
    await stage.say("f1", names.SLURM_DRAIN, "True", message="not so")
    await stage.condition("f1", names.SLURM_DRAIN, "False")
    await stage.eventually(lambda: stage.pod("f1"), lambda pod: said(pod)[names.SLURM_DRAIN][2] == "")


async def test_while_slurm_is_away_what_was_said_last_stays(stage: Stage) -> None:
    await stage.join("g1")
    await stage.scontrol("update", "nodename=g1", "state=drain", "reason=bad fan")
    before = await stage.condition("g1", names.SLURM_DRAIN, "True", message="bad fan")
    async with stage.without_slurmctld():
        await stage.syncer_says("Slurm does not answer")
        await stage.join("h1", slurmd=False, wait=False)
        await stage.kill_syncer()
        await stage.eventually(stage.report, lambda _: True)
        await stage.syncer_says("Slurm does not answer")
        assert said(await stage.pod("g1")) == said(before)
        assert said(await stage.pod("h1")) == {}
    await stage.condition("h1", names.SLURM_DRAIN, "Unknown")
    # A node may not respond for a moment after a start of slurmctld.
    await stage.pod_when("g1", lambda pod: said(pod) == said(before))
