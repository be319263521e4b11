"""What a compute Pod carries because of its Node."""

from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.operator.node.scene import CLUSTER, annotated, drained, node, nodes, pod, pods, undrained

from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.operator.pod.plan import LONGEST, at_birth, plan

REASON = names.CORDON_REASON


def test_a_cordon_comes_with_its_reason() -> None:
    one = annotated(node(unschedulable=True), **{REASON: "bad fan"})
    assert plan(pod(), one) == {names.CORDON: "bad fan"}


def test_a_cordon_needs_no_reason() -> None:
    assert plan(pod(), node(unschedulable=True)) == {names.CORDON: ""}


def test_a_reason_without_a_cordon_says_nothing() -> None:
    assert plan(pod(), annotated(node(), **{REASON: "bad fan"})) == {}


def test_an_uncordon_takes_it_off() -> None:
    assert plan(pod(cordon=""), node()) == {names.CORDON: None}


def test_another_reason_is_another_annotation() -> None:
    one = annotated(node(unschedulable=True), **{REASON: "bad disk"})
    assert plan(pod(cordon="bad fan"), one) == {names.CORDON: "bad disk"}


def test_the_reason_may_stand_under_another_key() -> None:
    one = annotated(node(unschedulable=True), why="bad fan")
    assert plan(pod(), one, reason_key="why") == {names.CORDON: "bad fan"}


def test_a_reason_has_a_length() -> None:
    one = annotated(node(unschedulable=True), **{REASON: "x" * 100_000})
    assert plan(pod(), one) == {names.CORDON: "x" * LONGEST}


def test_a_node_that_is_not_there_changes_nothing() -> None:
    assert plan(pod(cordon="bad fan", kept_drain="disk"), None) == {}


def test_a_kept_drain_goes_to_the_pod_of_its_cluster() -> None:
    back = node(kept_drain=f"{CLUSTER}:bad fan")
    assert plan(pod(), back) == {names.KEPT_DRAIN: "bad fan"}
    assert plan(pod(cluster="other"), back) == {}
    assert plan(pod(namespace="another-team"), back) == {}


def test_it_goes_when_it_is_kept_no_longer() -> None:
    assert plan(pod(undrained(), kept_drain="bad fan"), node()) == {names.KEPT_DRAIN: None}


def test_a_drain_that_stands_needs_no_copy() -> None:
    back = node(kept_drain=f"{CLUSTER}:bad fan")
    assert plan(pod(drained("bad fan")), back) == {}
    assert plan(pod(drained("bad fan"), kept_drain="bad fan"), back) == {}
    assert plan(pod(undrained()), back) == {names.KEPT_DRAIN: "bad fan"}


@given(its_node=st.none() | nodes())
def test_a_new_pod_carries_all_of_it_from_its_first_moment(its_node: Node | None) -> None:
    born = patched(pod(), dict(at_birth(its_node, namespace="team", cluster="slurm")))
    assert plan(born, its_node) == {}


@given(one=pods(), its_node=st.none() | nodes())
def test_one_write_is_enough(one: Pod, its_node: Node | None) -> None:
    assert plan(patched(one, plan(one, its_node)), its_node) == {}


@given(one=pods(), its_node=st.none() | nodes())
def test_only_two_annotations_are_ours(one: Pod, its_node: Node | None) -> None:
    assert set(plan(one, its_node)) <= {names.CORDON, names.KEPT_DRAIN}


def patched(one: Pod, change: dict[str, str | None]) -> Pod:
    here = {key: text for key, text in (one.metadata.annotations | change).items() if text is not None}
    return replace(one, metadata=replace(one.metadata, annotations=here))
