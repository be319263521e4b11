"""Our hostlists against Slurm's own, on random names and texts."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from sunk.local.slurm import Slurm
from sunk.model.hostlist import compress, expand

pytestmark = pytest.mark.timeout(900)

# One start of scontrol for each text, but one command in the cluster for many of them.
ASK = """
while IFS= read -r line; do
    for what; do
        scontrol -- show "$what" "$line" 2> /tmp/complaint || exit 1
        cat /tmp/complaint
        echo %%
    done
done
"""
# A batch that fails names the text; to look for a smaller batch would take minutes.
BATCHES = settings(
    max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)

numbers = st.one_of(
    st.integers(0, 12).map(str),
    st.integers(0, 12).map("{:02d}".format),
    st.integers(95, 103).map(str),
    st.integers(95, 103).map("{:03d}".format),
    st.sampled_from(["", "0", "00", "007", "1999999999", "00000000000000000000000001"]),
)
prefixes = st.sampled_from(
    ["a", "b", "ab", "A", "r1n", "r9n", "r10n", "r09n", "r010n", "x-", "x.", "x_", "", "h100-2-"]
)
suffixes = st.sampled_from(["", "", "", "", "x", ".local", "-", "1z"])
names = st.builds("{}{}{}".format, prefixes, numbers, suffixes).filter(bool)
runs = st.builds(
    lambda prefix, first, count, width: [f"{prefix}{each:0{width}d}" for each in range(first, first + count)],
    prefixes,
    st.sampled_from([0, 1, 5, 8, 98, 99]),
    st.integers(1, 6),
    st.integers(1, 4),
)
lists = st.lists(st.one_of(names.map(lambda name: [name]), runs), min_size=1, max_size=8).map(
    lambda many: [name for some in many for name in some]
)

spans = st.builds(
    lambda low, more, width: f"{low:0{width}d}-{low + more}",
    st.integers(0, 12) | st.integers(95, 101),
    st.integers(0, 8),
    st.integers(1, 4),
)
groups = st.lists(spans | st.integers(0, 120).map(str) | st.just("007"), min_size=1, max_size=3).map(
    lambda parts: f"[{','.join(parts)}]"
)
words = st.lists(groups | st.sampled_from(["a", "n1-", "r", ".x", "0", "9"]), min_size=1, max_size=6).map("".join)
texts = st.lists(words, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([",", ", ", ",,", " ", "\t"]).map(lambda gap: gap.join(parts))
)


def ask(slurm: Slurm, lines: Sequence[str], *what: str) -> list[str]:
    """What Slurm says to each line, once for each kind of question."""
    text = slurm.run("sh", "-c", ASK, "sh", *what, stdin="".join(f"{line}\n" for line in lines), timeout=240)
    return [answer.strip("\n") for answer in text.split("%%\n")[:-1]]


@BATCHES
@given(many=st.lists(lists, min_size=30, max_size=40))
def test_names_are_written_as_slurm_writes_them(slurm: Slurm, many: list[list[str]]) -> None:
    answers = ask(slurm, [",".join(each) for each in many], "hostlist", "hostlistsorted")
    for each, plain, ordered in zip(many, answers[::2], answers[1::2], strict=True):
        assert (compress(each), compress(each, sort=True)) == (plain, ordered), each


@BATCHES
@given(many=st.lists(texts, min_size=40, max_size=60))
def test_texts_are_read_as_slurm_reads_them(slurm: Slurm, many: list[str]) -> None:
    for each, answer in zip(many, ask(slurm, many, "hostnames"), strict=True):
        assert list(expand(each)) == answer.split("\n"), each


@BATCHES
@given(many=st.lists(lists, min_size=40, max_size=60))
def test_slurm_reads_what_we_write(slurm: Slurm, many: list[list[str]]) -> None:
    for each, answer in zip(many, ask(slurm, [compress(each) for each in many], "hostnames"), strict=True):
        assert each == answer.split("\n")


@pytest.mark.parametrize(
    "text",
    ["a[2-1]", "a[1", "a[]", "a[1,]", "a[-1]", "a[x]", "a[1-x]", "a[0-65536]", "a[1-2]n[", "a[1-3-5]", "a[ 1]b["],
)
def test_what_slurm_refuses_we_refuse(slurm: Slurm, text: str) -> None:
    assert "Invalid hostlist" in ask(slurm, [text], "hostnames")[0]
    with pytest.raises(ValueError, match="at character"):
        expand(text)


def test_the_largest_ranges_are_the_same(slurm: Slurm) -> None:
    text = "a[0-65535],b[00001-65536]"
    names = expand(text)
    assert "\n".join(names) == ask(slurm, [text], "hostnames")[0]
    assert compress(names) == text


def test_a_longer_range_than_slurm_reads_is_written_as_two(slurm: Slurm) -> None:
    text = compress(f"a{number}" for number in range(70_000))
    assert text == "a[0-65535,65536-69999]"
    assert ask(slurm, [text], "hostnames")[0].count("\n") == 69_999
    assert ask(slurm, [text], "hostlist") == ["a[0-69999]"]
    assert "Invalid" in ask(slurm, ["a[0-69999]"], "hostnames")[0]
