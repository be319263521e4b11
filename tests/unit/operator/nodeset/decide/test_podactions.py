"""What is done to the Pods of members."""

from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import BEGIN, NOW, bare, entry, member, members, pod, rules

from sunk.kube.core import Condition
from sunk.model import names
from sunk.model.contract import clearance
from sunk.objects.computepods import cleared, may_hold_job, pending_deletion
from sunk.operator.nodeset.decide.podactions import (
    UPDATE,
    DeletionMark,
    Moment,
    PodActions,
    PodRemoval,
    RemovalRules,
    pod_actions,
)
from sunk.operator.nodeset.observe.members import Member


def done(*present: Member, outdated: tuple[str, ...] = (), forced: bool = False, slurm: bool = True) -> PodActions:
    return pod_actions(present, outdated=outdated, rules=rules(forced=forced, slurm=slurm))


def test_a_joined_member_without_a_pod_gets_one() -> None:
    one = bare()
    assert done(one) == PodActions(create=(one.entry,))


@pytest.mark.parametrize("state", ["leaving", "parked"])
def test_a_member_that_leaves_or_is_parked_gets_none(state: str) -> None:
    assert done(bare(state=state)) == PodActions()  # type: ignore[arg-type]


def test_a_member_that_runs_is_left_alone() -> None:
    assert done(member(), member("gpu-1", ready=False), member("gpu-2", drained=True)) == PodActions()


def test_a_leaving_member_is_marked_with_the_reason_and_not_deleted() -> None:
    one = member(state="leaving")
    assert done(one) == PodActions(mark=(DeletionMark(one.pod, "scaled in"),))  # type: ignore[arg-type]


def test_a_mark_that_says_the_reason_already_is_not_written_again() -> None:
    assert done(member(state="leaving", mark="scaled in")) == PodActions()


def test_a_parked_member_is_marked_too() -> None:
    (mark,) = done(member(state="parked")).mark
    assert mark.reason == "parked"


def test_an_older_template_is_a_reason_to_go() -> None:
    (mark,) = done(member(), outdated=("gpu-0",)).mark
    assert mark.reason == UPDATE


def test_a_member_that_is_to_stay_after_all_loses_the_mark() -> None:
    (mark,) = done(member(mark="scaled in", cleared=True)).mark
    assert mark.reason is None


def test_a_cleared_pod_is_deleted() -> None:
    one = member(state="leaving", mark="scaled in", cleared=True)
    assert done(one) == PodActions(remove=(PodRemoval(one.pod, upon_clearance=True),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (clearance.write("1:k8s", read=BEGIN - timedelta(seconds=31)), NOW),
        (clearance.write("1:k8s", read=BEGIN + timedelta(seconds=6)), NOW),
        (clearance.write("1:k8s", read=BEGIN), Moment(BEGIN, since=BEGIN + timedelta(seconds=1))),
        ("1:k8s: pending deletion", NOW),
        ("drained", NOW),
    ],
    ids=["too old", "from the future", "given to another leader", "no date", "no text of ours"],
)
def test_a_clearance_that_may_not_be_true_any_more_is_asked_for_again(text: str, moment: Moment) -> None:
    one = member(state="leaving", mark="scaled in", cleared=True)
    assert one.pod is not None
    marks = one.pod.metadata.annotations | {names.CLEAR_TO_DELETE: text}
    held = replace(one, pod=replace(one.pod, metadata=replace(one.pod.metadata, annotations=marks)))
    assert pod_actions([held], outdated=(), rules=RemovalRules(moment)) == PodActions(renew=(held.pod,))  # type: ignore[arg-type]
    assert pod_actions([held], outdated=(), rules=RemovalRules(moment, forced=True)).remove[0].forced


def test_a_clearance_without_a_mark_deletes_nothing() -> None:
    assert not done(member(state="leaving", cleared=True)).remove


def test_a_pod_that_the_kubelet_has_not_seen_start_waits_for_slurm_too() -> None:
    """Slurmd registers, and is given a job, a second before the kubelet says that it runs."""
    one = member(state="leaving", started=False)
    assert done(one) == PodActions(mark=(DeletionMark(one.pod, "scaled in"),))  # type: ignore[arg-type]
    assert done(one, slurm=False).remove, "where there is no Slurm to ask, nobody knows better than the kubelet"


@pytest.mark.parametrize("traits", [{"at": ""}, {"phase": "Failed"}], ids=str)
def test_a_pod_that_holds_no_job_is_deleted_at_once(traits: dict[str, object]) -> None:
    found = done(Member(entry(state="leaving"), pod(**traits)))  # type: ignore[arg-type]
    assert [removal.forced for removal in found.remove] == [False]


