"""When slurmctld is told to read its files again."""

import math

import pytest
from hypothesis import given, strategies as st

from sunk.model.contract import confighash
from sunk.syncer.config.controller import BACK_OFF, DISTANCE, LONGEST, NONE, QUIET, UNANSWERED, ReconfigureNeed

moments = st.floats(min_value=0, max_value=1e6)


def test_without_a_wish_it_is_never_told() -> None:
    assert math.inf == NONE.due
    assert not NONE.holds


def test_a_wish_waits_for_quiet() -> None:
    assert ReconfigureNeed().requested(now=100).due == 100 + QUIET
    assert ReconfigureNeed().requested(now=100).requested(now=101).due == 101 + QUIET


@given(st.lists(moments, min_size=1, max_size=20))
def test_however_many_wishes_come_the_first_waits_no_longer_than_said(wishes: list[float]) -> None:
    need = NONE
    for now in sorted(wishes):
        need = need.requested(now=now)
    assert need.due <= min(wishes) + LONGEST
    assert need.due <= max(wishes) + QUIET


def test_what_did_not_help_is_tried_less_and_less_often() -> None:
    need, now = ReconfigureNeed().requested(now=0), 0.0
    pauses = []
    for _ in range(12):
        now = max(now, need.due)
        need = need.after_a_try(now=now)
        pauses.append(need.due - now)
    assert pauses == sorted(pauses)
    assert pauses[0] == BACK_OFF.first
    assert pauses[-1] == BACK_OFF.longest


def test_a_new_wish_is_not_held_up_by_older_failures() -> None:
    need = ReconfigureNeed().requested(now=0)
    for _ in range(8):
        need = need.after_a_try(now=need.due)
    assert need.requested(now=1000).due <= 1000 + QUIET


def test_one_that_was_not_answered_is_not_sent_again_soon_whatever_is_wished() -> None:
    need = ReconfigureNeed().requested(now=0).after_a_try(now=10).answered(yes=False)
    assert need.due == 10 + UNANSWERED
    assert need.requested(now=12).due == 10 + UNANSWERED
    assert need.answered(yes=True).requested(now=12).due <= 12 + QUIET


@pytest.mark.parametrize(("distance", "most"), [(0.0, 50), (DISTANCE, 6)])
def test_fifty_changes_of_features_cost_few_reconfigures(distance: float, most: int) -> None:
    """One every three seconds: more than the quiet that is waited for, which was all there was."""
    need, told, sent, now = NONE, -math.inf, 0, 0.0
    while now < 200:
        if now % 3 == 0 and now < 150:
            need = need.requested(now=now)
        if need.holds and now >= max(need.due, told + distance):
            need, told, sent = NONE, now, sent + 1
        now += 0.5
    assert sent == most


def test_the_mark_is_read_from_the_last_line_that_counts() -> None:
    text = "SlurmctldParameters=a\nNodeName=x\nSlurmctldParameters=enable_configless,sunk_config=77,b\n"
    assert confighash.read(text) == "77"
    assert confighash.read("SlurmctldParameters=sunk_config=1\nSlurmctldParameters=b\n") == ""
    assert confighash.read("") == ""
