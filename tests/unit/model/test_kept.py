"""Drains that are kept on a Node."""

import pytest
from hypothesis import given, strategies as st

from sunk.model.contract import kept

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


@given(st.text(max_size=200))
def test_whatever_is_written_there_is_a_short_line(text: str) -> None:
    for reason in (kept.line(text), kept.line(text * 50)):
        assert len(reason.encode()) <= kept.LONGEST
        assert reason.isprintable() or not reason
        assert kept.line(reason) == reason


def test_thousands_of_lines_are_not_all_read() -> None:
    assert len(kept.read("\n".join(f"team/c{number}:x" for number in range(10_000)))) == kept.MOST_CLUSTERS


@pytest.mark.parametrize("text", ["team:x", "a b/c:x", "team/slurm/x:y", "Team/slurm:x", f"{'t' * 300}/slurm:x"])
def test_what_names_no_cluster_is_not_read(text: str) -> None:
    assert kept.read(text) == {}


def test_a_record_comes_back_as_it_was_written() -> None:
    record = kept.Record("bad fan", uid="1")
    assert kept.read_record(kept.write_record(record)) == record


def test_a_person_may_write_a_reason_alone() -> None:
    assert kept.read_record("bad fan") == kept.Record("bad fan")


@pytest.mark.parametrize("text", ["", " \n", "{", '{"reason": 5}', '{"uid": "1"}', '{"reason":' + '{"a":' * 20_000])
def test_a_record_that_cannot_be_read_says_nothing(text: str) -> None:
    assert kept.read_record(text) is None