def test_force_deletes_what_may_hold_a_job_and_knows_whether_it_kills() -> None:
    found = done(member("a", state="leaving", running=True), member("b", state="leaving"), forced=True).remove
    assert [(removal.forced, removal.kills) for removal in found] == [(True, True), (True, False)]


def test_force_is_none_where_the_syncer_has_cleared_or_nothing_runs() -> None:
    found = done(
        member("a", state="leaving", mark="x", cleared=True, running=True),
        member("b", state="leaving", phase="Failed"),
        forced=True,
    ).remove
    assert [(removal.forced, removal.kills) for removal in found] == [(False, False)] * 2


def test_force_does_not_touch_who_stays() -> None:
    assert done(member(), forced=True) == PodActions()


def test_a_pod_that_is_being_deleted_is_left_to_it() -> None:
    assert (
        done(member(state="leaving", terminating=True), member("gpu-1", terminating=True), forced=True) == PodActions()
    )


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_healed(phase: str) -> None:
    one = member(phase=phase)
    assert done(one) == PodActions(recreate=(one.pod,))  # type: ignore[arg-type]


def asked(seconds: float = 0.0, **slurm: str) -> Member:
    """A member whose Pod the syncer asked to have replaced so many seconds ago, and what its conditions say by now."""
    one = member()
    assert one.pod is not None
    text = f"{int((BEGIN - timedelta(seconds=seconds)).timestamp())}:Slurm has no node of this name"
    conditions = tuple(Condition(type=f"Slurm{kind}", status=status) for kind, status in slurm.items())
    metadata = replace(one.pod.metadata, annotations={names.RESTART: text})
    return replace(one, pod=replace(one.pod, metadata=metadata, status=replace(one.pod.status, conditions=conditions)))


@pytest.mark.parametrize(
    "slurm",
    [
        {},
        {"Running": "Unknown", "NotResponding": "Unknown"},
        {"Running": "False", "NotResponding": "True"},
    ],
    ids=["nothing said", "no record", "not reached"],
)
def test_a_pod_is_replaced_when_the_syncer_asks_for_it_while_slurm_does_not_know_it(slurm: dict[str, str]) -> None:
    one = asked(5, **slurm)
    assert done(one) == PodActions(recreate=(one.pod,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "slurm",
    [
        {"Running": "True", "NotResponding": "False"},
        {"Running": "True", "NotResponding": "True"},
        {"Running": "False", "NotResponding": "False"},
    ],
    ids=["runs a job", "runs a job unreached", "registered"],
)
def test_a_pod_that_slurm_knows_again_is_not_replaced(slurm: dict[str, str]) -> None:
    assert done(asked(5, **slurm)) == PodActions()


@pytest.mark.parametrize(("seconds", "heeded"), [(60, True), (61, False), (-5, True), (-6, False)])
def test_a_request_for_a_new_pod_is_dated_by_one_clock_and_does_not_last(*, seconds: int, heeded: bool) -> None:
    one = asked(seconds, Running="Unknown")
    assert bool(done(one).recreate) is heeded
    assert one.pod is not None
    assert NOW.may_recreate(one.pod) is heeded, "and so it is right before the Pod is deleted"


@settings(deadline=None)
@given(present=members(), outdated=st.sets(st.sampled_from([f"gpu-{number}" for number in range(12)])))
def test_without_force_nothing_that_may_hold_a_job_goes_without_a_clearance(
    present: tuple[Member, ...], outdated: set[str]
) -> None:
    found = pod_actions(present, outdated=outdated, rules=rules())
    for removal in found.remove:
        assert not removal.forced
        assert not may_hold_job(removal.pod) or cleared(removal.pod)
    assert all(not may_hold_job(pod) for pod in found.recreate)


@settings(deadline=None)
@given(present=members(), outdated=st.sets(st.sampled_from([f"gpu-{number}" for number in range(12)])))
def test_each_pod_gets_one_treatment_and_marks_are_written_once(
    present: tuple[Member, ...], outdated: set[str]
) -> None:
    found = pod_actions(present, outdated=outdated, rules=rules())
    treated = [
        *(entry.name for entry in found.create),
        *(mark.pod.metadata.name for mark in found.mark),
        *(removal.pod.metadata.name for removal in found.remove),
        *(pod.metadata.name for pod in found.recreate),
    ]
    assert len(treated) == len(set(treated))
    assert all(mark.reason != pending_deletion(mark.pod) for mark in found.mark)


def test_features_that_have_changed_are_told_to_a_living_pod_also_of_one_that_leaves() -> None:
    for state in ("joined", "leaving"):
        one = replace(member(state=state), features="h100")
        assert [change.features for change in done(one).update_features] == ["h100"]
    gone = replace(member(terminating=True), features="h100")
    assert not done(gone).update_features


def test_features_that_are_not_known_are_left_alone() -> None:
    assert not done(replace(member(), features=None)).update_features
