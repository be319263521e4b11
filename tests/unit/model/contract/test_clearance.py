"""A clearance is dated, and holds for a short while."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from sunk.model.contract import clearance

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


@given(st.text(), st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)))  # noqa: DTZ001 - bounds are naive
def test_what_is_written_is_read_whatever_the_reason(drain: str, at: datetime) -> None:
    found = clearance.read(clearance.write(drain, read=at))
    assert found is not None
    assert found.drain == drain
    assert abs(found.read - at) < timedelta(milliseconds=1)


@given(st.text())
def test_any_other_text_is_none_and_never_an_error(text: str) -> None:
    assert clearance.fault(text, now=NOW, since=LONG_AGO) or clearance.read(text)


@pytest.mark.parametrize("seconds", [0, 29.9, -4.9])
def test_it_holds_for_half_a_minute_and_clocks_may_differ_a_little(seconds: float) -> None:
    text = clearance.write("5:bad fan", read=NOW - timedelta(seconds=seconds))
    assert clearance.fault(text, now=NOW, since=LONG_AGO) == ""


@pytest.mark.parametrize(
    ("seconds", "why"), [(31, "31 s old"), (86_400, "86400 s old"), (-6, "6 s ahead of the API server's clock")]
)
def test_one_that_is_older_or_from_the_future_does_not(seconds: float, why: str) -> None:
    text = clearance.write("5:bad fan", read=NOW - timedelta(seconds=seconds))
    assert why in clearance.fault(text, now=NOW, since=LONG_AGO)


def test_one_that_was_given_to_another_leader_does_not_either() -> None:
    text = clearance.write("5:bad fan", read=NOW - timedelta(seconds=2))
    assert "it predates this replica's leadership" in clearance.fault(text, now=NOW, since=NOW - timedelta(seconds=1))
