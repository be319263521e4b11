"""Which Pods of an older template may be replaced now."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.operator.nodeset.factories import NEW, OLD, bare, member, members

from sunk.model.nodeset import RollingUpdate, UpdateStrategy
from sunk.objects.computepods import has_run
from sunk.operator.nodeset.decide.podactions import budget, outdated
from sunk.operator.nodeset.observe.members import Member


def at_most(number: int | str) -> UpdateStrategy:
    return UpdateStrategy(rolling_update=RollingUpdate(max_unavailable=number))


def chosen(present: list[Member], *, most: int = 1, desired: int = 10) -> list[str]:
    found = outdated(present, wanted=NEW, strategy=at_most(most), desired=desired)
    return [one.entry.name for one in found]


def old(name: str, **traits: Any) -> Member:
    return member(name, revision=OLD, **traits)


@pytest.mark.parametrize(
    ("allowed", "desired", "wanted"),
    [("10%", 100, 10), ("10%", 11, 2), ("10%", 1, 1), ("1%", 5, 1), ("100%", 7, 7), (3, 100, 3), ("10%", 0, 1)],
)
def test_a_percentage_is_of_the_nodes_desired_rounded_up_and_never_nothing(
    allowed: int | str, desired: int, wanted: int
) -> None:
    assert budget(at_most(allowed), desired=desired) == wanted


def test_ready_pods_are_replaced_within_the_budget_whoever_is_missed_least_first() -> None:
    present = [old("gpu-0", running=True), old("gpu-1"), old("gpu-2", drained=True)]
    assert chosen(present, most=2) == ["gpu-1", "gpu-2"]


def test_pods_of_the_present_template_stay() -> None:
    assert chosen([member("gpu-0"), old("gpu-1")], most=5) == ["gpu-1"]


@pytest.mark.parametrize(
    "missing",
    [bare("gpu-9"), member("gpu-9", ready=False), member("gpu-9", terminating=True), member("gpu-9", mark="x")],
    ids=["no Pod", "not ready", "being deleted", "has to go"],
)
def test_a_replacement_that_is_not_there_stops_the_rollout(missing: Member) -> None:
    assert chosen([missing, old("gpu-0"), old("gpu-1")]) == []


def test_a_pod_that_was_marked_stays_marked_and_counts() -> None:
    assert chosen([old("gpu-0", mark="its template was changed"), old("gpu-1")]) == ["gpu-0"]


def test_a_pod_that_is_not_ready_costs_nothing_more_within_the_budget() -> None:
    assert chosen([old("gpu-0", ready=False), old("gpu-1")]) == ["gpu-0"]


def test_in_an_outage_nobody_is_taken_beyond_the_budget() -> None:
    assert chosen([old(f"gpu-{number}", ready=False) for number in range(5)], most=2) == []


def test_a_pod_in_which_nothing_can_run_is_replaced_in_any_case() -> None:
    broken = [old(f"gpu-{number}", ready=False, started=False) for number in range(5)]
    assert len(chosen(broken, most=1)) == 5


def test_who_leaves_is_not_updated_and_does_not_count() -> None:
    assert chosen([old("gpu-0", state="leaving", ready=False), old("gpu-1")]) == ["gpu-1"]


def test_with_on_delete_nobody_is_replaced() -> None:
    strategy = UpdateStrategy(type="OnDelete")
    assert outdated([old("gpu-0", ready=False)], wanted=NEW, strategy=strategy, desired=1) == ()


@settings(deadline=None)
@given(present=members(), most=st.integers(1, 5), wanted=st.sampled_from((NEW, OLD)))
def test_no_job_is_ever_asked_to_end_beyond_the_budget(present: tuple[Member, ...], most: int, wanted: str) -> None:
    found = outdated(present, wanted=wanted, strategy=at_most(most), desired=len(present))
    staying = [one for one in present if one.entry.state == "joined"]
    unavailable = sum(not one.available for one in staying)
    news = [one for one in found if one.available and one.pod and has_run(one.pod)]
    assert len(news) <= max(0, most - unavailable)
    sick = [one for one in found if not one.available and not one.pending_deletion and one.pod and has_run(one.pod)]
    assert not sick or unavailable <= most


@settings(deadline=None)
@given(present=members(), most=st.integers(1, 5))
def test_only_living_pods_of_another_template_are_chosen_each_once(present: tuple[Member, ...], most: int) -> None:
    found = outdated(present, wanted=NEW, strategy=at_most(most), desired=len(present))
    assert len({one.entry.name for one in found}) == len(found)
    assert all(one.alive and one.revision == OLD and one.entry.state == "joined" for one in found)
