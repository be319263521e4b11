"""Who is a member of a NodeSet, and who is not."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.operator.nodeset.factories import bare, member, members

from sunk.operator.nodeset.decide.membership import FEW, Intent, Membership, decide_membership, first_to_go
from sunk.operator.nodeset.observe.members import Member
from sunk.operator.nodeset.observe.snapshot import Candidate

SPARE = tuple(Candidate(node=f"spare-{number}", name=f"gpu-1{number}") for number in range(5))
wishes = st.builds(
    Intent,
    replicas=st.none() | st.integers(0, 15),
    deleted=st.sampled_from((False, False, True)),
    forced=st.booleans(),
    changed=st.booleans(),
    accepted=st.integers(0, 12),
)


def states(found: Membership) -> dict[str, str]:
    return {one.entry.name: one.entry.state for one in found.members}


def some(number: int, *, unfit: int = 0) -> list[Member]:
    """So many members, of which the first do not fit."""
    return [member(f"gpu-{i}", unfit="label" if i < unfit else "") for i in range(number)]


# Growing and shrinking


def test_without_a_number_every_node_that_fits_joins() -> None:
    found = decide_membership([member()], SPARE, Intent())
    assert found.joins == SPARE
    assert (found.desired, found.feasible) == (6, 6)


def test_with_a_number_as_many_join_as_are_lacking_in_their_order() -> None:
    found = decide_membership([member()], SPARE, Intent(replicas=3))
    assert found.joins == SPARE[:2]
    assert (found.desired, found.feasible) == (3, 6)


def test_a_scale_in_takes_whoever_is_missed_least() -> None:
    present = [
        member("gpu-run", running=True),
        member("gpu-drain", drained=True),
        member("gpu-idle"),
        member("gpu-sick", ready=False),
        bare("gpu-none"),
    ]
    gone: list[set[str]] = []
    for replicas in (4, 3, 2, 1, 0):
        found = states(decide_membership(present, (), Intent(replicas=replicas)))
        gone.append({name for name, state in found.items() if state == "leaving"} - set().union(*gone))
    assert gone == [{"gpu-none"}, {"gpu-sick"}, {"gpu-idle"}, {"gpu-drain"}, {"gpu-run"}]


def test_of_pods_made_in_the_same_second_the_last_by_name_goes_first_whatever_the_order_of_slices() -> None:
    present = [member("gpu-002"), member("gpu-001"), member("gpu-003")]
    assert [one.entry.name for one in first_to_go(present)] == ["gpu-003", "gpu-002", "gpu-001"]


def test_a_member_that_was_scaled_in_comes_back_before_a_new_one_joins() -> None:
    found = decide_membership([member("gpu-0"), member("gpu-1", state="leaving")], SPARE, Intent(replicas=2))
    assert states(found) == {"gpu-0": "joined", "gpu-1": "joined"}
    assert not found.joins


def test_the_one_that_would_have_gone_last_comes_back_first() -> None:
    present = [member("gpu-0", state="leaving"), member("gpu-1", state="leaving", running=True)]
    assert states(decide_membership(present, (), Intent(replicas=1))) == {"gpu-0": "leaving", "gpu-1": "joined"}


@pytest.mark.parametrize(
    "gone",
    [
        bare("gpu-0", state="leaving"),
        member("gpu-0", state="leaving", terminating=True),
        member("gpu-0", state="leaving", unfit="label"),
        member("gpu-0", state="leaving", released=True),
    ],
    ids=["without Pod", "its Pod is being deleted", "its Node does not fit", "Slurm has forgotten it"],
)
def test_a_member_that_is_too_far_gone_does_not_come_back(gone: Member) -> None:
    found = decide_membership([gone], SPARE[:1], Intent(replicas=1))
    assert states(found) == {"gpu-0": "leaving"}
    assert found.joins == SPARE[:1]


# Leaving


def test_a_member_whose_node_does_not_fit_leaves_and_says_why() -> None:
    found = decide_membership([member(unfit="label"), member("gpu-1")], (), Intent())
    assert [(one.entry.state, one.entry.reason) for one in found.members] == [("leaving", "label"), ("joined", "")]


def test_everybody_leaves_a_set_that_is_deleted_and_nobody_joins() -> None:
    found = decide_membership([member(), bare("gpu-1")], SPARE, Intent(deleted=True))
    assert set(states(found).values()) == {"leaving"}
    assert (found.joins, found.desired) == ((), 0)


@pytest.mark.parametrize(
    ("one", "forced", "dropped"),
    [
        (bare(state="leaving", released=True), False, True),
        (bare(state="leaving"), False, False),
        (bare(state="leaving"), True, True),
        (member(state="leaving", released=True), False, False),
        (member(state="leaving"), True, False),
        (bare(released=True), True, False),
    ],
    ids=["released", "not released", "forced", "its Pod is there", "forced, its Pod is there", "not leaving"],
)
def test_an_entry_goes_when_its_pod_is_gone_and_slurm_has_forgotten_it_or_by_force(
    one: Member, *, forced: bool, dropped: bool
) -> None:
    found = decide_membership([one], (), Intent(replicas=1, forced=forced))
    assert bool(found.dropped) is dropped
    assert bool(found.members) is not dropped


# A loss that is too great to be meant


def test_a_sudden_loss_of_more_than_half_is_held() -> None:
    found = decide_membership(some(10, unfit=6), (), Intent(replicas=10))
    assert set(states(found).values()) == {"joined"}
    assert found.held == 6


def test_a_set_without_a_number_is_not_scaled_in_to_those_that_still_fit() -> None:
    found = decide_membership(some(10, unfit=10), (), Intent())
    assert set(states(found).values()) == {"joined"}
    assert (found.desired, found.feasible, found.held) == (10, 0, 10)


def test_a_loss_one_after_the_other_is_held_as_well_once_it_is_more_than_half() -> None:
    present: Sequence[Member] = some(10)
    for lost in range(1, 11):
        unfit = [Member(one.entry, one.pod, unfit="label") for one in present[:lost]]
        present = decide_membership([*unfit, *present[lost:]], (), Intent(replicas=10)).members
    assert [one.leaving for one in present] == [True] * 5 + [False] * 5


def test_few_may_be_lost_even_if_they_are_all() -> None:
    assert not decide_membership(some(FEW, unfit=FEW), (), Intent(replicas=FEW)).held
    assert decide_membership(some(FEW + 1, unfit=FEW + 1), (), Intent(replicas=FEW)).held


def test_half_may_be_lost() -> None:
    assert not decide_membership(some(10, unfit=5), (), Intent(replicas=10)).held


def test_a_loss_after_a_change_of_the_spec_is_meant() -> None:
    found = decide_membership(some(10, unfit=10), (), Intent(replicas=10, changed=True))
    assert set(states(found).values()) == {"leaving"}
    assert not found.held


@pytest.mark.parametrize(("accepted", "held"), [(5, 6), (6, 0), (7, 0)])
def test_a_loss_is_let_go_if_as_much_was_accepted(accepted: int, held: int) -> None:
    assert decide_membership(some(10, unfit=6), (), Intent(replicas=10, accepted=accepted)).held == held


def test_a_deleted_set_is_not_held() -> None:
    assert set(states(decide_membership(some(10, unfit=10), (), Intent(deleted=True))).values()) == {"leaving"}


# For whatever there may be


@settings(deadline=None)
@given(present=members(), intent=wishes, spare=st.integers(0, 5))
def test_no_more_are_active_than_desired_unless_nobody_may_leave(
    present: tuple[Member, ...], intent: Intent, spare: int
) -> None:
    found = decide_membership(present, SPARE[:spare], intent)
    active = sum(not one.leaving for one in found.members) + len(found.joins)
    assert active <= found.desired
    if intent.replicas is not None and not intent.deleted:
        assert found.desired == intent.replicas


@settings(deadline=None)
@given(present=members(), intent=wishes)
def test_a_leaving_member_comes_back_only_with_a_living_pod(present: tuple[Member, ...], intent: Intent) -> None:
    before = {one.entry.name: one for one in present}
    for one in decide_membership(present, SPARE, intent).members:
        was = before[one.entry.name]
        if was.leaving and not one.leaving:
            assert was.alive
            assert not was.unfit


@settings(deadline=None)
@given(present=members(), intent=wishes)
def test_nobody_is_lost_but_those_that_were_leaving_without_a_pod(present: tuple[Member, ...], intent: Intent) -> None:
    found = decide_membership(present, SPARE, intent)
    dropped = {entry.name for entry in found.dropped}
    assert dropped | {one.entry.name for one in found.members} == {one.entry.name for one in present}
    for one in present:
        if one.entry.name in dropped:
            assert one.leaving
            assert one.pod is None
            assert one.released or intent.forced


@settings(deadline=None)
@given(present=members(), intent=wishes)
def test_names_and_nodes_stay_what_they_were(present: tuple[Member, ...], intent: Intent) -> None:
    before = {one.entry.name: one.entry.node for one in present}
    assert all(before[one.entry.name] == one.entry.node for one in decide_membership(present, SPARE, intent).members)


@settings(deadline=None)
@given(present=members(), intent=wishes)
def test_what_was_decided_is_decided_again(present: tuple[Member, ...], intent: Intent) -> None:
    once = decide_membership(present, (), intent)
    twice = decide_membership(once.members, (), intent)
    gone = {one.entry.name for one in once.members if one.leaving and not one.pod and (one.released or intent.forced)}
    if not once.held:  # fewer members may make a loss too great, or no longer so
        assert states(twice) == {name: state for name, state in states(once).items() if name not in gone}
