"""What a kubelet does about a Pod, decided without any API server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from sunk.kube.core import Pod, Taint, Toleration
from sunk.local.fakekubelet import pods
from sunk.local.fakekubelet.behaviour import Behaviour
from sunk.local.fakekubelet.pods import Admit, Host, Now, PodTimes, RemovePod, ReportStatus, Wait, plan, tolerates

HOST = Host(address="10.80.0.1")
START = datetime(2026, 1, 1, tzinfo=UTC)
LOCK = Taint(key="lock", value="true", effect="NoExecute")


def pod(*, phase: str = "Pending", deleted: int | None = None, **spec: Any) -> Pod:
    metadata: dict[str, Any] = {"name": "p", "namespace": "n", "uid": "u"}
    if deleted is not None:
        metadata |= {"deletionTimestamp": START, "deletionGracePeriodSeconds": deleted}
    status: dict[str, Any] = {"phase": phase}
    if phase == "Running":
        running = {"name": "main", "ready": True, "state": {"running": {"startedAt": START}}}
        status |= {"containerStatuses": [running], "conditions": [{"type": "Ready", "status": "True"}]}
    containers = [{"name": "main", "image": "i"}]
    return decoded({"metadata": metadata, "spec": {"containers": containers} | spec, "status": status})


def decoded(tree: dict[str, Any]) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(tree), type=Pod)


def at(clock: float) -> Now:
    return Now(clock=clock, wall=START + timedelta(seconds=clock))


def times(**times: float) -> PodTimes:
    return PodTimes(address="100.64.0.1", **times)


def step(
    one: Pod, *, clock: float = 0.0, host: Host = HOST, told: PodTimes | None = None, **behaviour: Any
) -> pods.Step:
    return plan(one, host=host, behaviour=Behaviour(**behaviour), times=told or times(), now=at(clock))


def reported(found: pods.Step) -> dict[str, Any]:
    assert isinstance(found, ReportStatus)
    return found.status


def test_a_new_pod_is_admitted_before_anything_else() -> None:
    assert step(pod()) == Admit()


def test_an_admitted_pod_waits_for_its_start() -> None:
    assert step(pod(), told=times(admitted=10.0), clock=11.0, start_after=5.0) == Wait(15.0)


def test_a_started_pod_says_everything_a_kubelet_says() -> None:
    status = reported(step(pod(), told=times(admitted=0.0), clock=5.0, start_after=5.0))
    assert (status["phase"], status["podIP"], status["hostIP"]) == ("Running", "100.64.0.1", "10.80.0.1")
    assert {one["type"]: one["status"] for one in status["conditions"]} == dict.fromkeys(
        ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"], "True"
    )
    assert [(one["name"], one["ready"]) for one in status["containerStatuses"]] == [("main", True)]


def test_a_pod_on_the_host_network_has_the_address_of_its_node() -> None:
    status = reported(step(pod(hostNetwork=True), told=times(admitted=0.0)))
    assert status["podIP"] == "10.80.0.1"


def test_a_running_pod_is_left_alone() -> None:
    assert step(pod(phase="Running")) is None


def test_a_pod_marked_not_ready_by_others_is_said_to_be_ready_again() -> None:
    lost = replace(pod(phase="Running"), status=replace(pod(phase="Running").status, conditions=()))
    status = reported(step(lost))
    assert {one["type"]: one["status"] for one in status["conditions"]} == {"ContainersReady": "True", "Ready": "True"}


def test_a_pod_that_is_to_be_not_ready_says_so_and_runs_on() -> None:
    status = reported(step(pod(phase="Running"), ready=False))
    assert "phase" not in status
    assert not status["containerStatuses"][0]["ready"]


def test_a_refusal_is_final_and_gives_the_reason() -> None:
    status = reported(step(pod(), refuse="OutOfcpu"))
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"].startswith("Pod was rejected: ")
    assert step(pod(phase="Failed"), refuse="OutOfcpu") is None


def test_a_pod_that_does_not_tolerate_a_noexecute_taint_is_refused() -> None:
    assert reported(step(pod(), host=Host(address="a", taints=(LOCK,))))["reason"] == "TaintToleration"


def test_a_taint_that_comes_after_admission_is_left_to_the_eviction_controller() -> None:
    found = step(pod(), host=Host(address="a", taints=(LOCK,)), told=times(admitted=0.0), start_after=5.0)
    assert found == Wait(5.0)


def test_a_taint_that_only_forbids_scheduling_does_not_matter() -> None:
    assert step(pod(), host=Host(address="a", taints=(Taint(key="k", effect="NoSchedule"),))) == Admit()


def test_a_silent_kubelet_does_nothing_at_all() -> None:
    for one in (pod(), pod(phase="Running"), pod(phase="Running", deleted=30), pod(phase="Failed", deleted=30)):
        assert step(one, silent=True, clock=1000.0) is None


def test_containers_are_reported_as_terminated_before_the_pod_is_removed() -> None:
    doomed = pod(phase="Running", deleted=30)
    assert step(doomed, told=times(deleted=10.0), clock=11.0, stop_after=2.0) == Wait(12.0)
    status = reported(step(doomed, told=times(deleted=10.0), clock=12.0, stop_after=2.0))
    assert status["phase"] == "Succeeded"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert step(pod(phase="Succeeded", deleted=30)) == RemovePod()


def test_a_container_that_outlasts_its_grace_is_killed() -> None:
    doomed = pod(phase="Running", deleted=5)
    assert step(doomed, clock=4.0, stop_after=60.0) == Wait(5.0)
    status = reported(step(doomed, clock=5.0, stop_after=60.0))
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_pod_that_never_started_goes_without_containers() -> None:
    status = reported(step(pod(deleted=30), stop_after=60.0))
    assert status["phase"] == "Failed"
    assert "containerStatuses" not in status


def test_a_pod_held_by_finalizers_alone_is_removed_once() -> None:
    assert step(pod(phase="Succeeded", deleted=0)) is None


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 0, "Succeeded"), ("Never", 1, "Failed"), ("OnFailure", 0, "Succeeded")],
)
def test_an_exit_ends_the_pod_where_the_policy_restarts_nothing(policy: str, code: int, phase: str) -> None:
    one = pod(phase="Running", restartPolicy=policy)
    assert step(one, told=times(started=10.0), exit_after=5.0, clock=10.0, exit_code=code) == Wait(15.0)
    assert reported(step(one, told=times(started=10.0), exit_after=5.0, clock=15.0, exit_code=code))["phase"] == phase


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 1), ("OnFailure", 1)])
def test_an_exit_restarts_the_container_where_the_policy_says_so(policy: str, code: int) -> None:
    one = pod(phase="Running", restartPolicy=policy)
    (container,) = reported(step(one, exit_after=5.0, clock=5.0, exit_code=code))["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == code
    assert "running" in container["state"]


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="lock", operator="Exists"), True),
        (Toleration(key="lock", value="true"), True),
        (Toleration(key="lock", value="true", effect="NoExecute"), True),
        (Toleration(key="lock", value="false"), False),
        (Toleration(key="lock", value="true", effect="NoSchedule"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(value="true"), False),
    ],
)
def test_tolerations_match_as_in_kubernetes(toleration: Toleration, *, tolerated: bool) -> None:
    assert tolerates((toleration,), LOCK) is tolerated


BEHAVIOURS = st.builds(
    Behaviour,
    start_after=st.floats(0, 100),
    stop_after=st.floats(0, 100),
    exit_after=st.none() | st.floats(0, 100),
    exit_code=st.integers(0, 255),
    refuse=st.sampled_from(["", "", "OutOfcpu"]),
    ready=st.booleans(),
)


def merged(one: Pod, status: dict[str, Any]) -> Pod:
    """Apply a report as the API server would: conditions by type, all else replaced."""
    tree = msgspec.to_builtins(one)
    old = {each["type"]: each for each in tree["status"].get("conditions", ())}
    new = {each["type"]: {k: v for k, v in each.items() if v is not None} for each in status.get("conditions", ())}
    tree["status"] |= status | {"conditions": list((old | new).values())}
    return decoded(tree)


def live(one: Pod, *, behaviour: Behaviour, told: PodTimes, clock: float, until: float) -> tuple[Pod | None, float]:
    """Carry out all steps up to a moment, as the shell does; return what is left of the Pod."""
    for _ in range(1000):
        found = plan(one, host=HOST, behaviour=behaviour, times=told, now=at(clock))
        match found:
            case Wait(due):
                assert due > clock, "waits for what is past already"
                if due > until:
                    return one, until
                clock = due
            case Admit():
                told = replace(told, admitted=clock)
            case ReportStatus(status):
                one = merged(one, status)
                told = replace(told, started=clock)
                if behaviour.exit_after is not None:
                    clock += 0.5  # a container that exits at once would do so for ever
                    if clock > until:
                        return one, until
            case RemovePod():
                return None, clock
            case None:
                return one, until
    raise AssertionError("never comes to rest")


@given(behaviour=BEHAVIOURS, policy=st.sampled_from(["Always", "OnFailure", "Never"]), grace=st.integers(1, 60))
def test_a_deleted_pod_is_gone_when_its_grace_period_is_over(behaviour: Behaviour, policy: str, grace: int) -> None:
    one, clock = live(pod(restartPolicy=policy), behaviour=behaviour, told=times(), clock=0.0, until=50.0)
    assert one is not None
    tree = msgspec.to_builtins(one)
    tree["metadata"] |= {"deletionTimestamp": START, "deletionGracePeriodSeconds": grace}
    told = times(admitted=0.0, started=0.0, deleted=clock)
    left, end = live(decoded(tree), behaviour=behaviour, told=told, clock=clock, until=clock + grace + 1)
    assert left is None
    assert end <= clock + grace + 1


@given(behaviour=BEHAVIOURS.filter(lambda one: one.exit_after is None and not one.refuse))
def test_a_pod_that_is_wanted_ends_up_running(behaviour: Behaviour) -> None:
    one, _ = live(pod(), behaviour=behaviour, told=times(), clock=0.0, until=101.0)
    assert one is not None
    assert one.status.phase == "Running"
    assert one.status.container_statuses[0].ready is behaviour.ready
