"""When Pods that Slurm does not know are restarted, and when they are left alone."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.syncer.builders import member, pod, row
from tests.unit.syncer.scripted import staged
from tests.unit.syncer.stores import put, remove

from sunk.kube.api.limits import Bucket
from sunk.kube.cache.store import Store
from sunk.model import names
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.pods import ComputePod, ComputePodCondition
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.unregistered import (
    RegistrationCounter,
    RestartBackOff,
    UnregisteredPods,
    is_unregistered,
    lost,
    registrations_settled,
    restart_reason,
    unregistered_since,
    why_held,
)

NAMES = ["n1", "n2", "n3"]


@pytest.mark.looptime
async def test_where_most_were_unknown_the_others_get_the_time_to_register_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def restart(one: ComputePod) -> None:
        asked.append(one.metadata.name)

    async with staged(NAMES) as stage:
        told = ComputePodCondition(
            names.SLURM_RUNNING, "Unknown", last_transition_time=datetime.now(UTC) - timedelta(seconds=900)
        )
        for name in NAMES:
            stage.slurm.drop(name)
            stage.put(pod(name, told))
        await asyncio.sleep(30)
        guard = Guard(stage.context, JobsByNode(stage.context.mirror.jobs))
        unregistered = UnregisteredPods(stage.context, stage.members, guard, restarts=Bucket(1.0, burst=9))
        monkeypatch.setattr(unregistered, "_restart", restart)
        await unregistered.resync()
        assert "3 of 3 ready Pods are not registered in Slurm" in unregistered.report().held
        stage.context.mirror.accept()
        stage.slurm.put(row("n1"))
        stage.slurm.put(row("n2"))
        await asyncio.sleep(5)
        await unregistered.resync()
        assert (unregistered.report().held, asked) == ("", []), "n3 may be about to register"
        await asyncio.sleep(stage.context.settings.restart_unknown_after)
        await unregistered.resync()
        assert asked == ["n3"]


BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


# As rules


def test_a_slurm_that_knows_hardly_anybody_is_not_believed() -> None:
    pods = [pod(f"n{number}") for number in range(4)]
    assert lost(pods, {"n0", "n1"}) == ""
    assert "3 of 4 ready Pods are" in lost(pods, {"n0"})
    assert lost([pod("n1")], set()), "nobody can tell one lost record from a lost state"
    assert lost([pod("n1", ready=False)], set()) == ""


def test_a_pod_whose_address_is_another_s_is_unregistered_only_if_slurm_gets_no_answer() -> None:
    found = pod("n1")
    here = replace(found, status=replace(found.status, pod_ip="10.0.0.9"))
    assert is_unregistered(here, None)
    assert not is_unregistered(here, row("n1", address="10.0.0.5"))
    assert is_unregistered(here, row("n1", NodeFlag.NOT_RESPONDING, address="10.0.0.5"))
    assert is_unregistered(here, row("n1", base=NodeBase.DOWN, reason="Not responding", address="10.0.0.5"))
    assert not is_unregistered(here, row("n1", NodeFlag.NOT_RESPONDING, address="10.0.0.9"))
    assert not is_unregistered(here, row("n1", base=NodeBase.DOWN, reason="bad fan", address="10.0.0.5"))


def test_each_new_start_of_the_same_waits_longer_until_it_was_well() -> None:
    back_off = RestartBackOff(60.0)
    assert back_off.due({"n1": 59.0}) == []
    assert back_off.due({"n1": 60.0}) == ["n1"]
    back_off.restarted("n1")
    assert back_off.due({"n1": 119.0}) == []
    assert back_off.due({"n1": 120.0}) == ["n1"]
    back_off.forget("n1")
    assert back_off.due({"n1": 60.0}) == ["n1"]


def test_one_that_cannot_be_restarted_keeps_no_other_from_it() -> None:
    back_off, tried = RestartBackOff(60.0), []
    for _ in range(6):
        name = back_off.due({"n1": 90.0, "n2": 80.0, "n3": 70.0})[0]
        back_off.try_next(name)
        tried.append(name)
    assert tried == ["n1", "n2", "n3"] * 2


def test_since_when_it_is_unregistered_stands_on_the_pod() -> None:
    """So one that leads again has skipped nothing, and one that leads for the first time begins nothing over."""
    found = pod("n1")
    assert unregistered_since(found, None) is None, "nobody has written it yet"
    told = ComputePodCondition("SlurmRunning", "Unknown", last_transition_time=BEGAN + timedelta(seconds=90))
    calls = ComputePodCondition("SlurmNotResponding", "True", last_transition_time=BEGAN + timedelta(seconds=70))
    ready = ComputePodCondition("Ready", "True", last_transition_time=BEGAN + timedelta(seconds=80))
    said = replace(found, status=replace(found.status, conditions=(ready, told, calls)))
    assert unregistered_since(said, None) == BEGAN + timedelta(seconds=90)
    assert unregistered_since(said, row("n1", NodeFlag.NOT_RESPONDING)) == BEGAN + timedelta(seconds=80)


@given(
    st.lists(
        st.tuples(st.sampled_from(("pod", "row")), st.sampled_from("abcd"), st.sampled_from(("ready", "not", "gone")))
    )
)
async def test_what_is_counted_by_events_is_what_a_walk_would_find(history: list[tuple[str, str, str]]) -> None:
    pods, rows = Store[ComputePod]("pods"), Rows[str, Node]("nodes", key=lambda one: one.name)
    registered = RegistrationCounter(pods, rows)
    held: dict[str, Node] = {}
    for side, name, what in history:
        if side == "row":
            held = {key: one for key, one in held.items() if key != name} | (
                {name: row(name)} if what == "ready" else {}
            )
            difference = rows.compare(tuple(held.values()))
            rows.replace(difference)
            rows.tell(difference)
        elif what == "gone":
            if (there := pods.get(pod(name).key)) is not None:
                remove(pods, there)
        else:
            put(pods, pod(name, ready=what == "ready"))
        assert registered.lost() == lost(pods.all(), rows)


def test_a_pod_is_restarted_for_a_reason_and_only_if_it_is_to_stay() -> None:
    assert restart_reason(pod("n1"), None, member=member()) == "Slurm has no node of this name"
    assert restart_reason(pod("n1"), row("n1"), member=member()) == ""
    assert restart_reason(pod("n1", ready=False), None, member=member()) == ""
    assert restart_reason(pod("n1"), None, member=member(state="leaving")) == ""
    assert restart_reason(pod("n1"), None, member=None) == ""
    assert restart_reason(pod("n1", pending_deletion="scale-in"), None, member=member()) == ""


def test_a_pod_that_slurm_calls_elsewhere_is_restarted_with_that_reason() -> None:
    here = replace(pod("n1"), status=replace(pod("n1").status, pod_ip="10.0.0.9"))
    called = row("n1", NodeFlag.NOT_RESPONDING, address="10.0.0.5")
    assert restart_reason(here, called, member=member()) == "slurmctld cannot reach it at 10.0.0.5"


def test_if_most_are_unregistered_none_is_restarted_and_that_is_said() -> None:
    pods = [pod(f"n{number}") for number in range(4)]
    assert why_held(["n0", "n1"], of=pods, known={"n2", "n3"}) == ""
    assert "3 of 4 ready Pods are not registered in Slurm, for example n0. " in why_held(
        ["n0", "n1", "n2"], of=pods, known={"n3"}
    )
    everybody = {f"n{number}" for number in range(4)}
    assert why_held(["n0", "n1", "n2"], of=pods, known=everybody) == (
        "slurmctld cannot reach 3 of 4 ready Pods: check the network"
    )


def test_slurmds_get_the_time_to_register_by_themselves() -> None:
    assert registrations_settled(known_for=15, held_before=60, wait=60)
    assert not registrations_settled(known_for=14, held_before=60, wait=60)
    assert not registrations_settled(known_for=15, held_before=59, wait=60)
    assert registrations_settled(known_for=3, held_before=3, wait=3), "unless less is set"
