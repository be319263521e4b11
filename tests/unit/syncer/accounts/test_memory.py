"""What is noted of those who have had an account."""

import pytest
from hypothesis import given, strategies as st

from sunk.model.contract.people import noted_accounts as pairs
from sunk.syncer.accounts.memory import LARGEST, changed

some = st.frozensets(st.tuples(st.sampled_from(["alice", "bob", "carol"]), st.sampled_from(["lab", "a.b-c_1"])))


@given(some, some)
def test_what_is_merged_makes_it_say_the_new(
    before: frozenset[tuple[str, str]], after: frozenset[tuple[str, str]]
) -> None:
    data = {key: text for key, text in changed({}, before).items() if text is not None}
    assert pairs(data) == before
    patch = changed(data, after)
    merged = {key: text for key, text in (data | patch).items() if text is not None}
    assert pairs(merged) == after
    assert changed(merged, after) == {}


def test_it_is_readable_and_only_what_changes_is_written() -> None:
    before = {"lab": "alice bob", "old": "alice"}
    after = [("alice", "lab"), ("bob", "lab"), ("carol", "guests")]
    assert changed(before, after) == {"guests": "carol", "old": None}


def test_more_than_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="more than can be noted"):
        changed({}, [(f"u{number:0>30}", "lab") for number in range(LARGEST // 30)])
