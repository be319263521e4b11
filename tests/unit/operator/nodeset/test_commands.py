"""What `sunk nodeset` prints, and what it chooses."""

from datetime import UTC, datetime, timedelta

import pytest

from sunk.kube.resource import Key
from sunk.model.refusal import Refusal
from sunk.operator.nodeset.commands import lasting, table
from sunk.operator.nodeset.rollback import TemplateRevision, chosen

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEY = Key("slurm", "gpu")


def kept(number: int, *, current: bool = False, pods: int = 0, made: datetime | None = None) -> TemplateRevision:
    return TemplateRevision(number, f"hash{number}", made, pods=pods, current=current)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (86_400, "1d"), (10**7, "115d")],
)
def test_a_duration_is_told_in_its_greatest_unit(seconds: float, told: str) -> None:
    assert lasting(seconds) == told


def test_the_table_stands_in_columns_and_marks_the_present_one() -> None:
    found = table([kept(9, made=NOW - timedelta(hours=3)), kept(10, current=True, pods=120)], now=NOW)
    assert found == [
        "REVISION  HASH    AGE  PODS",
        "9         hash9   3h   0",
        "10        hash10  -    120   *",
    ]


def test_the_way_back_leads_to_the_newest_that_is_not_there_now() -> None:
    assert chosen([kept(1), kept(2), kept(3, current=True)], key=KEY, to=None).number == 2
    assert chosen([kept(1), kept(2, current=True), kept(3)], key=KEY, to=None).number == 3


def test_a_number_is_found_whether_it_is_there_now_or_not() -> None:
    assert chosen([kept(1), kept(2, current=True)], key=KEY, to=1).number == 1
    assert chosen([kept(1), kept(2, current=True)], key=KEY, to=2).current


def test_where_there_is_no_way_back_it_is_said_what_there_is() -> None:
    with pytest.raises(Refusal, match=r"no older template to roll back to \(stored: 1\)"):
        chosen([kept(1, current=True)], key=KEY, to=None)
    with pytest.raises(Refusal, match=r"no revision 7 \(stored: 1, 2\): choose one of these with --to"):
        chosen([kept(1), kept(2, current=True)], key=KEY, to=7)
