"""Drains that are kept on a Node."""

import pytest
from hypothesis import given, strategies as st

from sunk.model.contract import keptdrains

clusters = st.from_regex(r"\A[a-z]{1,8}/[a-z]{0,8}\Z")


@given(st.dictionaries(clusters, st.text().map(keptdrains.line)))
def test_what_was_written_is_read(reasons: dict[str, str]) -> None:
    assert keptdrains.read(keptdrains.write(reasons) or "") == reasons


@pytest.mark.parametrize("text", ["", "no line", ":without a cluster", "\n"])
def test_what_is_no_line_is_not_read(text: str) -> None:
    assert keptdrains.read(text) == {}


def test_nothing_is_written_where_nothing_is_kept() -> None:
    assert keptdrains.write({}) is None


def test_a_reason_is_one_line_of_a_certain_length() -> None:
    assert keptdrains.line(" bad\n fan ") == "bad fan"
    assert len(keptdrains.line("x" * 5000)) == keptdrains.LONGEST


def test_a_persons_reason_never_becomes_one_of_ours() -> None:
    assert keptdrains.line(" k8s: not what it seems") == "(k8s: not what it seems)"
    assert keptdrains.line(keptdrains.line(" k8s: x")) == keptdrains.line(" k8s: x")


@given(st.text(max_size=200))
def test_whatever_is_written_there_is_a_short_line(text: str) -> None:
    for reason in (keptdrains.line(text), keptdrains.line(text * 50)):
        assert len(reason.encode()) <= keptdrains.LONGEST
        assert reason.isprintable() or not reason
        assert keptdrains.line(reason) == reason


def test_thousands_of_lines_are_not_all_read() -> None:
    assert len(keptdrains.read("\n".join(f"team/c{number}:x" for number in range(10_000)))) == keptdrains.MOST_CLUSTERS


@pytest.mark.parametrize("text", ["team:x", "a b/c:x", "team/slurm/x:y", "Team/slurm:x", f"{'t' * 300}/slurm:x"])
def test_what_names_no_cluster_is_not_read(text: str) -> None:
    assert keptdrains.read(text) == {}


def test_a_record_comes_back_as_it_was_written() -> None:
    record = keptdrains.KeptDrain("bad fan", uid="1")
    assert keptdrains.read_record(keptdrains.write_record(record)) == record


def test_a_person_may_write_a_reason_alone() -> None:
    assert keptdrains.read_record("bad fan") == keptdrains.KeptDrain("bad fan")


@pytest.mark.parametrize("text", ["", " \n", "{", '{"reason": 5}', '{"uid": "1"}', '{"reason":' + '{"a":' * 20_000])
def test_a_record_that_cannot_be_read_says_nothing(text: str) -> None:
    assert keptdrains.read_record(text) is None
