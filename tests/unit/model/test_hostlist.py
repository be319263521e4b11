"""Hostlists are read and written as Slurm does it; an integration test asks Slurm itself."""

import time

import pytest
from hypothesis import given, strategies as st

from sunk.model.hostlist import MAX_NAMES, MAX_RANGE, compress, expand, shown


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ""),
        (" ,,\n", ""),
        ("a", "a"),
        ("a,b c\td\ne,", "a b c d e"),
        ("a[1-3]", "a1 a2 a3"),
        ("a[1,3-4]", "a1 a3 a4"),
        ("a[2,1,1]", "a2 a1 a1"),
        ("a[09-11]", "a09 a10 a11"),
        ("a[9-11]", "a9 a10 a11"),
        ("a[01-3]", "a01 a02 a03"),
        ("a[1-03]", "a1 a2 a3"),
        ("a[1-2]b", "a1b a2b"),
        ("[1-3]", "1 2 3"),
        ("x[1-2].local,y", "x1.local x2.local y"),
        ("r[1-2]n[01-03]", "r1n01 r1n02 r1n03 r2n01 r2n02 r2n03"),
        ("a[1-2][3-4]", "a13 a14 a23 a24"),
        ("a[01-02]5", "a015 a025"),
    ],
)
def test_a_text_stands_for_names(text: str, names: str) -> None:
    assert expand(text) == tuple(names.split())


def test_of_three_groups_the_last_runs_fastest_and_then_the_first() -> None:
    names = "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2"
    assert expand("a[1-2]b[1-2]c[1-2]") == tuple(names.split())


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("", ""),
        ("a", "a"),
        ("a a", "a,a"),
        ("a1", "a1"),
        ("a1 a2 a3", "a[1-3]"),
        ("a3 a1 a2", "a[3,1-2]"),
        ("a1 a1", "a[1,1]"),
        ("a1 b1 a2", "a1,b1,a2"),
        ("a a1 a2", "a,a[1-2]"),
        ("1 2", "[1-2]"),
        ("a1b a2b", "a1b,a2b"),
        ("r1n1 r1n2 r2n1", "r1n[1-2],r2n1"),
        ("a09 a10", "a[09-10]"),
        ("a99 a100", "a[99-100]"),
        ("a099 a100", "a[099-100]"),
        ("a1 a02 a3", "a[1,02,3]"),
        ("a0099 a100", "a[0099,100]"),
        ("a0 a00", "a[0,00]"),
    ],
)
def test_names_are_written_in_their_order(names: str, text: str) -> None:
    assert compress(names.split()) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("a3 a1 a2", "a[1-3]"),
        ("a1 b1 a2", "a[1-2],b1"),
        ("b a A", "A,a,b"),
        ("a10 a9", "a[9-10]"),
        ("a01 a02 a3", "a[3,01-02]"),
        ("a2b a1 a", "a,a1,a2b"),
        ("r10n1 r9n1 r1n1", "r1n1,r9n1,r10n1"),
        ("a010b1 a9b1 a08b1", "a010b1,a08b1,a9b1"),
        ("a1 a2 a3 a2 a3 a4", "a[1-2,2-3,3-4]"),
        ("a5 a1 a2 a3 a4 a5", "a[1-5,5]"),
    ],
)
def test_names_are_sorted_as_slurm_sorts_them(names: str, text: str) -> None:
    assert compress(names.split(), sort=True) == text


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("a[1-2", r"'\['", 2),
        ("b,a]", "']'", 4),
        ("a[[1]]", r"'\['", 2),
        ("a{1-3}", "'{'", 2),
        ("a[]", "''", 3),
        ("a[1,,2]", "''", 5),
        ("a[1-]", "'1-'", 3),
        ("a[1,x]", "'x'", 5),
        ("a[1, 2]", "' 2'", 5),
        ("n[1-2]m[4-3]", "backwards, '4-3'", 9),
        ("a[0-65536]", "more than 65536", 3),
    ],
)
def test_a_malformed_text_is_refused_with_the_place(text: str, what: str, where: int) -> None:
    with pytest.raises(ValueError, match=rf"{what}.*, at character {where}$"):
        expand(text)


def test_a_text_for_millions_of_names_is_refused_before_they_are_made() -> None:
    assert len(expand(f"a[1-{MAX_RANGE}]")) == MAX_RANGE
    began = time.process_time()
    with pytest.raises(ValueError, match=f"more than {MAX_NAMES} names"):
        expand("a[1-9999]b[1-9999]c[1-9999]d[1-9999]")
    assert time.process_time() - began < 5, "making them would take minutes"


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1]", "a{1}", "a\n"])
def test_what_is_no_name_is_not_written(name: str) -> None:
    with pytest.raises(ValueError, match="is not a node name"):
        compress(["a", name])


def test_a_number_that_slurm_would_change_is_refused() -> None:
    with pytest.raises(ValueError, match="beyond 64 bits"):
        compress(["a99999999999999999999"])
    with pytest.raises(ValueError, match="beyond 64 bits"):
        expand("a[1-2]9999999999999999999")
    assert expand("a99999999999999999999b") == ("a99999999999999999999b",)


def test_a_range_is_never_longer_than_slurm_reads() -> None:
    assert compress(f"a{number}" for number in range(70_000)) == "a[0-65535,65536-69999]"


words = st.text(alphabet="ab01-.", max_size=3)
names = st.builds(lambda word, number: f"{word}{number}", words, st.integers(0, 200) | words).filter(bool)


@given(many=st.lists(names, max_size=30))
def test_what_is_written_reads_back_as_it_was(many: list[str]) -> None:
    assert expand(compress(many)) == tuple(many)
    assert sorted(expand(compress(many, sort=True))) == sorted(many)


def test_five_thousand_names_take_no_time_to_speak_of() -> None:
    many = [f"gpu-{number:04d}" for number in range(5000)]
    scattered = many[::2] + many[1::2]
    began = time.process_time()
    assert compress(many) == "gpu-[0000-4999]"
    assert expand("gpu-[0000-4999]") == tuple(many)
    assert compress(scattered, sort=True) == "gpu-[0000-4999]"
    assert expand(compress(scattered)) == tuple(scattered)
    assert time.process_time() - began < 5, "it takes 30 ms; comparing each with each would take minutes"


def test_numbers_of_any_length_are_refused_as_what_they_are() -> None:
    for digits in ("9" * 20, "9" * 5000, "0" * 5000):
        with pytest.raises(ValueError, match="beyond 64 bits"):
            compress([f"x{digits}"])
        with pytest.raises(ValueError, match="beyond 64 bits"):
            expand(f"x{digits}")
    with pytest.raises(ValueError, match="beyond 64 bits"):
        expand(f"x[1-{'9' * 5000}]")


def test_what_is_only_shown_is_never_an_error() -> None:
    assert shown(["n1", "n2"]) == "n[1-2]"
    assert shown(["n1", "x99999999999999999999"]) == "n1,x99999999999999999999"
    assert shown([]) == ""
