"""The JSON that users and we share in a node's extra."""

from typing import Any

import pytest
from hypothesis import given, strategies

from sunk.slurm.orders.extra import merge, read

KEYS = strategies.text(max_size=4)
VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(-(2**53), 2**53) | strategies.text(max_size=5),
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = strategies.dictionaries(KEYS, VALUES, max_size=4)


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "3", "null", '"x"', '{"a":', "[" * 100_000])
def test_what_is_no_object_is_cleared_and_replaced(text: str) -> None:
    assert merge(text, {"sunk": 1}) == '{"sunk":1}'


def test_ours_win_and_theirs_stay() -> None:
    assert read(merge('{"sunk":0,"theirs":"ä"}', {"sunk": {"a": 1}})) == {"sunk": {"a": 1}, "theirs": "ä"}


def test_none_takes_a_key_of_ours_away_but_no_null_of_theirs() -> None:
    assert merge('{"sunk":1,"theirs":null}', {"sunk": None}) == '{"theirs":null}'


def test_a_text_that_would_not_change_comes_back_as_it_is() -> None:
    assert merge('{ "sunk": 1 }', {"sunk": 1}) == '{ "sunk": 1 }'
    assert merge("", {"sunk": None}) == ""


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    once = merge(merge("{}", theirs), ours)
    assert merge(once, ours) == once
    assert all(read(once).get(key) == value for key, value in ours.items())
