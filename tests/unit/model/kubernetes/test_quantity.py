"""Quantities are read as Kubernetes reads them."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sunk.model.kubernetes.quantity import ONE, NoQuantity, amount, rendered

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18} | {
    f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)
}


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("8", 8 * ONE),
        ("+8", 8 * ONE),
        ("-8", -8 * ONE),
        ("007", 7 * ONE),
        (" 8\n", 8 * ONE),
        ("500m", ONE // 2),
        ("0.5", ONE // 2),
        (".5", ONE // 2),
        ("5.", 5 * ONE),
        ("1.G", 10**9 * ONE),
        ("1n", 1),
        ("1u", 1_000),
        ("1.5Gi", 3 * 2**29 * ONE),
        ("1Ki", 1024 * ONE),
        ("1k", 1000 * ONE),
        ("12e6", 12 * 10**6 * ONE),
        ("12E6", 12 * 10**6 * ONE),
        ("12e+6", 12 * 10**6 * ONE),
        ("12e-3", 12 * ONE // 1000),
        ("1E", 10**18 * ONE),
        ("1Ei", 2**60 * ONE),
    ],
)
def test_a_text_is_so_many_nano_units(text: str, nanos: int) -> None:
    assert amount(text) == nanos


def test_less_than_a_nano_unit_is_one() -> None:
    assert amount("0.1n") == amount("1e-99") == amount("0.0000000001") == 1


def test_rounding_goes_away_from_zero() -> None:
    assert amount("-1.5n") == -2
    assert amount("1.5n") == 2


def test_nothing_stays_nothing_however_fine() -> None:
    assert amount("0n") == amount("0e-99") == amount("0.00000000000") == 0


def test_binary_amounts_are_cut_at_63_bits() -> None:
    assert amount("8Ei") == amount("100Ei") == (2**63 - 1) * ONE
    assert amount("-8Ei") == -(2**63 - 1) * ONE
    assert amount("100E") == 100 * 10**18 * ONE


def test_numbers_are_taken_as_people_write_them_in_yaml() -> None:
    assert amount(4) == 4 * ONE
    assert amount(0.5) == ONE // 2
    assert amount(1e22) == 10**22 * ONE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one",
        "1 0",
        "- 1",
        "1 Gi",
        "m",
        "+",
        ".",
        "1K",
        "1g",
        "1mi",
        "1e",
        "1e+",
        "1e1k",
        "1.2.3",
        "--1",
        "1e1.5",
        "٣",
    ],
)
def test_nonsense_is_refused_with_the_text_that_was_found(text: str) -> None:
    with pytest.raises(NoQuantity, match="is not a quantity") as refused:
        amount(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["1e101", "1e999999999999999999", "9" * 200, "1" + "0" * 5000])
def test_absurd_sizes_are_refused_before_they_cost_memory(text: str) -> None:
    with pytest.raises(NoQuantity):
        amount(text)


@given(
    number=st.decimals(min_value=0, max_value=10**6, places=12),
    suffix=st.sampled_from(sorted(UNITS)),
    sign=st.sampled_from(["", "+", "-"]),
)
def test_an_amount_is_its_number_times_its_unit_rounded_up(number: Decimal, suffix: str, sign: str) -> None:
    wanted = math.ceil(Fraction(number) * UNITS[suffix] * ONE)
    if suffix.endswith("i"):
        wanted = min(wanted, (2**63 - 1) * ONE)
    assert amount(f"{sign}{number:f}{suffix}") == (-wanted if sign == "-" else wanted)


@given(st.integers(min_value=-(2**100), max_value=2**100) | st.integers(0, 2**34).map(lambda n: n * 2**30 * ONE))
def test_what_is_rendered_reads_as_the_same_amount(nanos: int) -> None:
    assert amount(rendered(nanos)) == nanos


@pytest.mark.parametrize(("text", "short"), [("65536Mi", "64Gi"), ("7.5", "7500m"), ("110", "110"), ("1500n", "1500n")])
def test_amounts_are_rendered_short(text: str, short: str) -> None:
    assert rendered(amount(text)) == short
