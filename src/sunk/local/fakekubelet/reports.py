"""What a kubelet writes into a Pod's status, as bodies of a strategic merge patch."""

from datetime import datetime
from typing import Any

from sunk.kube.core import Container, Pod, condition


def refused(reason: str, message: str) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}


def started(pod: Pod, *, host: str, address: str, ready: bool, wall: datetime) -> dict[str, Any]:
    address = host if pod.spec.host_network else address
    true = ("PodScheduled", "PodReadyToStartContainers", "Initialized")
    status = {
        "phase": "Running",
        "startTime": wall,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [_condition(kind, holds=True, wall=wall) for kind in true]
        + _readiness_conditions(ready=ready, wall=wall),
        "containerStatuses": _containers(pod, ready=ready, state={"running": {"startedAt": wall}}),
    }
    if pod.spec.init_containers:
        done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": wall, "finishedAt": wall}}
        status["initContainerStatuses"] = [_container(one, ready=True, state=done) for one in pod.spec.init_containers]
    return status


def readiness(pod: Pod, *, ready: bool, wall: datetime) -> dict[str, Any]:
    return {
        "conditions": _readiness_conditions(ready=ready, wall=wall),
        "containerStatuses": _containers(pod, ready=ready, state={"running": {"startedAt": _since(pod) or wall}}),
    }


def exited(pod: Pod, *, code: int, wall: datetime) -> dict[str, Any]:
    """End the Pod, or start its containers over where its restart policy says so."""
    policy = pod.spec.restart_policy
    if policy == "Never" or (policy == "OnFailure" and code == 0):
        return ended(pod, code=code, wall=wall)
    last = _terminated(code, since=_since(pod) or wall, wall=wall)
    again = _containers(pod, ready=is_ready(pod), state={"running": {"startedAt": wall}})
    return {
        "containerStatuses": [
            one | {"restartCount": one["restartCount"] + 1, "lastState": {"terminated": last}} for one in again
        ]
    }


def ended(pod: Pod, *, code: int, wall: datetime) -> dict[str, Any]:
    since = _since(pod)
    state = {"terminated": _terminated(code, since=since or wall, wall=wall)}
    status: dict[str, Any] = {
        "phase": "Failed" if code else "Succeeded",
        "conditions": _readiness_conditions(ready=False, wall=wall, reason="PodFailed" if code else "PodCompleted"),
    }
    if since is not None:  # else no container ever ran
        status["containerStatuses"] = _containers(pod, ready=False, state=state)
    return status


def _terminated(code: int, *, since: datetime, wall: datetime) -> dict[str, Any]:
    reason = "Error" if code else "Completed"
    return {"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": wall}


def _containers(pod: Pod, *, ready: bool, state: dict[str, Any]) -> list[dict[str, Any]]:
    restarts = {one.name: one.restart_count for one in pod.status.container_statuses}
    return [
        _container(one, ready=ready, state=state, restarts=restarts.get(one.name, 0)) for one in pod.spec.containers
    ]


def _container(one: Container, *, ready: bool, state: dict[str, Any], restarts: int = 0) -> dict[str, Any]:
    return {
        "name": one.name,
        "image": one.image,
        "imageID": one.image,
        "containerID": f"fake://{one.name}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
    }


def _readiness_conditions(*, ready: bool, wall: datetime, reason: str = "ContainersNotReady") -> list[dict[str, Any]]:
    return [_condition(kind, holds=ready, wall=wall, reason=reason) for kind in ("ContainersReady", "Ready")]


def _condition(kind: str, *, holds: bool, wall: datetime, reason: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "lastTransitionTime": wall,
        "reason": None if holds else reason,  # None takes away what an earlier False left
    }


def is_ready(pod: Pod) -> bool:
    found = condition(pod.status.conditions, "Ready")
    return found is not None and found.status == "True"


def _since(pod: Pod) -> datetime | None:
    """When the containers started, or None if they never did."""
    running = (one.state.running for one in pod.status.container_statuses)
    return next((one.started_at for one in running if one is not None), None)
