"""Drains that a verification lifts."""

from typing import Any

from tests.unit.syncer.builders import BEGAN, drained, later, pod, row, snapshot

from sunk.model.contract.drains import Drain, Undrain
from sunk.model.names import HPC_VERIFICATION
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.drains.plan import drain_action
from sunk.syncer.pods import ComputePod, ComputePodCondition

DRAINED_AT = int(BEGAN.timestamp()) + 100
SKEW = 5.0
REASON = "prolog failed (sunk:verify-undrain)"


def checked(status: str = "True", *, transition: float = 0.0, ready: bool = True, **times: Any) -> ComputePod:
    return pod(
        "n1",
        ComputePodCondition(HPC_VERIFICATION, status, last_transition_time=later(transition), **times),
        ready=ready,
    )


def sick(reason: str = REASON, **values: Any) -> Node:
    return drained(reason=reason, reason_time=DRAINED_AT, **values)


def done(found: ComputePod | None, on: Node) -> object:
    return drain_action(snapshot(of=found, on=on), skew=SKEW)


def test_a_pass_after_the_drain_lifts_it() -> None:
    assert done(checked(transition=106), sick()) == Undrain()
    assert done(checked(transition=106), sick("NHC: verify-undrain, disk")) == Undrain()


def test_a_pass_before_the_drain_or_within_the_skew_of_clocks_does_not() -> None:
    assert done(checked(transition=99), sick()) is None
    assert done(checked(transition=105), sick()) is None


def test_a_verification_that_failed_or_is_not_there_does_not() -> None:
    assert done(checked("False", transition=200), sick()) is None
    assert done(checked("Unknown", transition=200), sick()) is None
    assert done(pod(), sick()) is None


def test_a_later_probe_counts_though_the_condition_never_changed() -> None:
    assert done(checked(transition=1, last_probe_time=later(200)), sick()) == Undrain()
    assert done(checked(transition=1, last_heartbeat_time=later(200)), sick()) == Undrain()


def test_the_time_of_a_probe_goes_before_that_of_a_heartbeat_and_that_before_the_transition() -> None:
    late, early = later(200), later(1)
    assert done(checked(transition=200, last_probe_time=early, last_heartbeat_time=late), sick()) is None
    assert done(checked(transition=200, last_heartbeat_time=early), sick()) is None


def test_only_a_foreign_drain_with_that_word_is_lifted() -> None:
    assert done(checked(transition=200), sick("NHC: disk")) is None
    assert done(checked(transition=200), row(reason=REASON, reason_time=DRAINED_AT)) is None
    ours = pod(
        "n1", ComputePodCondition(HPC_VERIFICATION, "True", last_transition_time=later(200)), cordon="verify-undrain"
    )
    assert done(ours, sick("k8s: cordon: verify-undrain")) is None


def test_a_cause_of_ours_takes_its_place() -> None:
    assert done(checked(transition=200, ready=False), sick()) == Drain("k8s: pod not ready")


def test_a_node_that_is_down_or_never_registered_waits() -> None:
    for base in (NodeBase.DOWN, NodeBase.UNKNOWN):
        assert done(checked(transition=200), sick(base=base)) is None


def kept(reason: str) -> ComputePod:
    passed = ComputePodCondition(HPC_VERIFICATION, "True", last_transition_time=later(106))
    return pod("n1", passed, kept_drain=reason)


def test_on_a_new_record_the_drain_from_before_takes_the_place_of_one_that_is_lifted() -> None:
    assert done(kept("bob: smoke"), sick()) == Drain("bob: smoke")
    assert done(kept("bob: smoke"), sick(extra='{"k8s":{}}')) == Undrain(), "it has been on, or was covered, before"


def test_a_drain_from_before_is_not_lifted_until_it_is_known_to_have_been_put_on() -> None:
    assert done(kept(REASON), sick()) is None
    assert done(kept(REASON), sick(extra='{"k8s":{}}')) == Undrain()
