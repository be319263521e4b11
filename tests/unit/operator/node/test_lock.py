"""What the lock of a Node shall be, by what its compute Pod says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockAnswer, LockRequest
from sunk.operator.node.lock import (
    Linger,
    LockAction,
    Look,
    Release,
    Take,
    has_lost_its_taint,
    is_marked,
    is_wanted,
    operations,
    plan,
)

NOW = datetime(2026, 11, 18, 10, tzinfo=UTC)
IDLE_FOR = timedelta(seconds=4)
SEVEN = LockRequest(1, runs=(JobRun(7),))
OURS = {"key": names.LOCK, "value": "true", "effect": "NoExecute"}
THEIRS = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def pod(request: LockRequest | str | None = None, *, running: str = "", uid: str = "pod", reason: str = "") -> Pod:
    text = lock.write(request) if isinstance(request, LockRequest) else request
    said = {"type": names.SLURM_RUNNING, "status": running, "reason": reason, "lastTransitionTime": NOW - IDLE_FOR}
    body = {
        "metadata": {"name": "gpu-1", "uid": uid, "annotations": {} if text is None else {names.LOCK_REQUEST: text}},
        "status": {"conditions": [said] if running else []},
    }
    return msgspec.convert(body, Pod)


def idle_since(when: datetime) -> Pod:
    one = pod(LockRequest(1), running="False")
    (said,) = one.status.conditions
    return replace(one, status=replace(one.status, conditions=(replace(said, last_transition_time=when),)))


def node(answer: LockAnswer | None = None, *taints: dict[str, str], **meta: Any) -> Node:
    annotations = {} if answer is None else answer.annotations
    found = {"name": "node-1", "uid": "node", "resourceVersion": "5", "annotations": annotations} | meta
    return msgspec.convert({"metadata": found, "spec": {"taints": taints}}, Node)


def decide(of: Node, by: Pod | None, *, slurm_only: bool = False, linger: float = 10) -> LockAction | None:
    return plan(of, by, slurm_only=slurm_only, linger=timedelta(seconds=linger), now=NOW)


def answer(state: lock.State, number: int = 1, owner: str = "pod") -> LockAnswer:
    return LockAnswer(state, number, owner)


def test_a_request_puts_the_taint_on_first() -> None:
    assert decide(node(), pod(SEVEN)) == Take(answer("pending"))


def test_a_node_that_runs_something_is_locked_without_any_request() -> None:
    assert decide(node(), pod(running="True")) == Take(answer("pending", 0))


def test_pods_are_listed_once_the_taint_is_there() -> None:
    assert decide(node(answer("pending"), OURS), pod(SEVEN)) == Look(SEVEN, answer("locked"))


def test_a_strict_request_ends_in_a_strict_lock() -> None:
    strict = LockRequest(1, strict=True, runs=(JobRun(7),))
    assert decide(node(answer("pending"), OURS), pod(strict)) == Look(strict, answer("locked_strict"))
    assert decide(node(answer("locked"), OURS), pod(strict)) == Take(answer("pending"))


def test_a_locked_node_is_left_alone_while_its_job_runs() -> None:
    assert decide(node(answer("locked"), OURS), pod(SEVEN, running="True")) is None
    assert decide(node(answer("locked_strict"), OURS), pod(SEVEN, running="True")) is None


def test_another_job_on_a_locked_node_needs_another_look_and_no_taint() -> None:
    both = LockRequest(2, runs=(JobRun(7), JobRun(8)))
    assert decide(node(answer("locked"), OURS), pod(both, running="True")) == Look(both, answer("locked", 2))


def test_a_taint_that_is_gone_comes_back_and_pods_are_listed_again() -> None:
    assert decide(node(answer("locked")), pod(SEVEN, running="True")) == Take(answer("pending"))


def test_the_lock_of_another_pod_is_no_lock() -> None:
    """L1, L17: also with a higher number."""
    assert decide(node(answer("locked", 9, "other"), OURS), pod(SEVEN)) == Take(answer("pending"))


def test_an_idle_node_lingers_and_is_unlocked_then() -> None:
    locked, idle = node(answer("locked"), OURS), pod(LockRequest(1), running="False")
    assert decide(locked, idle) == Linger(6)
    assert decide(locked, idle, linger=3) == Release(answer("false"))
    assert decide(locked, idle, linger=0) == Release(answer("false"))


def test_a_clock_that_is_ahead_prolongs_the_linger_by_nothing() -> None:
    """By a little it is waited for, by more it is not believed: nobody waits for an hour that will never be."""
    locked = node(answer("locked"), OURS)
    assert decide(locked, idle_since(NOW + timedelta(seconds=3))) == Linger(10)
    assert decide(locked, idle_since(NOW + timedelta(hours=1))) == Release(answer("false"))


def test_a_lock_that_is_no_longer_wanted_before_it_was_there_ends_at_once() -> None:
    assert decide(node(answer("pending"), OURS), pod(LockRequest(1), running="False")) == Release(answer("false"))


def test_a_date_near_the_end_of_all_dates_keeps_nothing_locked() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert decide(node(answer("locked"), OURS), idle_since(last)) == Release(answer("false"))


def test_an_unlocked_node_is_left_alone_and_a_taint_without_a_lock_taken_off() -> None:
    idle = pod(LockRequest(1), running="False")
    assert decide(node(), idle) is None
    assert decide(node(answer("false")), idle) is None
    assert decide(node(answer("false"), OURS), idle) == Release(answer("false"))


def test_a_node_that_is_only_slurms_stays_locked() -> None:
    idle = pod(LockRequest(1), running="False")
    assert decide(node(), idle, slurm_only=True) == Take(answer("pending"))
    assert decide(node(answer("locked"), OURS), idle, slurm_only=True) is None


@pytest.mark.parametrize("by", [None, pod(), pod(running="Unknown"), pod("{", running="False"), pod("[]")])
@pytest.mark.parametrize("of", [node(), node(answer("locked"), OURS), node(answer("pending", 3, "other"), OURS)])
def test_what_is_unknown_keeps_what_is(of: Node, by: Pod | None) -> None:
    assert decide(of, by) is None


def test_a_pod_that_never_registers_does_not_keep_a_lock() -> None:
    """Slurm has no such node, so it runs nothing there; and a Pod with a bad image stays like that."""
    nowhere = pod(LockRequest(3), running="Unknown", reason=names.NOT_REGISTERED)
    assert decide(node(answer("locked", 3), OURS), nowhere, linger=0) == Release(answer("false", 3))
    assert decide(node(answer("locked", 3, "before"), OURS), nowhere) == Release(answer("false", 3))
    asked = pod(SEVEN, running="Unknown", reason=names.NOT_REGISTERED)
    assert decide(node(answer("locked"), OURS), asked) is None, "what cannot be believed keeps its jobs"


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        (pod(), False),
        (pod(SEVEN), True),
        (pod(running="True"), True),
        (pod("{", running="True"), True),
        (pod("{", running="False"), False),
        (pod(LockRequest(3), running="Unknown"), False),
    ],
)
def test_a_lock_is_wanted_while_a_job_is_named_or_something_runs(by: Pod, *, wanted: bool) -> None:
    assert is_wanted(by) is wanted


def test_what_is_left_of_a_lock_is_seen() -> None:
    assert not is_marked(node())
    assert is_marked(node(answer("false")))
    assert is_marked(node(None, {"key": names.LOCK, "effect": "NoSchedule"}))
    assert is_marked(node(labels={names.LOCK: "false"}))
    assert not is_marked(node(None, THEIRS))


def test_a_taint_is_missing_only_where_there_should_be_one() -> None:
    assert has_lost_its_taint(node(answer("locked")))
    assert has_lost_its_taint(node(answer("pending"), THEIRS))
    assert not has_lost_its_taint(node(answer("pending"), OURS))
    assert not has_lost_its_taint(node(answer("false")))
    assert not has_lost_its_taint(node())


REQUESTS = st.builds(
    LockRequest,
    number=st.integers(0, 5),
    strict=st.booleans(),
    runs=st.sampled_from([(), (JobRun(7),), (JobRun(7), JobRun(8))]),
)
ANSWERS = st.builds(LockAnswer, st.sampled_from(lock.STATES), st.integers(0, 5), st.sampled_from(["pod", "other"]))


@given(REQUESTS, ANSWERS, st.booleans(), st.sampled_from(["", "True", "False", "Unknown"]))
def test_it_comes_to_rest_within_three_steps_in_what_is_asked_for(
    request: LockRequest,
    given_answer: LockAnswer,
    tainted: bool,  # noqa: FBT001 - given by hypothesis
    running: str,
) -> None:
    by = pod(request, running=running)
    of = node(given_answer, *((OURS,) if tainted else ()))
    for _ in range(3):
        action = decide(of, by, linger=0)
        if action is None:
            break
        assert isinstance(action, Take | Look | Release)
        of = node(action.answer, *((OURS,) if action.answer.state != "false" else ()))
    assert decide(of, by, linger=0) is None
    wanted = bool(request.runs) or running == "True"
    if wanted:
        assert lock.satisfies(lock.answer(of.metadata.annotations), request, owner="pod")
    elif running == "False":
        assert lock.answer(of.metadata.annotations) in {LockAnswer("false", request.number, "pod"), given_answer}


# Writing


def test_taints_of_others_are_not_touched() -> None:
    taken = operations(node(None, THEIRS), answer("pending"))
    assert {"op": "add", "path": "/spec/taints/-", "value": OURS} in taken
    given_back = operations(node(answer("locked"), THEIRS, OURS), answer("false"))
    assert [each for each in given_back if "taints" in each["path"]] == [{"op": "remove", "path": "/spec/taints/1"}]


def test_the_first_taint_and_the_first_annotation_bring_their_lists_along() -> None:
    made = operations(node(), answer("pending"))
    assert {"op": "add", "path": "/spec/taints", "value": [OURS]} in made
    assert {"op": "add", "path": "/metadata/annotations", "value": answer("pending").annotations} in made
    assert {"op": "add", "path": "/metadata/labels", "value": {names.LOCK: "pending"}} in made


def test_a_taint_of_ours_with_another_effect_is_put_right() -> None:
    wrong = {"key": names.LOCK, "value": "true", "effect": "NoSchedule"}
    ops = [each for each in operations(node(answer("locked"), wrong), answer("pending")) if "taints" in each["path"]]
    assert [each["op"] for each in ops] == ["remove", "add"]


def test_every_write_is_of_the_node_and_the_version_that_was_read() -> None:
    assert operations(node(), answer("pending"))[:2] == [
        {"op": "test", "path": "/metadata/uid", "value": "node"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "5"},
    ]


def test_a_node_that_leaves_keeps_nothing() -> None:
    left = operations(node(answer("locked"), OURS, labels={names.LOCK: "locked", "a": "b"}), None)
    removed = {each["path"] for each in left if each["op"] == "remove"}
    escaped = [key.replace("/", "~1") for key in lock.LOCK_ANNOTATIONS]
    assert removed == {
        "/spec/taints/0",
        *(f"/metadata/annotations/{key}" for key in escaped),
        f"/metadata/labels/{names.LOCK.replace('/', '~1')}",
    }
