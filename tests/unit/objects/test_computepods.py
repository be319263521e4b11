"""What the record of a compute Pod says about it."""

import msgspec
import pytest
from tests.unit.operator.nodeset.factories import pod

from sunk.kube.core import Pod
from sunk.objects.computepods import (
    NODE,
    cleared,
    finished,
    has_run,
    may_hold_job,
    node_of,
    pending_deletion,
    ready,
    removal_order,
    running,
    start_failure,
)

BARE = msgspec.convert({"metadata": {"name": "gpu-0"}}, Pod)


def with_container(name: str, **status: object) -> Pod:
    found = {"name": name, **status}
    tree = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"containerStatuses": [found]}}
    return msgspec.convert(tree, Pod)


def test_a_pod_whose_slurmd_has_started_has_run_whatever_its_conditions_say() -> None:
    assert has_run(pod(ready=False, running=False, phase="Pending"))


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"running": {}}},
        {"state": {"terminated": {"exitCode": 1}}},
        {"restartCount": 1},
    ],
)
def test_a_container_that_has_started_once_counts_as_started(status: dict[str, object]) -> None:
    assert has_run(with_container("slurmd", **status))


@pytest.mark.parametrize(
    "found",
    [with_container("slurmd", state={}), with_container("munge", state={"running": {}})],
    ids=["it waits for its image", "another container runs"],
)
def test_a_pod_whose_slurmd_was_not_seen_to_start_may_hold_a_job_for_all_the_kubelet_knows(found: Pod) -> None:
    assert not has_run(found)
    assert may_hold_job(found)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_holds_no_job(phase: str) -> None:
    assert finished(pod(phase=phase))
    assert not may_hold_job(pod(phase=phase))


def test_a_pod_that_is_on_no_node_holds_no_job() -> None:
    assert not may_hold_job(pod(at=""))


def test_a_clearance_counts_only_together_with_the_mark_that_it_answers() -> None:
    assert cleared(pod(mark="scaled in", cleared=True))
    assert not cleared(pod(cleared=True))
    assert not cleared(pod(mark="scaled in"))


def test_a_pod_that_is_being_deleted_is_not_ready() -> None:
    assert ready(pod())
    assert not ready(pod(terminating=True))


def test_nothing_is_assumed_of_a_pod_that_says_nothing() -> None:
    assert not ready(BARE)
    assert not running(BARE)
    assert not may_hold_job(BARE)
    assert pending_deletion(BARE) is None
    assert node_of(BARE) == ""


def test_the_node_of_a_pod_is_known_before_it_is_bound() -> None:
    made = msgspec.convert({"metadata": {"name": "p", "annotations": {NODE: "node-7"}}}, Pod)
    assert node_of(made) == "node-7"
    assert node_of(pod(at="node-8")) == "node-8"


def test_pods_go_in_the_order_not_ready_idle_draining_running() -> None:
    order = [
        None,
        pod(ready=False),
        pod(),
        pod(drained=True),
        pod(running=True),
    ]
    assert sorted((order[3], order[1], order[4], order[0], order[2]), key=removal_order) == order
    assert removal_order(pod(ready=False, running=True)) == removal_order(pod(running=True))
    assert removal_order(pod(drained=True, running=True)) == removal_order(pod(running=True))


def test_of_the_same_standing_the_newest_goes_first() -> None:
    order = [pod(age=1), pod(age=5), pod(age=100)]
    assert sorted((order[2], order[0], order[1]), key=removal_order) == order


SAID = "init: oneshot packages exited with code 100: Reading package lists\nE: no such package\n"
SHORT = "oneshot packages exited with code 100: Reading package lists E: no such package"


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"terminated": {"exitCode": 100, "message": SAID}}},
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"message": SAID}}},
        {"state": {"running": {}}, "lastState": {"terminated": {"message": SAID}}},
    ],
    ids=["ended", "waits to be started again", "is tried again"],
)
def test_a_script_that_failed_is_told_with_its_name_and_code(status: dict[str, object]) -> None:
    assert start_failure(with_container("slurmd", **status)) == SHORT


@pytest.mark.parametrize(
    "found",
    [
        BARE,
        with_container("slurmd", state={"running": {}}),
        with_container("slurmd", state={"terminated": {"exitCode": 1}}),
        with_container("slurmd", state={"terminated": {"exitCode": 1, "message": "slurmd: error"}}),
        with_container("beside", state={"terminated": {"exitCode": 1, "message": SAID}}),
        with_container("slurmd", state={"terminated": {"message": "out"}}, lastState={"terminated": {"message": SAID}}),
    ],
    ids=["new", "runs", "no words", "other words", "another container", "long ago"],
)
def test_nothing_else_is_taken_for_it(found: Pod) -> None:
    assert start_failure(found) == ""


def test_a_pod_that_is_ready_has_got_over_it() -> None:
    status = [{"name": "slurmd", "state": {"running": {}}, "lastState": {"terminated": {"message": SAID}}}]
    conditions = [{"type": "Ready", "status": "True"}]
    tree = {"metadata": {"name": "p"}, "status": {"containerStatuses": status, "conditions": conditions}}
    assert start_failure(msgspec.convert(tree, Pod)) == ""


def test_of_many_lines_the_first_and_the_last_are_told_and_no_more_than_fits() -> None:
    many = "init: oneshot a exited with code 1: one\ntwo\nthree\nfour\n"
    assert start_failure(with_container("slurmd", state={"terminated": {"message": many}})) == (
        "oneshot a exited with code 1: one … four"
    )
    long = f"init: oneshot a exited with code 1: {'x' * 4000}"
    assert len(start_failure(with_container("slurmd", state={"terminated": {"message": long}}))) == 200
