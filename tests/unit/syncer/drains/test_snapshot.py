"""Which causes for a drain hold."""

from tests.unit.syncer.builders import drained, ended, going, pod, row, snapshot

from sunk.model.contract.drains import Causes
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.drains.snapshot import causes, standing


def test_a_ready_pod_is_no_cause() -> None:
    assert causes(snapshot(of=pod())) == Causes()


def test_no_pod_or_one_that_goes_or_has_ended_is_a_terminated_one() -> None:
    for found in (None, going(pod()), ended(pod(ready=False))):
        assert causes(snapshot(of=found)) == Causes(terminated=True)


def test_who_is_marked_or_leaving_waits_for_deletion() -> None:
    assert causes(snapshot(of=pod(pending_deletion="scale-in"))) == Causes(pending_deletion=True)
    assert causes(snapshot(of=pod(pending_deletion=""))) == Causes(pending_deletion=True)
    assert causes(snapshot(of=pod(), state="leaving")) == Causes(pending_deletion=True)
    assert causes(snapshot(state="leaving")) == Causes(terminated=True, pending_deletion=True)


def test_a_pod_that_is_not_ready_counts_once_that_is_long_enough() -> None:
    assert causes(snapshot(of=pod(ready=False), unready_long=False)) == Causes()
    assert causes(snapshot(of=pod(ready=False), unready_long=True)) == Causes(not_ready=True)


def test_a_drain_because_nothing_was_ready_is_not_lifted_for_the_moment_in_which_nobody_counts() -> None:
    for reason in ("k8s: pod terminated", "k8s: pod not ready: cordon"):
        assert causes(snapshot(of=pod(ready=False), on=drained(reason=reason), unready_long=False)).not_ready
    for found in (drained(reason="k8s: cordon"), row(reason="k8s: pod not ready")):
        assert not causes(snapshot(of=pod(ready=False), on=found, unready_long=False)).not_ready


def test_a_cordon_is_what_the_pod_says_with_or_without_a_reason() -> None:
    assert causes(snapshot(of=pod(cordon="disk"))) == Causes(cordon="disk")
    assert causes(snapshot(of=pod(cordon=""))) == Causes(cordon="")
    assert causes(snapshot(of=pod(), on=drained(reason="k8s: cordon: disk"))) == Causes()


def test_the_cordon_of_a_pod_that_is_gone_is_carried_on_from_what_slurm_was_told() -> None:
    gone = Causes(terminated=True, cordon="disk")
    assert causes(snapshot(on=drained(reason="k8s: cordon: disk"))) == gone
    assert causes(snapshot(on=drained(reason="k8s: pod terminated: cordon: disk"))) == gone
    assert causes(snapshot(on=row(reason="k8s: cordon: disk"))) == Causes(terminated=True)
    assert causes(snapshot(on=drained(reason="alice: cordon: disk"))) == Causes(terminated=True)


def test_who_sleeps_to_save_power_has_no_pod_and_need_not_be_ready() -> None:
    asleep = row("n1", NodeFlag.POWERED_DOWN)
    for found in (None, pod(ready=False), going(pod())):
        assert causes(snapshot(of=found, state="parked")) == Causes()
        assert causes(snapshot(of=found, on=asleep)) == Causes()
    assert causes(snapshot(of=pod(cordon="disk"), on=asleep)) == Causes(cordon="disk")


def test_who_sleeps_does_not_stay_drained_for_a_cordon_that_nobody_could_lift() -> None:
    told = "k8s: pod terminated: cordon: disk"
    assert causes(snapshot(on=drained(reason=told), state="parked")) == Causes()
    assert causes(snapshot(on=row("n1", NodeFlag.DRAIN, NodeFlag.POWERED_DOWN, reason=told))) == Causes()


def test_what_slurm_says_is_told_in_plain_words() -> None:
    assert standing(drained(reason="x", base=NodeBase.DOWN)).down
    assert standing(drained(reason="x")).draining
    assert not standing(row(base=NodeBase.UNKNOWN)).registered
    assert standing(row(base=NodeBase.ALLOCATED)).registered
