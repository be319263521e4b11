"""What the record of a compute Pod says about it, as far as something is decided upon it."""

from datetime import UTC, datetime, timedelta
from typing import Final

from sunk.kube.core import ContainerStatus, Pod
from sunk.model import names
from sunk.model.contract import clearance

NODE: Final = names.NODE
RESTART_LIFE: Final = timedelta(seconds=60)
"""For how long a request to replace a Pod is heeded."""
_DIGITS: Final = 12
_OF_INIT: Final = "init: "
"""What the last words of /init begin with (images/slurm/init)."""
_LONGEST: Final = 200
_BOTH: Final = 2
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def finished(pod: Pod) -> bool:
    """All its containers are dead and stay so: evicted, refused by the kubelet, or ended."""
    return pod.status.phase in {"Failed", "Succeeded"}


def terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def ready(pod: Pod) -> bool:
    return _holds(pod, "Ready") and not terminating(pod)


def running(pod: Pod) -> bool:
    """Slurm runs something there, as far as the syncer has said."""
    return _holds(pod, names.SLURM_RUNNING)


def drained(pod: Pod) -> bool:
    return _holds(pod, names.SLURM_DRAIN)


def unregistered(pod: Pod) -> bool:
    """Slurm does not know it or does not reach it, and runs nothing there, as far as the syncer has said."""
    match _status(pod, names.SLURM_RUNNING):
        case "True":
            return False
        case "False":
            return _holds(pod, names.SLURM_NOT_RESPONDING)
    return True


def _holds(pod: Pod, kind: str) -> bool:
    return _status(pod, kind) == "True"


def _status(pod: Pod, kind: str) -> str:
    for one in pod.status.conditions:  # a plain loop: it is asked several times of every member at every look
        if one.type == kind:
            return one.status
    return ""


def may_hold_job(pod: Pod) -> bool:
    """Slurm sends jobs as soon as slurmd has registered, and the kubelet says a second later, or much later, that it runs.

    So only Slurm knows that a Pod on a Node never ran; what the kubelet has not said yet proves nothing.
    """
    return bool(pod.spec.node_name) and not finished(pod)


def has_run(pod: Pod) -> bool:
    """Its slurmd has started, by the kubelet's word."""
    if not may_hold_job(pod):
        return False
    return any(one.name == names.SLURMD and _has_started(one) for one in pod.status.container_statuses)


def start_failure(pod: Pod) -> str:
    """Why slurmd was not started: a script of s6 that failed, by name and code. Empty if that is not so, or no longer.

    /init of the image leaves it where the kubelet finds it. A container that is started again has it in its last state, and
    once the Pod is ready nobody cares.
    """
    if ready(pod):
        return ""
    for container in pod.status.container_statuses:
        if container.name == names.SLURMD:
            ends = (container.state.terminated, container.last_state.terminated)
            told = next((end.message for end in ends if end is not None), "")
            return _in_short(told.removeprefix(_OF_INIT)) if told.startswith(_OF_INIT) else ""
    return ""


def _in_short(told: str) -> str:
    """The first line, which has name and code, and the last, which mostly has the cause."""
    lines = [line.strip() for line in told.strip().splitlines() if line.strip()]
    both = lines if len(lines) <= _BOTH else [lines[0], f"… {lines[-1]}"]
    return " ".join(both)[:_LONGEST]


def _has_started(container: ContainerStatus) -> bool:
    state = container.state
    return container.restart_count > 0 or state.running is not None or state.terminated is not None


def pending_deletion(pod: Pod) -> str | None:
    """Why it has to go, if it was marked."""
    return pod.metadata.annotations.get(names.PENDING_DELETION)


def cleared(pod: Pod) -> bool:
    """The syncer has seen it drained and idle, by a read made for that; it may have been a while ago."""
    return bool(pod.metadata.annotations.get(names.CLEAR_TO_DELETE)) and pending_deletion(pod) is not None


def clearance_fault(pod: Pod, *, now: datetime, since: datetime) -> str:
    """Why the clearance of a Pod does not hold for one who leads since then; empty if it does, or if there is none."""
    return (
        clearance.fault(pod.metadata.annotations[names.CLEAR_TO_DELETE], now=now, since=since) if cleared(pod) else ""
    )


def restart_request(why: str, *, now: datetime) -> str:
    """The text of the annotation by which the syncer asks for a new Pod, dated by the API server's clock."""
    return f"{int(now.timestamp())}:{why}"


def restart_asked(pod: Pod, *, now: datetime) -> str:
    """Why the syncer asks for a new Pod in its place, by the API server's clock; empty if that no longer holds.

    What it was asked upon passes: a node that Slurm knows again by now may run a job. So the Pod has to say still that it
    is unregistered, and the request has to be young. Who still wants it asks again.
    """
    at, _, why = pod.metadata.annotations.get(names.RESTART, "").partition(":")
    if not (at.isascii() and at.isdecimal() and len(at) <= _DIGITS and unregistered(pod)):
        return ""
    age = timedelta(seconds=now.timestamp() - int(at))
    return (why or "requested by the syncer") if -clearance.SKEW <= age <= RESTART_LIFE else ""


def revision(pod: Pod) -> str:
    return pod.metadata.labels.get(names.REVISION, "")


def node_of(pod: Pod) -> str:
    return pod.spec.node_name or pod.metadata.annotations.get(NODE, "")


def removal_order(pod: Pod | None) -> tuple[int, float]:
    """Sort who goes first to the front: nothing there, not ready, idle, draining, running; the newest first."""
    if pod is None:
        return 0, 0.0
    made = pod.metadata.creation_timestamp or _EPOCH
    return _rank(pod), -made.timestamp()


def _rank(pod: Pod) -> int:
    if not ready(pod) and not running(pod):
        return 1
    if running(pod):
        return 4
    return 3 if drained(pod) else 2
