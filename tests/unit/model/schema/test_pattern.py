import pytest
from msgspec import ValidationError, convert

from sunk.model.schema.pattern import END, differs, portable
from sunk.model.schema.vocabulary import DnsLabel, Duration, Quantity


@pytest.mark.parametrize(
    ("pattern", "culprit"),
    [
        ("^[a-z]+$", '"$"'),
        (rf"^\d+{END}", r'"\d"'),
        (rf"^[\w-]+{END}", r'"[\w-]"'),
        (rf"^(?!a)b{END}", '"(?!"'),
        (rf"^(a)\1{END}", r'"\1"'),
        (rf"^a++{END}", '"++"'),
    ],
)
def test_what_others_read_differently_is_named(pattern: str, culprit: str) -> None:
    assert culprit in differs(pattern)


@pytest.mark.parametrize("pattern", [rf"^[$]?(?:a|b)+\.\${END}", r"a{2,3}", r"[]$]+", ""])
def test_what_all_read_alike_passes(pattern: str) -> None:
    assert differs(pattern) == ""


def test_the_end_is_written_as_others_write_it() -> None:
    assert portable(rf"^[a-z\Z]+\\Z{END}") == r"^[a-z\Z]+\\Z$"


@pytest.mark.parametrize("value", ["90s", "1h30m", "1.5h", "250ms"])
def test_durations_are_read_as_go_writes_them(value: str) -> None:
    assert convert(value, type=Duration) == value


@pytest.mark.parametrize("value", [8, "500m", "1.5Gi", "1e3", "64"])
def test_quantities_are_read_as_kubernetes_writes_them(value: int | str) -> None:
    assert convert(value, type=Quantity) == value


@pytest.mark.parametrize(
    ("value", "kind"), [("30s\n", Duration), ("s", Duration), ("-1", Quantity), ("1 Gi", Quantity), ("a-", DnsLabel)]
)
def test_a_value_with_something_around_it_is_refused(value: str, kind: type) -> None:
    with pytest.raises(ValidationError):
        convert(value, type=kind)
