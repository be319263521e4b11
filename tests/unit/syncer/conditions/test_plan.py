"""What a Pod shall say about its node."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.syncer.builders import BEGAN, drained, later, pod, row

from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.conditions.plan import NodeFacts, PodConditions, WantedCondition, pod_conditions, status_patch
from sunk.syncer.pods import ComputePod, ComputePodCondition, condition

DRAIN, RUNNING, SILENT = names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_NOT_RESPONDING
ONE, TWO = JobRun(1), JobRun(2)


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
    annotations = found.metadata.annotations | body["metadata"].get("annotations", {})
    return replace(
        found,
        metadata=replace(found.metadata, labels=labels, annotations=annotations),
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
    ("node", "runs", "status", "reason", "message"),
    [
        (row(), (), "False", "Idle", "IDLE"),
        (row(base=NodeBase.ALLOCATED), (), "True", "Busy", "BUSY"),
        (row("n1", NodeFlag.DRAIN, base=NodeBase.MIXED), (), "True", "Busy", "BUSY+DRAIN"),
        (row("n1", NodeFlag.COMPLETING), (), "True", "Completing", "IDLE+COMPLETING"),
        (row(), (ONE,), "True", "Busy", "IDLE"),
        (row(base=NodeBase.DOWN), (), "False", "Idle", "DOWN"),
    ],
)
def test_it_runs_while_a_job_or_an_epilog_is_on_it(
    node: Node, runs: tuple[JobRun, ...], status: str, reason: str, message: str
) -> None:
    found = of(node, runs=frozenset(runs))
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
    assert not of(drained(reason="k8s: cordon"), runs=frozenset({ONE})).evictable, (
        "a suspended job leaves its node idle"
    )
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
    NodeFacts,
    node=st.none() | nodes,
    known=st.booleans(),
    runs=st.frozensets(st.builds(JobRun, st.integers(1, 3), st.integers(0, 1)), max_size=3),
    strict=st.booleans(),
    ahead=st.booleans(),
    calm=st.booleans(),
    doubted=st.booleans(),
    stuck=st.sampled_from(("", "hangs")),
).map(lambda one: replace(one, strict=one.strict and bool(one.runs), ahead=one.ahead and bool(one.runs)))


def asked(found: ComputePod) -> LockRequest:
    request = lock.read(found.metadata.annotations.get(names.LOCK_REQUEST))
    assert request is not None
    return request


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
        assert wanted.labels.items() >= {key: found.metadata.labels.get(key) for key in wanted.labels}.items()


@given(st.lists(facts, min_size=1, max_size=6))
def test_a_pod_asks_for_what_holds_its_node_and_never_says_idle_meanwhile(history: list[NodeFacts]) -> None:
    found = pod()
    for one in history:
        if not (one.known or one.runs):
            continue  # the controller writes nothing then
        before = asked(found)
        found = after(found, status_patch(found, pod_conditions(found, one), now=later(1000)))
        now, running = asked(found), condition(found, RUNNING)
        assert one.runs <= frozenset(now.runs)
        assert running is not None
        assert running.status == "True" or not now.runs
        assert now.number >= before.number
        assert (now.number > before.number) == (
            not one.runs <= frozenset(before.runs) or (bool(one.runs) and one.strict and not before.strict)
        )
        if not one.certain:
            assert frozenset(before.runs) <= frozenset(now.runs)
            assert now.strict >= before.strict
        if one.certain and (now.strict or not one.runs) and running.status != "True":
            assert frozenset(now.runs) == one.runs


def requested(text: str | None = None, **facts: Any) -> LockRequest | None:
    """What a Pod with this request is made to ask for, if that is worth a write; its conditions are as they should be."""
    node = facts.pop("node", row(base=NodeBase.ALLOCATED))
    annotations: dict[str, Any] = ({} if text is None else {"lock_request": text}) | facts.pop("copied", {})
    found = pod(**annotations)
    settled = NodeFacts(node=node, **facts)
    bare = replace(pod_conditions(found, settled), request=None)
    found = after(found, status_patch(found, bare, now=later(0)))
    body = status_patch(found, pod_conditions(found, settled), now=later(0))
    return None if body is None else lock.read(body["metadata"]["annotations"][names.LOCK_REQUEST])


def test_a_new_run_is_asked_for_at_once_with_the_next_number() -> None:
    assert requested(runs=frozenset({ONE})) == LockRequest(1, runs=(ONE,))
    assert requested('{"number":1,"jobs":["1/0"]}', runs=frozenset({ONE, TWO})) == LockRequest(2, runs=(ONE, TWO))
    again = frozenset({JobRun(1, 1)})
    assert requested('{"number":1,"jobs":["1/0"]}', runs=again) == LockRequest(2, runs=(JobRun(1, 1),))


def test_a_run_that_has_ended_is_no_write_while_others_hold_the_node() -> None:
    assert requested('{"number":2,"jobs":["1/0","2/0"]}', runs=frozenset({TWO})) is None
    found = pod(lock_request='{"number":2,"jobs":["1/0","2/0"]}')
    body = status_patch(found, of(row(base=NodeBase.ALLOCATED), on=found, runs=frozenset({TWO})))
    assert body is not None, "its conditions have to be written"
    assert lock.read(body["metadata"]["annotations"][names.LOCK_REQUEST]) == LockRequest(2, runs=(TWO,))


def test_of_a_strict_request_a_run_that_has_ended_is_taken_off_at_once() -> None:
    text = '{"number":2,"strict":true,"jobs":["1/0","2/0"]}'
    assert requested(text, runs=frozenset({TWO})) == LockRequest(2, strict=True, runs=(TWO,))


def test_with_no_run_left_it_is_emptied_together_with_the_condition() -> None:
    text = '{"number":2,"strict":true,"jobs":["1/0"]}'
    assert requested(text, node=row()) == LockRequest(2)
    found = pod(lock_request='{"number":2,"jobs":["1/0"]}')
    found = after(found, status_patch(found, of(row(base=NodeBase.ALLOCATED), on=found, runs=frozenset({ONE}))))
    assert status_patch(found, of(row(base=NodeBase.ALLOCATED), on=found)) is None, "the row is busy still"
    body = status_patch(found, of(row(), on=found))
    assert body is not None
    assert lock.read(body["metadata"]["annotations"][names.LOCK_REQUEST]) == LockRequest(2)
    assert [one["status"] for one in body["status"]["conditions"]] == ["False"]
    assert "resourceVersion" in body["metadata"]


def test_what_a_prolog_tells_is_a_node_in_use_and_the_read_that_follows_is_no_other_write() -> None:
    found = after(pod(), status_patch(pod(), of(row())))
    ahead = of(row("n1", NodeFlag.COMPLETING), on=found, runs=frozenset({ONE}), ahead=True)
    assert said(ahead, RUNNING) == WantedCondition(RUNNING, "True", "Busy", "BUSY")
    found = after(found, status_patch(found, ahead))
    assert status_patch(found, of(row(base=NodeBase.MIXED), on=found, runs=frozenset({ONE}))) is None


def test_while_slurm_is_unknown_what_a_prolog_tells_is_added_and_nothing_else_is_said() -> None:
    found = pod(lock_request='{"number":4,"jobs":["1/0"]}')
    body = status_patch(found, pod_conditions(found, NodeFacts(None, known=False, runs=frozenset({TWO}))))
    assert body is not None
    assert [one["type"] for one in body["status"]["conditions"]] == [RUNNING]
    assert body["metadata"]["labels"] == {names.RUNNING: "true"}
    assert asked(after(found, body)) == LockRequest(5, runs=(ONE, TWO))


@pytest.mark.parametrize("copied", [{}, {"lock": "odd"}, {"lock": "locked", "lock_number": "9", "lock_owner": "other"}])
def test_a_request_that_cannot_be_read_is_written_anew(copied: dict[str, str]) -> None:
    assert requested("{", runs=frozenset({ONE}), copied=copied) == LockRequest(1, runs=(ONE,))
    assert requested("{", node=row(), copied=copied) == LockRequest(0)
    assert requested("{", node=row(), copied=copied, doubted=True) is None, "whom it names nobody knows"


@pytest.mark.parametrize("text", ["{", None, '{"number":3,"jobs":["1/0"]}', '{"number":1000000000000001}'])
def test_a_request_that_is_lost_gets_a_number_above_the_last_answer(text: str | None) -> None:
    copied = {"lock": "locked", "lock_number": "7", "lock_owner": "uid-of-n1"}
    assert requested(text, runs=frozenset({ONE}), copied=copied) == LockRequest(8, runs=(ONE,))


def test_a_request_names_no_more_runs_than_can_be_read() -> None:
    many = frozenset(JobRun(number) for number in range(lock.MOST_JOBS + 10))
    found = requested(runs=many)
    assert found is not None
    assert len(found.runs) == lock.MOST_JOBS
    assert requested(lock.write(found), runs=many) is None


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
