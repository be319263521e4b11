"""What may get into a line of Slurm's configuration."""

import pytest
from hypothesis import given, strategies as st

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.slurmconf.lines import keys, overridden, owned, pairs, word


@pytest.mark.parametrize(
    "value", ["a b", "a\nInclude x", "a\tb", "x#", "x\\", 'a"b', "it's", "a\x00b", "a\x0bb", "a\u2028b"]
)
def test_a_value_that_would_not_stay_one_is_refused_with_its_path(value: str) -> None:
    with pytest.raises(Refusal, match=r"^here\.it: "):
        word(value, at="here.it")


@given(st.text())
def test_what_is_let_through_is_one_value_on_one_line(text: str) -> None:
    try:
        word(text, at="here")
    except Refusal:
        return
    assert len(text.split()) <= 1
    assert len(text.splitlines()) <= 1
    assert not set(text) & set("#\\\"'")


@pytest.mark.parametrize("key", ["A=B", "A B", "", "A\nB", "Include x", "1a"])
def test_a_key_that_is_no_setting_is_refused(key: str) -> None:
    with pytest.raises(Refusal, match="here"):
        list(pairs({key: "x"}, at="here"))


def test_lines_are_read_as_slurm_reads_them() -> None:
    text = "# a comment\nA=1 # more\n\n  B=2,\\\n3\r\nC=x\\#y\n"
    assert owned(text, at="here") == ["A=1", "B=2,3", "C=x\\#y"]


@pytest.mark.parametrize(
    "text",
    [
        "Include /etc/shadow",
        "  include\t/etc/shadow",
        "A=1\nINCLUDE x",
        "Incl\\\nude /etc/shadow",
        "A=1\r\ninclude x",
        "# harmless\\\nInclude x",
    ],
)
def test_no_file_is_read_in_however_it_is_written(text: str) -> None:
    with pytest.raises(Refusal, match=r"here: .*would read a file"):
        owned(text, at="here")


def test_a_backslash_at_the_end_would_swallow_what_follows() -> None:
    with pytest.raises(Refusal, match="backslash"):
        owned("A=1\\", at="here")


@pytest.mark.parametrize("text", ["A=1\x00", "A=1\x0bInclude x", "A\rInclude x"])
def test_control_characters_are_refused(text: str) -> None:
    with pytest.raises(Refusal, match="control character"):
        owned(text, at="here")


def test_what_is_not_for_a_text_is_found_wherever_it_stands() -> None:
    for text in ("slurmuser=root", "X=1 SlurmUser = root", "SLURMUSER=root"):
        with pytest.raises(Refusal, match=r"(?i)here: SlurmUser cannot be set here: leave it"):
            owned(text, at="here", forbidden={"slurmuser": "leave it"})


def test_keys_inside_quotes_are_none() -> None:
    assert keys('Reason="SlurmUser=x" Weight=3') == ["Reason", "Weight"]
    assert overridden(["SchedulerParameters=bf_max=3", "Foo=1"]) == {"schedulerparameters", "foo"}
