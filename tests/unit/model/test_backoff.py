"""Waits double with each failure in a row, up to the bound."""

from hypothesis import given, strategies as st

from sunk.model.backoff import BackOff

BACK_OFF = BackOff(first=0.5, longest=60.0)


def test_waits_double_up_to_the_longest() -> None:
    assert [BACK_OFF.delay(failures) for failures in range(1, 10)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


@given(st.integers(min_value=1, max_value=10**9))
def test_no_number_of_failures_is_too_many(failures: int) -> None:
    assert 0.5 <= BACK_OFF.delay(failures) <= 60
    assert BACK_OFF.delay(failures) / 2 <= BACK_OFF.jittered(failures) <= BACK_OFF.delay(failures)
