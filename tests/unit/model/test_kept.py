"""Drains that are kept on a Node."""

import pytest
from hypothesis import given, strategies as st

from sunk.model import kept

clusters = st.from_regex(r"\A[a-z]{1,8}/[a-z]{0,8}\Z")


@given(st.dictionaries(clusters, st.text().map(kept.line)))
def test_what_was_written_is_read(reasons: dict[str, str]) -> None:
    assert kept.read(kept.write(reasons) or "") == reasons


@pytest.mark.parametrize("text", ["", "no line", ":without a cluster", "\n"])
def test_what_is_no_line_is_not_read(text: str) -> None:
    assert kept.read(text) == {}


def test_nothing_is_written_where_nothing_is_kept() -> None:
    assert kept.write({}) is None


def test_a_reason_is_one_line_of_a_certain_length() -> None:
    assert kept.line(" bad\n fan ") == "bad fan"
    assert len(kept.line("x" * 5000)) == kept.LONGEST


def test_a_persons_reason_never_becomes_one_of_ours() -> None:
    assert kept.line(" k8s: not what it seems") == "(k8s: not what it seems)"
    assert kept.line(kept.line(" k8s: x")) == kept.line(" k8s: x")
