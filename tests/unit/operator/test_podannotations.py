"""What a compute Pod carries because of its Node."""

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.operator.node.factories import annotated, drained, drained_by_us, node, nodes, pod, pods, undrained

from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.contract import drains, lock
from sunk.model.contract.lock import LOCK_ANNOTATIONS, LockAnswer
from sunk.operator.podannotations import LONGEST, annotation_changes, at_creation, differences, lock_copy

REASON = names.CORDON_REASON


def test_a_cordon_comes_with_its_reason() -> None:
    one = annotated(node(unschedulable=True), **{REASON: "bad fan"})
    assert annotation_changes(pod(), one) == {names.CORDON: "bad fan"}


def test_a_cordon_needs_no_reason() -> None:
    assert annotation_changes(pod(), node(unschedulable=True)) == {names.CORDON: ""}


def test_a_reason_without_a_cordon_says_nothing() -> None:
    assert annotation_changes(pod(), annotated(node(), **{REASON: "bad fan"})) == {}


def test_an_uncordon_takes_it_off() -> None:
    assert annotation_changes(pod(cordon=""), node()) == {names.CORDON: None}


def test_another_reason_is_another_annotation() -> None:
    one = annotated(node(unschedulable=True), **{REASON: "bad disk"})
    assert annotation_changes(pod(cordon="bad fan"), one) == {names.CORDON: "bad disk"}


def test_the_reason_may_stand_under_another_key() -> None:
    one = annotated(node(unschedulable=True), why="bad fan")
    assert annotation_changes(pod(), one, reason_key="why") == {names.CORDON: "bad fan"}


def test_a_reason_has_a_length() -> None:
    one = annotated(node(unschedulable=True), **{REASON: "x" * 100_000})
    assert annotation_changes(pod(), one) == {names.CORDON: "x" * LONGEST}


def test_a_node_that_is_not_there_changes_nothing() -> None:
    assert annotation_changes(pod(cordon="bad fan", kept_drain="disk"), None) == {}


def test_a_kept_drain_goes_to_the_pod() -> None:
    assert annotation_changes(pod(), node(), kept_drain="bad fan") == {names.KEPT_DRAIN: "bad fan"}
    assert annotation_changes(pod(), None, kept_drain="bad fan") == {}


def test_it_goes_when_it_is_kept_no_longer() -> None:
    assert annotation_changes(pod(undrained(), kept_drain="bad fan"), node()) == {names.KEPT_DRAIN: None}


def test_a_drain_that_stands_needs_no_copy() -> None:
    assert annotation_changes(pod(drained("bad fan")), node(), kept_drain="bad fan") == {}
    assert annotation_changes(pod(drained("bad fan"), kept_drain="bad fan"), node(), kept_drain="bad fan") == {}
    assert annotation_changes(pod(undrained()), node(), kept_drain="bad fan") == {names.KEPT_DRAIN: "bad fan"}


def test_a_drain_of_ours_is_not_the_one_that_was_kept() -> None:
    """A record that is born drained shows one before the kept drain is on."""
    new = pod(drained_by_us(drains.NEW))
    assert annotation_changes(new, node(), kept_drain="bad fan") == {names.KEPT_DRAIN: "bad fan"}


@given(its_node=st.none() | nodes(), key=st.sampled_from([REASON, "why"]), kept=st.none() | st.just("bad fan"))
def test_a_new_pod_carries_all_of_it_from_its_first_moment(its_node: Node | None, key: str, kept: str | None) -> None:
    born = patched(pod(), dict(at_creation(its_node, kept_drain=kept, reason_key=key)))
    assert annotation_changes(born, its_node, kept_drain=kept, reason_key=key) == {}


def test_a_new_pod_has_the_reason_from_the_key_that_was_chosen() -> None:
    its_node = annotated(node(unschedulable=True), **{"why": "bad fan", REASON: "not this"})
    assert at_creation(its_node, reason_key="why") == {names.CORDON: "bad fan"}


# The lock

GIVEN = LockAnswer("locked", 7, "pod")
"""To the Pod of these tests, which has this uid."""


def held(answer: LockAnswer) -> Node:
    return annotated(node(), **answer.annotations)


@pytest.mark.parametrize("state", lock.STATES)
def test_the_lock_of_the_node_is_copied_with_its_number_and_owner(state: lock.State) -> None:
    answer = LockAnswer(state, 7, "pod")
    assert lock_copy(pod(), held(answer)) == answer.annotations
    assert differences(patched(pod(), dict(answer.annotations)), lock_copy(pod(), held(answer))) == {}


def test_what_was_answered_to_another_pod_is_taken_off() -> None:
    """L1, L12: one of the same name that was here before."""
    before = patched(pod(), dict(GIVEN.annotations))
    assert set(differences(before, lock_copy(before, held(LockAnswer("locked", 9, "other"))))) == {*LOCK_ANNOTATIONS}
    assert differences(pod(), lock_copy(pod(), held(LockAnswer("locked", 9, "other")))) == {}


def test_a_node_without_a_lock_takes_it_off_and_one_that_is_not_there_changes_nothing() -> None:
    assert lock_copy(pod(), node()) == dict.fromkeys(LOCK_ANNOTATIONS)
    assert lock_copy(pod(), None) == {}


def test_a_lock_that_cannot_be_read_changes_nothing() -> None:
    assert lock_copy(pod(), annotated(node(), **{names.LOCK: "maybe"})) == {}


def test_a_new_pod_carries_no_lock() -> None:
    assert at_creation(held(GIVEN)) == {}


@given(one=pods(), its_node=st.none() | nodes(), kept=st.none() | st.just("bad fan"))
def test_one_write_is_enough(one: Pod, its_node: Node | None, kept: str | None) -> None:
    change = annotation_changes(one, its_node, kept_drain=kept)
    assert annotation_changes(patched(one, change), its_node, kept_drain=kept) == {}


@given(one=pods(), its_node=st.none() | nodes())
def test_only_two_annotations_are_ours(one: Pod, its_node: Node | None) -> None:
    assert set(annotation_changes(one, its_node)) <= {names.CORDON, names.KEPT_DRAIN}


def patched(one: Pod, change: dict[str, str | None]) -> Pod:
    here = {key: text for key, text in (one.metadata.annotations | change).items() if text is not None}
    return replace(one, metadata=replace(one.metadata, annotations=here))
