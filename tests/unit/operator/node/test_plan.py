"""What a Node says of its Slurm node."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.operator.node.factories import (
    CLUSTER,
    EARLIER,
    FOREIGN,
    NOW,
    drained,
    drained_by_us,
    member,
    node,
    nodes,
    patched,
    pod,
    pods,
    said,
    undrained,
)

from sunk.kube.core import Condition, Node, Pod, condition
from sunk.model import names
from sunk.model.contract import drains
from sunk.model.contract.syncerwrites import POD_CONDITIONS
from sunk.operator.node.plan import (
    NO_POD,
    NO_REASON,
    NOT_TOLD,
    OURS,
    SILENCE,
    SURE,
    NodeChange,
    Ownership,
    body,
    carries,
    plan,
)

KEPT = f"{CLUSTER}:bad fan"
UNREGISTERED = pod(said(names.SLURM_DRAIN, "Unknown", names.NOT_REGISTERED))


def follow(one: Node, its_pod: Pod | None) -> Node:
    return patched(one, plan(one, member(its_pod), now=NOW))


def made(one: Pod, when: datetime) -> Pod:
    return replace(one, metadata=replace(one.metadata, creation_timestamp=when))


def of(one: Node, kind: str) -> Condition:
    found = condition(one.status.conditions, kind)
    assert found is not None
    return found


def marks(one: Node) -> dict[str, str]:
    return one.metadata.annotations


# Conditions


@pytest.mark.parametrize("kind", POD_CONDITIONS)
@pytest.mark.parametrize("status", ["True", "False"])
def test_a_condition_of_the_pod_is_one_of_the_node(kind: str, status: str) -> None:
    found = of(follow(node(), pod(said(kind, status, "Why", "in words"))), kind)
    assert (found.status, found.reason, found.message) == (status, "Why", "in words")


@pytest.mark.parametrize("kind", OURS)
def test_without_a_pod_nothing_is_known(kind: str) -> None:
    found = of(follow(node(said(kind, "False")), None), kind)
    assert (found.status, found.reason) == ("Unknown", NO_POD)


@pytest.mark.parametrize("kind", OURS)
def test_what_the_pod_does_not_say_is_not_known(kind: str) -> None:
    found = of(follow(node(said(kind, "True")), pod()), kind)
    assert (found.status, found.reason) == ("Unknown", NOT_TOLD)


def test_a_node_that_has_just_joined_may_be_silent_for_a_moment() -> None:
    assert plan(node(), member(None), now=NOW) == NodeChange()
    young = made(pod(), NOW - SILENCE + timedelta(seconds=4))
    change = plan(node(), member(young), now=NOW)
    assert not change
    assert change.wait == 4
    later = patched(node(), plan(node(), member(young), now=NOW + timedelta(seconds=4)))
    assert of(later, names.SLURM_DRAIN).reason == NOT_TOLD


def test_what_a_young_pod_says_is_copied_at_once() -> None:
    young = made(pod(undrained()), NOW)
    assert of(follow(node(), young), names.SLURM_DRAIN).status == "False"


def test_a_young_pod_in_place_of_another_is_unknown_at_once() -> None:
    assert of(follow(node(undrained()), made(pod(), NOW)), names.SLURM_DRAIN).status == "Unknown"


@pytest.mark.parametrize(
    ("drain", "status"),
    [
        (drained(), "True"),
        (drained_by_us(), "False"),
        (undrained(), "False"),
        (said(names.SLURM_DRAIN, "Unknown", "NotRegistered"), "Unknown"),
        (said(names.SLURM_DRAIN, "True"), "False"),  # who has put it on was not said
    ],
)
def test_only_a_drain_that_came_from_slurm_is_a_cordon(drain: Condition, status: str) -> None:
    assert of(follow(node(), pod(drain)), names.SLURM_CORDON).status == status


def test_the_time_of_transition_moves_with_the_status_only() -> None:
    before = node(drained("bad fan"))
    assert of(follow(before, pod(drained("bad disk"))), names.SLURM_DRAIN).last_transition_time == EARLIER
    assert of(follow(before, pod(undrained())), names.SLURM_DRAIN).last_transition_time == NOW


# The reason


def test_the_reason_of_a_drain_is_an_annotation_while_it_holds() -> None:
    one = follow(node(), pod(drained_by_us("k8s: cordon: disk")))
    assert marks(one)[names.DRAIN] == "k8s: cordon: disk"
    assert names.DRAIN not in marks(follow(one, pod(undrained())))


@pytest.mark.parametrize("unknown", [None, pod(), pod(said(names.SLURM_DRAIN, "Unknown", "Why"))])
def test_what_is_unknown_leaves_the_last_reason(unknown: Pod | None) -> None:
    one = follow(node(), pod(drained("bad fan")))
    assert marks(follow(one, unknown)) == marks(one)


def test_a_record_that_is_gone_has_no_reason_any_more_and_what_is_kept_stays() -> None:
    one = follow(node(), pod(drained("bad fan")))
    change = plan(one, replace(member(UNREGISTERED), kept_drain="bad fan"), now=NOW)
    assert change.annotations == {names.DRAIN: None}
    assert not change.over


# Drains that are kept


def test_a_drain_by_a_person_is_kept_as_soon_as_it_is_seen() -> None:
    assert marks(follow(node(), pod(drained("bad fan"))))[names.KEPT_DRAIN] == KEPT


def test_a_drain_without_a_reason_is_kept_too() -> None:
    one = follow(node(), pod(drained("")))
    assert marks(one)[names.KEPT_DRAIN] == f"{CLUSTER}:{NO_REASON}"
    assert names.KEPT_DRAIN not in marks(follow(one, pod(undrained())))


def test_a_drain_of_ours_is_not_kept() -> None:
    assert names.KEPT_DRAIN not in marks(follow(node(), pod(drained_by_us())))


def test_a_kept_drain_stays_when_the_node_leaves() -> None:
    one = follow(node(), pod(drained("bad fan")))
    gone = patched(follow(one, None), plan(follow(one, None), None, now=NOW))
    assert marks(gone) == {names.KEPT_DRAIN: KEPT}


@pytest.mark.parametrize("now", [undrained(), drained_by_us()])
def test_a_drain_that_was_seen_and_is_lifted_is_kept_no_longer(now: Condition) -> None:
    one = follow(node(), pod(drained("bad fan")))
    assert names.KEPT_DRAIN not in marks(follow(one, pod(now)))


@pytest.mark.parametrize("unknown", [None, pod()])
def test_it_is_also_over_when_nothing_was_known_in_between(unknown: Pod | None) -> None:
    one = follow(follow(node(), pod(drained("bad fan"))), unknown)
    assert names.KEPT_DRAIN not in marks(follow(one, pod(undrained())))


@pytest.mark.parametrize("now", [undrained(since=NOW), drained_by_us("k8s: pod not ready")])
def test_a_node_that_is_back_keeps_it_until_it_was_put_on_again(now: Condition) -> None:
    assert marks(follow(node(kept_drain=KEPT), pod(now)))[names.KEPT_DRAIN] == KEPT


def test_a_record_that_is_made_again_keeps_it_until_it_was_put_on_again() -> None:
    one = follow(node(), pod(drained("bad fan")))
    born = follow(one, pod(drained_by_us(drains.NEW)))
    assert marks(born) == {names.DRAIN: drains.NEW, names.KEPT_DRAIN: KEPT}
    assert marks(follow(born, pod(undrained(since=NOW))))[names.KEPT_DRAIN] == KEPT
    again = follow(born, pod(drained("bad fan")))
    assert names.KEPT_DRAIN not in marks(follow(again, pod(undrained(since=NOW)))), "now somebody has lifted it"


@pytest.mark.parametrize("now", [undrained(since=NOW), drained_by_us(drains.NEW), drained_by_us()])
def test_a_record_that_was_seen_to_be_gone_keeps_it_too(now: Condition) -> None:
    one = follow(follow(node(), pod(drained("bad fan"))), UNREGISTERED)
    assert marks(follow(one, pod(now)))[names.KEPT_DRAIN] == KEPT


def test_a_drain_that_covers_it_on_a_new_record_does_not_take_its_place() -> None:
    """Slurm drains a machine that comes back with less memory, before the syncer could put on what was kept."""
    one = follow(node(kept_drain=KEPT), pod(drained("Low RealMemory")))
    assert marks(one) == {names.DRAIN: "Low RealMemory", names.KEPT_DRAIN: KEPT}
    assert marks(follow(one, pod(undrained(since=NOW))))[names.KEPT_DRAIN] == KEPT
    seen = follow(one, pod(drained("bad fan")))
    assert marks(follow(seen, pod(drained("smoke"))))[names.KEPT_DRAIN] == f"{CLUSTER}:smoke"


def test_a_kept_drain_that_nobody_puts_on_is_over_after_a_while() -> None:
    since = NOW - SURE + timedelta(seconds=20)
    back, its_pod = node(kept_drain=KEPT), pod(undrained(since=since))
    change = plan(back, member(its_pod), now=NOW)
    assert change.wait == 20
    later = plan(patched(back, change), member(its_pod), now=NOW + timedelta(seconds=20))
    assert later.annotations == {names.KEPT_DRAIN: None}
    assert later.wait is None


def test_each_cluster_has_its_own() -> None:
    other = "team/other:disk"
    one = follow(node(kept_drain=other), pod(drained("bad fan")))
    assert marks(one)[names.KEPT_DRAIN] == f"{other}\n{KEPT}"
    assert marks(follow(one, pod(undrained())))[names.KEPT_DRAIN] == other


# Writing


def test_nothing_is_written_where_nothing_differs() -> None:
    one = follow(node(), pod(drained()))
    assert not plan(one, member(pod(drained())), now=NOW)


def test_what_the_pod_can_say_again_depends_on_the_node_alone() -> None:
    one = node()
    written = body(one, plan(one, member(pod(drained_by_us())), now=NOW))
    assert written["metadata"] == {"uid": "node", "annotations": {names.DRAIN: "k8s: cordon"}}


def test_a_kept_drain_depends_on_the_version_that_was_read() -> None:
    one = node()
    written = body(one, plan(one, member(pod(drained())), now=NOW))
    assert written["metadata"]["resourceVersion"] == "7"


def test_a_node_without_anything_of_ours_is_no_concern() -> None:
    assert not carries(node(kept_drain=KEPT))
    assert carries(node(drain=""))
    assert carries(node(drained()))


@given(one=nodes(), its_pod=st.none() | pods(), belongs=st.booleans())
def test_one_write_is_enough(*, one: Node, its_pod: Pod | None, belongs: bool) -> None:
    whose: Ownership | None = member(its_pod) if belongs else None
    after = patched(one, plan(one, whose, now=NOW))
    assert not plan(after, whose, now=NOW)


@given(one=nodes(), its_pod=st.none() | pods(), belongs=st.booleans())
def test_what_is_not_ours_is_left_alone(*, one: Node, its_pod: Pod | None, belongs: bool) -> None:
    after = patched(one, plan(one, member(its_pod) if belongs else None, now=NOW))
    assert FOREIGN in after.status.conditions
    for here, there in ((one.metadata.labels, after.metadata.labels), (marks(one), marks(after))):
        assert {key: text for key, text in here.items() if names.GROUP not in key} == {
            key: text for key, text in there.items() if names.GROUP not in key
        }


@given(one=nodes(), its_pod=st.none() | pods())
def test_a_node_that_leaves_is_clean(one: Node, its_pod: Pod | None) -> None:
    was = follow(one, its_pod)
    left = patched(was, plan(was, None, now=NOW))
    assert not carries(left)
    assert {key for key in marks(left) | left.metadata.labels if names.GROUP in key} <= {names.KEPT_DRAIN}
    assert marks(left).get(names.KEPT_DRAIN) == marks(was).get(names.KEPT_DRAIN)
