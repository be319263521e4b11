"""What somebody else has said of a node stays: FAIL, a reboot that Slurm waits for, a drain in the same breath as ours."""

import asyncio
import random

from msgspec import json
from tests.integration.syncer.stage import Stage, on_stage
from tests.versions import BOTH

from sunk.local.slurm import Node as SlurmNode
from sunk.model import names
from sunk.model.contract.requests import Answer, Order

pytestmark = on_stage

VERSIONS = BOTH
SYNCER = ("--restart-unknown-after", "600", "--wave-share", "0.9", "--clock-skew", "1")
SLURM = {"config": {"RebootProgram": "/bin/true", "ResumeTimeout": 300}}
BOB = "bob: bad fan"


async def update(stage: Stage, node: str, state: str, reason: str = "") -> None:
    words = (f"reason={reason}",) if reason else ()
    await stage.scontrol("update", f"nodename={node}", f"state={state}", *words)


async def cordon(stage: Stage, node: str, reason: str | None) -> None:
    await stage.mark(node, {names.CORDON: reason})


async def looked(stage: Stage, node: str) -> None:
    """Wait until the syncer has looked at a node after everything that was done to it before."""
    mark = f"look-{random.random()}"  # noqa: S311 - any word that was not there before
    await stage.say(node, mark, "True")
    await stage.slurm_when(node, lambda seen: mark in seen.ours.get("conditions", {}))


async def fails(stage: Stage, node: str, reason: str) -> None:
    await stage.slurm_when(node, lambda seen: "FAIL" in seen.states and seen.reason == reason and not seen.drained)


# FAIL


async def test_fail_outlives_a_cordon_and_its_end_and_ours_follows_when_it_is_lifted(stage: Stage) -> None:
    await stage.join("f1")
    await update(stage, "f1", "fail", BOB)
    await stage.condition("f1", names.SLURM_DRAIN, "True", reason="FromSlurm", message=BOB)
    for reason in ("disk", None, "disk"):
        await cordon(stage, "f1", reason)
        await looked(stage, "f1")
        await fails(stage, "f1", BOB)
    await update(stage, "f1", "resume")
    await stage.drained("f1", "k8s: cordon: disk")
    await cordon(stage, "f1", None)
    await stage.free("f1")


async def test_fail_over_our_drain_stays_also_while_a_job_runs(stage: Stage) -> None:
    await stage.join("f2")
    job = await stage.sbatch("f2")
    await cordon(stage, "f2", "disk")
    await stage.drained("f2", "k8s: cordon: disk")
    await update(stage, "f2", "fail", BOB)
    await cordon(stage, "f2", None)
    await looked(stage, "f2")
    await fails(stage, "f2", BOB)
    await stage.label("f2", names.EVICTABLE, None)
    await stage.scancel(job)
    await stage.label("f2", names.EVICTABLE, "true")
    await fails(stage, "f2", BOB)


async def test_who_has_to_go_with_fail_is_cleared_as_it_is(stage: Stage) -> None:
    await stage.join("f3")
    await update(stage, "f3", "fail", BOB)
    await stage.condition("f3", names.SLURM_DRAIN, "True", reason="FromSlurm")
    await stage.mark("f3", {names.PENDING_DELETION: "scale-in"})
    pod = await stage.pod_when("f3", lambda found: names.CLEAR_TO_DELETE in found.metadata.annotations)
    assert pod.metadata.annotations[names.CLEAR_TO_DELETE].endswith(f":{BOB}")
    await fails(stage, "f3", BOB)


async def test_fail_is_lifted_by_an_order_and_not_by_a_verification(stage: Stage) -> None:
    await stage.join("f4")
    await update(stage, "f4", "fail", "NHC (verify-undrain)")
    await stage.condition("f4", names.SLURM_DRAIN, "True", reason="FromSlurm")
    await asyncio.sleep(2.5)
    await stage.say("f4", names.HPC_VERIFICATION, "True")
    await looked(stage, "f4")
    await fails(stage, "f4", "NHC (verify-undrain)")
    await stage.mark("f4", {names.ORDER: json.encode(Order(id="1", act="undrain")).decode()})
    pod = await stage.pod_when("f4", lambda found: names.ORDER_DONE in found.metadata.annotations)
    assert json.decode(pod.metadata.annotations[names.ORDER_DONE], type=Answer).done
    await stage.slurm_when("f4", lambda seen: "FAIL" not in seen.states and not seen.drained)


# Reboots


async def test_a_drain_under_which_slurm_waits_to_reboot_is_not_lifted_before_that_is_over(stage: Stage) -> None:
    await stage.join("r1", line=SlurmNode("r1", options=("-b",)))
    job = await stage.sbatch("r1")
    await cordon(stage, "r1", "disk")
    await stage.drained("r1", "k8s: cordon: disk")
    await stage.scontrol("reboot", "ASAP", "r1")
    await cordon(stage, "r1", None)
    await looked(stage, "r1")
    seen = await stage.drained("r1", "k8s: cordon: disk")
    assert "REBOOT_REQUESTED" in seen.states
    await stage.scancel(job)
    await stage.slurm_when("r1", lambda found: "REBOOT_ISSUED" in found.states and found.drained)
    # With -b slurmd says that its machine was restarted.
    await asyncio.to_thread(stage.slurm.stop, "r1")
    await asyncio.to_thread(stage.slurm.start, "r1")
    back = await stage.free("r1")
    assert "IDLE" in back.states
    assert not {"REBOOT_REQUESTED", "REBOOT_ISSUED"} & back.states


async def test_a_reboot_that_is_called_off_leaves_a_node_to_the_rule(stage: Stage) -> None:
    await stage.join("r2")
    job = await stage.sbatch("r2")
    await cordon(stage, "r2", "disk")
    await stage.drained("r2", "k8s: cordon: disk")
    await stage.scontrol("reboot", "ASAP", "r2")
    await cordon(stage, "r2", None)
    await looked(stage, "r2")
    await stage.drained("r2", "k8s: cordon: disk")
    await stage.scontrol("cancel_reboot", "r2")
    await stage.free("r2")
    await stage.scancel(job)


# A text that is left


async def test_a_text_of_ours_does_not_dress_slurms_own_next_drain(stage: Stage) -> None:
    """Slurm keeps a reason that it finds. Where accounting is off 24.11 leaves ours at an undrain."""
    await stage.join("t1")
    await cordon(stage, "t1", "disk")
    await stage.drained("t1", "k8s: cordon: disk")
    await cordon(stage, "t1", None)
    await stage.slurm_when("t1", lambda seen: not seen.drained and not seen.reason.startswith("k8s:"))
    await stage.scontrol("reboot", "ASAP", "t1")
    seen = await stage.slurm_when("t1", lambda found: found.drained)
    assert not seen.reason.startswith("k8s:")
    await stage.condition("t1", names.SLURM_DRAIN, "True", reason="FromSlurm")


# In one breath


async def test_a_person_who_drains_at_the_moment_of_an_uncordon_keeps_that_drain(stage: Stage) -> None:
    await stage.join("b1")
    for turn in range(10):
        await cordon(stage, "b1", f"turn {turn}")
        await stage.drained("b1", f"k8s: cordon: turn {turn}")
        await asyncio.sleep(0.3)
        await asyncio.gather(cordon(stage, "b1", None), update(stage, "b1", "drain", f"bob: turn {turn}"))
        await looked(stage, "b1")
        await stage.drained("b1", f"bob: turn {turn}")
        await update(stage, "b1", "undrain")
        await stage.free("b1")
