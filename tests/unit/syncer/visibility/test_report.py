"""What the parts of the syncer say, laid together."""

from sunk.model import faults
from sunk.model.contract.report import Report
from sunk.syncer.visibility.report import MOST_STUCK, collect, lasting_faults, merged


def test_each_part_says_what_it_knows() -> None:
    found = merged([Report(config="a", version="24.11.5"), Report(held="x"), Report(delayed="y"), Report()])
    assert found == Report(config="a", version="24.11.5", held="x", delayed="y")


def test_what_two_say_of_one_matter_stands_side_by_side_and_once() -> None:
    assert merged([Report(held="x"), Report(held="y"), Report(held="x")]).held == "x; y"


def test_of_what_is_stuck_some_is_told_in_an_order_that_stays() -> None:
    many = tuple(f"node {number:02}" for number in range(30))
    first = merged([Report(stuck=many[:20]), Report(stuck=many[10:])])
    assert first.stuck == many[:MOST_STUCK]
    assert first == merged([Report(stuck=many[10:]), Report(stuck=many[:20])])


def test_a_part_that_cannot_report_keeps_no_other_from_being_heard() -> None:
    def fails() -> Report:
        raise RecursionError("too deep")

    found = merged([collect(fails), collect(lambda: Report(held="x"))])
    assert found.held == "x"
    assert "RecursionError: too deep" in found.stuck[0]


def test_what_nobody_foresaw_is_told_until_it_succeeds() -> None:
    def attempt(*, well: bool) -> None:
        with faults.survived("orphans"):
            if not well:
                raise KeyError("no such thing")

    attempt(well=False)
    assert lasting_faults().stuck == (
        "orphans fails (KeyError: 'no such thing') and is retried: check the syncer's log",
    )
    attempt(well=False)
    assert faults.counts["orphans"] == 2
    attempt(well=True)
    assert lasting_faults().stuck == ()
