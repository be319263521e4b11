"""What a Pod shall say about its node."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.syncer.builders import BEGAN, drained, later, pod, row

from sunk.model import names
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.conditions.plan import NodeFacts, PodConditions, WantedCondition, pod_conditions, status_patch
from sunk.syncer.pods import ComputePod, ComputePodCondition

DRAIN, RUNNING, SILENT = names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_NOT_RESPONDING


def said(found: PodConditions, kind: str) -> WantedCondition:
    return next(one for one in found.conditions if one.type == kind)


def of(node: Node | None, *, on: ComputePod | None = None, **facts: Any) -> PodConditions:
    return pod_conditions(on or pod(), NodeFacts(node=node, **facts))


def after(found: ComputePod, body: dict[str, Any] | None) -> ComputePod:
    """The Pod when the API server has taken the patch."""
    if body is None:
        return found
    held = {one.type: one for one in found.status.conditions}
    for one in body.get("status", {}).get("conditions", ()):
        before = held.get(one["type"], ComputePodCondition(one["type"], "", last_transition_time=BEGAN))
        held[one["type"]] = replace(
            before,
            status=one["status"],
            reason=one["reason"],
            message=one["message"],
            last_transition_time=one["lastTransitionTime"],
        )
    labels = found.metadata.labels | body["metadata"].get("labels", {})
    labels = {key: value for key, value in labels.items() if value is not None}
    return replace(
        found,
        metadata=replace(found.metadata, labels=labels),
        status=replace(found.status, conditions=tuple(held.values())),
    )


def test_a_person_s_drain_is_from_slurm_and_says_why() -> None:
    found = of(drained(reason="alice: bad fan"))
    assert said(found, DRAIN) == WantedCondition(DRAIN, "True", "FromSlurm", "alice: bad fan")
    assert found.labels[names.DRAIN] == "true"


def test_a_drain_of_ours_is_from_kubernetes() -> None:
    assert said(of(drained(reason="k8s: cordon: disk")), DRAIN).reason == "FromKubernetes"


def test_an_old_reason_without_the_flag_is_not_told() -> None:
    assert said(of(row(reason="alice: bad fan")), DRAIN) == WantedCondition(DRAIN, "False", "NotDrained", "")


@pytest.mark.parametrize(
    ("node", "held", "status", "reason", "message"),
    [
        (row(), False, "False", "Idle", "IDLE"),
        (row(base=NodeBase.ALLOCATED), False, "True", "Busy", "BUSY"),
        (row("n1", NodeFlag.DRAIN, base=NodeBase.MIXED), False, "True", "Busy", "BUSY+DRAIN"),
        (row("n1", NodeFlag.COMPLETING), False, "True", "Completing", "IDLE+COMPLETING"),
        (row(), True, "True", "Busy", "IDLE"),
        (row(base=NodeBase.DOWN), False, "False", "Idle", "DOWN"),
    ],
)
def test_it_runs_while_a_job_or_an_epilog_is_on_it(
    node: Node,
    held: bool,  # noqa: FBT001 - of a table
    status: str,
    reason: str,
    message: str,
) -> None:
    found = of(node, held=held)
    assert said(found, RUNNING) == WantedCondition(RUNNING, status, reason, message)
    assert found.labels[names.RUNNING] == status.lower()


def test_what_comes_and_goes_by_itself_changes_no_message() -> None:
    assert of(row()) == of(row("n1", NodeFlag.PLANNED, NodeFlag.DYNAMIC_NORM))
    assert of(row(base=NodeBase.MIXED)) == of(row(base=NodeBase.ALLOCATED))


def test_what_is_stuck_is_told_instead_of_the_state() -> None:
    assert said(of(row("n1", NodeFlag.COMPLETING), stuck="an epilog hangs"), RUNNING).message == "an epilog hangs"


def test_right_after_an_undrain_silence_is_not_told() -> None:
    silent = row("n1", NodeFlag.NOT_RESPONDING)
    assert said(of(silent), SILENT).status == "True"
    assert said(of(silent, calm=True), SILENT).status == "False"


def test_without_a_record_nothing_is_known_and_no_label_says_otherwise() -> None:
    found = of(None)
    assert {(one.status, one.reason) for one in found.conditions} == {("Unknown", "NotRegistered")}
    assert set(found.labels.values()) == {None}


def test_evictable_is_what_is_drained_and_has_no_job() -> None:
    assert of(drained(reason="k8s: cordon")).evictable
    assert not of(row()).evictable
    assert not of(drained(reason="k8s: cordon"), held=True).evictable, "a suspended job leaves its node idle"
    assert not of(row("n1", NodeFlag.DRAIN, NodeFlag.COMPLETING)).evictable
    assert not of(row("n1", NodeFlag.DRAIN, base=NodeBase.ALLOCATED)).evictable
    assert not of(drained(reason="k8s: cordon"), doubted=True).evictable


def test_who_waits_for_a_drain_that_cannot_come_may_evict() -> None:
    waiting, dead = pod(cordon="disk"), pod(cordon="disk", ready=False)
    down = row(base=NodeBase.DOWN)
    assert of(down, on=waiting).evictable
    assert not of(down).evictable, "nobody waits"
    assert of(None, on=dead).evictable
    assert not of(None, on=waiting).evictable, "its slurmd may register at any moment"
    assert not of(row("n1", NodeFlag.COMPLETING, base=NodeBase.DOWN), on=waiting).evictable


def test_a_slurm_that_is_hard_to_believe_does_not_make_a_busy_node_idle() -> None:
    busy = after(pod(), status_patch(pod(), of(row(base=NodeBase.ALLOCATED))))
    assert said(of(row(), on=busy, doubted=True), RUNNING).status == "True"
    assert said(of(row(), on=busy), RUNNING).status == "False"


nodes = st.builds(
    lambda base, flags, reason: row("n1", *flags, base=base, reason=reason),
    st.sampled_from(NodeBase),
    st.sets(st.sampled_from(NodeFlag)),
    st.sampled_from(("", "k8s: cordon", "bad fan")),
)
facts = st.builds(
    NodeFacts, node=st.none() | nodes, held=st.booleans(), calm=st.booleans(), stuck=st.sampled_from(("", "hangs"))
)


@given(st.lists(facts, min_size=1, max_size=4))
def test_one_patch_brings_a_pod_to_what_it_shall_say_and_then_there_is_none(history: list[NodeFacts]) -> None:
    found = pod()
    for one in history:
        before = {each.type: each for each in found.status.conditions}
        found = after(found, status_patch(found, pod_conditions(found, one), now=later(1000)))
        wanted = pod_conditions(found, one)
        assert status_patch(found, wanted) is None
        for each in found.status.conditions:
            if each.type in before and before[each.type].status == each.status:
                assert each.last_transition_time == before[each.type].last_transition_time
        assert found.metadata.labels == {key: value for key, value in wanted.labels.items() if value}


def test_a_patch_carries_the_uid_and_the_version_only_where_it_allows_an_eviction() -> None:
    body = status_patch(pod(uid="u1"), of(row()))
    assert body is not None
    assert {key: body["metadata"].get(key) for key in ("uid", "resourceVersion")} == {
        "uid": "u1",
        "resourceVersion": None,
    }
    body = status_patch(pod(uid="u1"), of(drained(reason="k8s: cordon")))
    assert body is not None
    assert "resourceVersion" in body["metadata"]
