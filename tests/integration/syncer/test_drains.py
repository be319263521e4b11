"""Drains that come from Kubernetes, on a real Slurm: put on, kept, lifted, and never in the way of anybody else's."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from msgspec import json
from tests.integration.syncer.stage import Stage, on_stage

from sunk.model import names
from sunk.model.contract.report import Report
from sunk.model.contract.requests import Answer, Order

pytestmark = on_stage

NOT_READY_AFTER = 3.0
WAVE_DELAY = 15.0
"""Seconds: in less a starved machine does not show that they wait."""
SYNCER = (
    *("--not-ready-after", str(NOT_READY_AFTER), "--wave-share", "0.1", "--wave-delay", str(WAVE_DELAY)),
    *("--clock-skew", "1", "--restart-unknown-after", "600"),
)
FAST = ("NodeSet=fast Feature=fast", "PartitionName=fast Nodes=fast")
SLURM = {"lines": ("PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP", *FAST)}
ALICE = "alice: bad fan"


async def drain(stage: Stage, node: str, reason: str) -> None:
    await stage.scontrol("update", f"nodename={node}", "state=drain", f"reason={reason}")


async def undrain(stage: Stage, node: str) -> None:
    await stage.scontrol("update", f"nodename={node}", "state=undrain")


async def cordon(stage: Stage, node: str, reason: str | None) -> None:
    await stage.mark(node, {names.CORDON: reason})


async def looked(stage: Stage, node: str) -> None:
    """Wait until the syncer has looked at a node after everything that was done to it before."""
    mark = f"look-{time.monotonic_ns()}"
    await stage.say(node, mark, "True")
    await stage.slurm_when(node, lambda seen: mark in seen.ours.get("conditions", {}))


# Causes and their texts


async def test_a_cordon_has_its_reason_as_text_and_follows_it(stage: Stage) -> None:
    await stage.join("c1")
    for said, text in (
        ("", "k8s: cordon"),
        ("disk", "k8s: cordon: disk"),
        ("a 'b' \"c\" \\ %n $(d); größer\n than #3", "k8s: cordon: a 'b' \"c\" \\ %n $(d); größer than #3"),
    ):
        await cordon(stage, "c1", said)
        await stage.drained("c1", text)
    before = await stage.scontrol("show", "node", "c1")
    await looked(stage, "c1")
    stood = [line for line in before.splitlines() if "Reason=" in line]
    assert stood[0] in await stage.scontrol("show", "node", "c1"), "what Slurm keeps is not put on again"
    await cordon(stage, "c1", None)
    await stage.free("c1")


async def test_a_pod_that_goes_drains_its_node_and_keeps_the_text_of_the_cordon(stage: Stage) -> None:
    await stage.join("p1")
    await cordon(stage, "p1", "disk")
    await stage.drained("p1", "k8s: cordon: disk")
    await stage.delete_pod("p1")
    await stage.drained("p1", "k8s: pod terminated: cordon: disk")
    await stage.make_pod("p1", ready=False)
    await stage.drained("p1", "k8s: pod not ready")
    await stage.ready("p1")
    await stage.free("p1")


async def test_a_pod_that_is_not_ready_for_a_while_drains_its_node_until_it_is(stage: Stage) -> None:
    await stage.join("r1")
    began = time.monotonic()
    await stage.ready("r1", is_so=False)
    await stage.drained("r1", "k8s: pod not ready")
    assert time.monotonic() - began >= NOT_READY_AFTER
    await stage.ready("r1")
    await stage.free("r1")


async def test_many_that_stop_being_ready_together_wait_and_that_is_said(stage: Stage) -> None:
    await stage.join("w1")
    for name in ("w2", "w3"):
        await stage.join(name, slurmd=False, wait=False)
    # Soon after each other, or they are no wave; and w1 last, or it would be drained before they are one.
    await asyncio.gather(*(stage.ready(name, is_so=False) for name in ("w2", "w3")))
    began = time.monotonic()
    await stage.ready("w1", is_so=False)

    def told(report: Report | None) -> bool:
        return report is not None and "became not ready at the same time" in report.delayed

    await stage.eventually(stage.report, told)
    await stage.eventually(lambda: stage.events("DrainsDelayed"), bool)
    await stage.drained("w1", "k8s: pod not ready")
    assert time.monotonic() - began >= WAVE_DELAY - 1
    for name in ("w1", "w2", "w3"):
        await stage.ready(name)
    await stage.free("w1")
    await stage.eventually(stage.report, lambda report: not told(report))


async def test_who_has_to_go_or_saves_power_is_told_apart_from_who_lost_its_pod(stage: Stage) -> None:
    await stage.join("l1")
    await stage.mark("l1", {names.PENDING_DELETION: "update"})
    await stage.drained("l1", "k8s: pending deletion")
    await stage.mark("l1", {names.PENDING_DELETION: None})
    await stage.free("l1")
    await stage.park("l1")
    await stage.delete_pod("l1")
    await stage.slurm_when("l1", lambda seen: seen.ours.get("pod") == "")
    # It hears of Pods and of slices by different watches, and may have known of the one before the other.
    await stage.free("l1")


# Other people's drains


async def test_ours_is_put_back_when_somebody_lifts_it_too_early(stage: Stage) -> None:
    await stage.join("e1")
    await cordon(stage, "e1", "disk")
    await stage.drained("e1", "k8s: cordon: disk")
    for word in ("undrain", "resume"):
        before = stage.syncer.log().count("drain: k8s: cordon: disk: e1")
        await stage.scontrol("update", "nodename=e1", f"state={word}")
        await stage.eventually(
            lambda: asyncio.to_thread(stage.syncer.log),
            lambda log, before=before: log.count("drain: k8s: cordon: disk: e1") > before,  # type: ignore[misc]
        )
        await stage.drained("e1", "k8s: cordon: disk")


async def test_a_persons_drain_over_ours_stays_and_ours_follows_a_persons(stage: Stage) -> None:
    await stage.join("h1")
    await cordon(stage, "h1", "disk")
    await stage.drained("h1", "k8s: cordon: disk")
    await drain(stage, "h1", ALICE)
    await cordon(stage, "h1", None)
    await looked(stage, "h1")
    assert (await stage.seen("h1")).reason == ALICE
    await cordon(stage, "h1", "disk")
    await looked(stage, "h1")
    await stage.drained("h1", ALICE)
    await undrain(stage, "h1")
    await stage.drained("h1", "k8s: cordon: disk")
    await cordon(stage, "h1", None)
    await stage.free("h1")


async def test_who_is_no_member_keeps_whatever_he_has(stage: Stage) -> None:
    await stage.join("s1", pod=False, slurmd=False, wait=False)
    await asyncio.to_thread(stage.slurm.add, "stranger")
    await drain(stage, "stranger", "k8s: cordon: by hand")
    await stage.make_pod("stranger")
    await stage.condition("stranger", names.SLURM_DRAIN, "True")
    await stage.mark("stranger", {names.FEATURES: "slow"})
    await stage.join("s2")
    await looked(stage, "s2")
    found = await stage.seen("stranger")
    assert (found.drained, found.reason, found.features, found.ours) == (True, "k8s: cordon: by hand", (), {})


# Nodes that are down


async def silence(stage: Stage, node: str) -> None:
    """Stop its slurmd, for one that registers brings a node back that was set down (ReturnToService=2)."""
    await asyncio.to_thread(stage.slurm.stop, node)


async def test_who_was_set_down_by_a_person_is_neither_drained_nor_brought_back(stage: Stage) -> None:
    await stage.join("d1")
    await silence(stage, "d1")
    await stage.scontrol("update", "nodename=d1", "state=down", "reason=alice: smoke")
    await cordon(stage, "d1", "disk")
    await looked(stage, "d1")
    await cordon(stage, "d1", None)
    await stage.mark("d1", {names.PENDING_DELETION: "update"})
    await looked(stage, "d1")
    found = await stage.seen("d1")
    assert ("DOWN" in found.states, found.drained, found.reason) == (True, False, "alice: smoke")
    await stage.scontrol("update", "nodename=d1", "state=down", "reason=Not responding")
    await stage.drained("d1", "k8s: pending deletion")
    assert "DOWN" in (await stage.seen("d1")).states


async def test_a_drain_whose_cause_ends_while_the_node_is_down_is_lifted_when_it_is_up(stage: Stage) -> None:
    await stage.join("d2")
    await cordon(stage, "d2", "disk")
    await stage.drained("d2", "k8s: cordon: disk")
    await silence(stage, "d2")
    await stage.scontrol("update", "nodename=d2", "state=down", "reason=k8s: cordon: disk")
    await cordon(stage, "d2", None)
    await looked(stage, "d2")
    found = await stage.seen("d2")
    assert {"DOWN", "DRAIN"} <= found.states
    await asyncio.to_thread(stage.slurm.machines.start, "d2")  # a slurmd that registers brings its node back
    await stage.free("d2")
    assert "DOWN" not in (await stage.seen("d2")).states


async def started(stage: Stage, node: str) -> str:
    """When its slurmd did, by what it last told slurmctld."""
    shown = (await stage.scontrol("show", "node", node)).split()
    return next(word for word in shown if word.startswith("SlurmdStartTime="))


@pytest.mark.full
@pytest.mark.parametrize("returns", [0, 1])
async def test_where_slurm_brings_nobody_back_by_itself_neither_do_we(stage: Stage, returns: int) -> None:
    name = f"b{returns}"
    await stage.join(name)
    configure = partial(stage.slurm.configure, lines=SLURM["lines"])
    await asyncio.to_thread(configure, config={"ReturnToService": returns})
    try:
        await stage.scontrol("update", f"nodename={name}", "state=down", "reason=k8s: pod terminated")
        await stage.delete_pod(name)
        await stage.make_pod(name)
        await asyncio.to_thread(stage.slurm.stop, name)
        before = await started(stage, name)
        await asyncio.sleep(1.1)  # it is told in seconds
        await asyncio.to_thread(stage.slurm.machines.start, name)
        await stage.eventually(lambda: started(stage, name), lambda word: word != before)
        await looked(stage, name)
        found = await stage.seen(name)
        assert ("DOWN" in found.states, found.drained) == (True, False)
        await stage.scontrol("update", f"nodename={name}", "state=resume")
        await stage.slurm_when(name, lambda seen: "IDLE" in seen.states and not seen.drained)
    finally:
        await asyncio.to_thread(configure)


# Verification


async def test_a_verification_lifts_only_what_it_came_after_and_ours_takes_its_place(stage: Stage) -> None:
    await stage.join("v1")
    await drain(stage, "v1", "NHC: disk (sunk:verify-undrain)")
    past, future = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))
    for status, moment in (("True", past), ("False", future)):
        await stage.say("v1", names.HPC_VERIFICATION, status, lastProbeTime=moment.isoformat())
        await looked(stage, "v1")
        assert (await stage.seen("v1")).drained
    await cordon(stage, "v1", "disk")
    await looked(stage, "v1")
    await stage.drained("v1", "NHC: disk (sunk:verify-undrain)")
    await stage.say("v1", names.HPC_VERIFICATION, "True", lastProbeTime=future.isoformat())
    await stage.drained("v1", "k8s: cordon: disk")
    await cordon(stage, "v1", None)
    await stage.free("v1")
    await drain(stage, "v1", "NHC: disk")
    await looked(stage, "v1")
    assert (await stage.seen("v1")).drained, "without the word nothing is lifted"
    await drain(stage, "v1", "verify-undrain")
    await stage.free("v1")


# Extra, features, and what was kept


async def test_extra_shows_kubernetes_beside_what_users_wrote_and_replaces_what_is_no_json(stage: Stage) -> None:
    await stage.join("x1")
    await stage.say("x1", names.HPC_VERIFICATION, "False")
    wanted = {
        "node": stage.node_of["x1"],
        "pod": "x1",
        "nodeset": "stage",
        "conditions": {"Ready": "True", names.HPC_VERIFICATION: "False"},
    }
    await stage.slurm_when("x1", lambda seen: seen.ours == wanted)
    await stage.scontrol("update", "nodename=x1", 'extra={"rack": 7, "k8s": "mine"}')
    found = await stage.slurm_when("x1", lambda seen: "mine" not in seen.extra and seen.ours == wanted)
    assert json.decode(found.extra)["rack"] == 7
    await stage.scontrol("update", "nodename=x1", "extra=rack 7 {")
    found = await stage.slurm_when("x1", lambda seen: seen.ours == wanted)
    assert json.decode(found.extra) == {"k8s": wanted}


async def test_features_are_written_through_and_partitions_follow(stage: Stage) -> None:
    await stage.join("f1", annotations={names.FEATURES: "fast,h100"})
    await stage.slurm_when("f1", lambda seen: set(seen.features) == {"fast", "h100"})
    partition = "Nodes=f1"
    await stage.eventually(lambda: stage.scontrol("show", "partition", "fast"), lambda text: partition in text)
    await stage.mark("f1", {names.FEATURES: ""})
    await stage.slurm_when("f1", lambda seen: seen.features == ())


async def test_a_drain_that_was_kept_is_put_on_a_fresh_record_once(stage: Stage) -> None:
    await stage.join("k1", annotations={names.KEPT_DRAIN: ALICE})
    await stage.drained("k1", ALICE)
    await stage.slurm_when("k1", lambda seen: bool(seen.ours))
    await undrain(stage, "k1")
    await stage.free("k1")
    await cordon(stage, "k1", "disk")
    await stage.drained("k1", "k8s: cordon: disk")
    await cordon(stage, "k1", None)
    await stage.free("k1")


# Orders of people


async def ask(stage: Stage, node: str, order: Order) -> Answer:
    await stage.mark(node, {names.ORDER: json.encode(order).decode()})
    pod = await stage.pod_when(
        node, lambda found: f'"{order.id}"' in found.metadata.annotations.get(names.ORDER_DONE, "")
    )
    return json.decode(pod.metadata.annotations[names.ORDER_DONE], type=Answer)


async def test_people_drain_and_undrain_and_hear_what_became_of_it(stage: Stage) -> None:
    await stage.join("o1")
    answer = await ask(stage, "o1", Order(id="1", act="drain", reason=ALICE))
    assert answer.done
    assert (await stage.seen("o1")).reason == ALICE
    assert not (await ask(stage, "o1", Order(id="2", act="drain", reason="k8s: cordon"))).done
    await cordon(stage, "o1", "disk")
    answer = await ask(stage, "o1", Order(id="3", act="undrain"))
    assert answer.done
    assert "k8s: cordon: disk" in answer.words
    await stage.drained("o1", "k8s: cordon: disk")
    answer = await ask(stage, "o1", Order(id="4", act="undrain"))
    assert not answer.done
    assert "k8s: cordon: disk" in answer.words
    await cordon(stage, "o1", None)
    await stage.free("o1")
    await undrain(stage, "o1")
    await looked(stage, "o1")
    assert not (await stage.seen("o1")).drained, "an order is done once"
