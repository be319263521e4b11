"""Taints and tolerations follow Kubernetes; the lock spares only those who hold out without bound."""

import pytest
from hypothesis import given, strategies as st

from sunk.kube.core import Taint, Toleration
from sunk.model.kubernetes.taints import described, endurance, endured, holds_out, tolerated, untolerated
from sunk.model.names import LOCK

FAN = Taint(key="fan", value="3", effect="NoSchedule")

tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "fan", LOCK]),
    operator=st.sampled_from(["Exists", "Equal", "Gt", "Lt"]),
    value=st.sampled_from(["", "true", "3"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
    toleration_seconds=st.sampled_from([None, 0, 300]),
)


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="fan", operator="Exists"), True),
        (Toleration(key="fan", value="3"), True),
        (Toleration(key="fan", operator="", value="3"), True),
        (Toleration(key="fan", value="3", effect="NoSchedule"), True),
        (Toleration(key="fan", value="3", effect="NoExecute"), False),
        (Toleration(key="fan", value="4"), False),
        (Toleration(key="fan"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(value="3"), False),
        (Toleration(key="fan", operator="Gt", value="2"), True),
        (Toleration(key="fan", operator="Gt", value="3"), False),
        (Toleration(key="fan", operator="Lt", value="4"), True),
        (Toleration(key="fan", operator="Lt", value="3"), False),
        (Toleration(key="fan", operator="Lt", value="04"), False),
        (Toleration(key="fan", operator="Lt", value="four"), False),
        (Toleration(key="fan", operator="Lt", value="9223372036854775808"), False),
        (Toleration(key="fan", operator="Is", value="3"), False),
    ],
)
def test_a_toleration_matches_as_in_kubernetes(toleration: Toleration, *, wanted: bool) -> None:
    assert tolerated(FAN, (toleration,)) is wanted


def test_a_taint_that_is_no_number_is_not_compared() -> None:
    assert not tolerated(Taint(key="fan", value="x", effect="NoSchedule"), (Toleration("fan", "Lt", "4"),))
    assert tolerated(Taint(key="fan", value="-7", effect="NoSchedule"), (Toleration("fan", "Lt", "-6"),))


def test_the_first_taint_that_repels_is_named() -> None:
    wish, other = Taint("a", "PreferNoSchedule"), Taint("b", "NoExecute")
    assert untolerated((wish, FAN, other), (Toleration(key="fan", operator="Exists"),)) == other
    assert untolerated((wish, FAN), (Toleration(key="fan", operator="Exists"),)) is None
    assert untolerated((FAN,), ()) == FAN


def test_tolerations_may_be_given_as_a_stream() -> None:
    assert untolerated((FAN, FAN), iter([Toleration(operator="Exists")])) is None


@pytest.mark.parametrize(
    ("given_tolerations", "wanted"),
    [
        ((), False),
        ((Toleration(operator="Exists"),), True),
        ((Toleration(key=LOCK, operator="Exists"),), True),
        ((Toleration(key=LOCK, value="true", effect="NoExecute"),), True),
        ((Toleration(key=LOCK, value="false", effect="NoExecute"),), False),
        ((Toleration(key=LOCK, operator="Exists", effect="NoSchedule"),), False),
        ((Toleration(key=LOCK, operator="Exists", effect="NoExecute", toleration_seconds=300),), False),
        ((Toleration(key=LOCK, operator="Exists", effect="NoExecute", toleration_seconds=0),), False),
    ],
)
def test_a_pod_stays_on_a_locked_node_only_if_it_tolerates_the_lock_for_good(
    given_tolerations: tuple[Toleration, ...], *, wanted: bool
) -> None:
    assert holds_out(given_tolerations) is wanted


def test_of_several_tolerations_the_first_that_matches_says_how_long() -> None:
    bounded = Toleration(key=LOCK, operator="Exists", effect="NoExecute", toleration_seconds=300)
    unbounded = Toleration(operator="Exists")
    assert not holds_out((bounded, unbounded))
    assert holds_out((unbounded, bounded))


@given(st.lists(tolerations, max_size=4))
def test_whoever_endures_a_taint_tolerates_it(some: list[Toleration]) -> None:
    for taint in (FAN, Taint(key=LOCK, value="true", effect="NoExecute")):
        assert tolerated(taint, some) or not endured(taint, some)
        assert tolerated(taint, some) == any(tolerated(taint, [one]) for one in some)


def test_a_taint_is_described_as_kubectl_writes_it() -> None:
    assert described(FAN) == "fan=3:NoSchedule"
    assert described(Taint("fan", "NoExecute")) == "fan:NoExecute"


def test_how_long_a_pod_stays_is_nothing_some_seconds_or_for_good() -> None:
    taint = Taint(key=LOCK, value="true", effect="NoExecute")
    assert endurance(taint, ()) == 0
    assert endurance(taint, [Toleration(operator="Exists", toleration_seconds=30)]) == 30
    assert endurance(taint, [Toleration(operator="Exists", toleration_seconds=-5)]) == 0
    assert endurance(taint, [Toleration(operator="Exists")]) == float("inf")
