"""The contract of the lock: what is written is read again, and no answer is taken for another's."""

import pytest
from hypothesis import given, strategies as st

from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockAnswer, LockRequest

RUNS = st.builds(JobRun, st.integers(1, 2**32 - 1), st.integers(0, 65535))
REQUESTS = st.builds(
    LockRequest,
    number=st.integers(0, lock.MOST_NUMBER),
    strict=st.booleans(),
    runs=st.frozensets(RUNS, max_size=20).map(lambda runs: tuple(sorted(runs))),
)
STATES = st.sampled_from(lock.STATES)


@given(REQUESTS)
def test_a_request_is_read_as_it_was_written(request: LockRequest) -> None:
    assert lock.read(lock.write(request)) == request


def test_no_annotation_asks_for_nothing() -> None:
    assert lock.read(None) == LockRequest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "locked",
        "[]",
        '{"number":-1}',
        '{"number":1e99}',
        f'{{"number":{lock.MOST_NUMBER + 1}}}',
        '{"number":1,"jobs":["x/0"]}',
        '{"number":1,"jobs":["1"]}',
        '{"number":1,"jobs":["1/²"]}',
        '{"number":1,"jobs":["' + "9" * 40 + '/0"]}',
        "[" * 10_000,
        '{"number":1,"jobs":[' + ",".join(['"1/0"'] * (lock.MOST_JOBS + 1)) + "]}",
        '{"number":1,"x":"' + "a" * lock.LONGEST + '"}',
    ],
)
def test_what_cannot_be_read_is_unknown(text: str) -> None:
    assert lock.read(text) is None


@given(
    st.builds(LockAnswer, state=STATES, number=st.integers(0, lock.MOST_NUMBER - 1), owner=st.text("abc-0", min_size=1))
)
def test_an_answer_is_read_as_it_was_written(answer: LockAnswer) -> None:
    assert lock.answer(answer.annotations) == answer


def test_a_node_without_annotations_is_unlocked() -> None:
    assert lock.answer({}) == LockAnswer()


@pytest.mark.parametrize("annotations", [{names.LOCK: "yes"}, {names.LOCK: "locked", names.LOCK_NUMBER: "many"}])
def test_an_answer_that_cannot_be_read_is_unknown_and_satisfies_nobody(annotations: dict[str, str]) -> None:
    assert lock.answer(annotations) is None
    assert not lock.satisfies(None, LockRequest(), owner="")


def test_an_answer_to_an_earlier_request_is_no_answer() -> None:
    stale = LockAnswer(state="locked", number=1, owner="uid")
    assert not lock.satisfies(stale, LockRequest(number=2, runs=(JobRun(8),)), owner="uid")
    assert lock.satisfies(stale, LockRequest(number=1, runs=(JobRun(7),)), owner="uid")


def test_an_answer_to_another_pod_is_no_answer() -> None:
    assert not lock.satisfies(LockAnswer(state="locked", number=9, owner="other"), LockRequest(number=1), owner="uid")


@pytest.mark.parametrize(
    ("state", "strict", "good"),
    [
        ("false", False, False),
        ("pending", False, False),
        ("locked", False, True),
        ("locked", True, False),
        ("locked_strict", False, True),
        ("locked_strict", True, True),
    ],
)
def test_a_strict_lock_satisfies_both_and_a_normal_one_only_normal_requests(
    state: lock.State, *, strict: bool, good: bool
) -> None:
    assert lock.satisfies(LockAnswer(state, 1, "uid"), LockRequest(1, strict), owner="uid") is good


def test_a_new_run_takes_the_next_number() -> None:
    first = lock.next_request(LockRequest(), frozenset({JobRun(7)}), strict=False)
    second = lock.next_request(first, frozenset({JobRun(7), JobRun(8)}), strict=False)
    assert (first.number, second.number) == (1, 2)


def test_a_requeued_job_on_the_same_node_is_a_new_run() -> None:
    first = lock.next_request(LockRequest(), frozenset({JobRun(7, 0)}), strict=False)
    assert lock.next_request(first, frozenset({JobRun(7, 1)}), strict=False).number == first.number + 1


def test_a_run_that_ends_beside_another_changes_no_number() -> None:
    both = LockRequest(number=3, runs=(JobRun(7), JobRun(8)))
    assert lock.next_request(both, frozenset({JobRun(8)}), strict=False) == LockRequest(3, runs=(JobRun(8),))


def test_the_number_outlives_the_last_run() -> None:
    assert lock.next_request(LockRequest(3, strict=True, runs=(JobRun(7),)), frozenset(), strict=False) == LockRequest(
        3
    )


@given(REQUESTS, st.frozensets(RUNS, min_size=1, max_size=20), st.booleans())
def test_strictness_is_not_lowered_while_anything_runs_and_numbers_never_fall(
    before: LockRequest,
    runs: frozenset[JobRun],
    strict: bool,  # noqa: FBT001 - given by hypothesis
) -> None:
    after = lock.next_request(before, runs, strict=strict)
    assert after.strict >= before.strict
    assert after.number >= before.number
    asked_for_more = (strict and not before.strict) or not runs <= set(before.runs)
    assert (after.number > before.number) is asked_for_more
