"""What a kubelet does next about one Pod: a pure function of what was read and of the clock.

The order of writes is kubelet's: a Pod is admitted or refused once, reported as running, and at its end the
containers are reported as terminated before the object is removed with its uid as precondition.
"""

from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from sunk.kube.core import Pod, Taint, Toleration
from sunk.local.fakekubelet import reports
from sunk.local.fakekubelet.behaviour import Behaviour

ENDED: Final = ("Succeeded", "Failed")
KILLED: Final = 137


class Host(Struct, frozen=True):
    """The Node a Pod is bound to, as far as its Pods care."""

    address: str
    taints: tuple[Taint, ...] = ()


class PodTimes(Struct, frozen=True):
    """What this kubelet remembers of a Pod: times on the loop's clock, and the address it would give."""

    address: str
    admitted: float | None = None
    started: float = 0.0
    deleted: float = 0.0


class Now(Struct, frozen=True):
    """The moment of a decision, on the loop's clock for waiting and on the wall for reporting."""

    clock: float
    wall: datetime


class Admit(Struct, frozen=True):
    """Take the Pod in: from now on it will start, whatever taints come later."""


class Wait(Struct, frozen=True):
    until: float


class ReportStatus(Struct, frozen=True):
    """Write this into the status, as a strategic merge: conditions of others stay."""

    status: dict[str, Any]


class RemovePod(Struct, frozen=True):
    """Nothing of it runs any more: let the object go."""


Step = Admit | Wait | ReportStatus | RemovePod | None


def plan(pod: Pod, *, host: Host, behaviour: Behaviour, times: PodTimes, now: Now) -> Step:
    """Decide on one step. After it was carried out, ask again with what was read then."""
    if behaviour.silent:
        return None
    if pod.metadata.deletion_timestamp is not None:
        return _stop(pod, behaviour=behaviour, times=times, now=now)
    if pod.status.phase in ENDED:
        return None
    if pod.status.phase == "Running":
        return _run(pod, behaviour=behaviour, times=times, now=now)
    return _start(pod, host=host, behaviour=behaviour, times=times, now=now)


def _start(pod: Pod, *, host: Host, behaviour: Behaviour, times: PodTimes, now: Now) -> Step:
    if times.admitted is None:
        refused = _refusal(pod, host=host, behaviour=behaviour)
        return ReportStatus(refused) if refused else Admit()
    due = times.admitted + behaviour.start_after
    if now.clock < due:
        return Wait(due)
    return ReportStatus(
        reports.started(pod, host=host.address, address=times.address, ready=behaviour.ready, wall=now.wall)
    )


def _run(pod: Pod, *, behaviour: Behaviour, times: PodTimes, now: Now) -> Step:
    due = None if behaviour.exit_after is None else times.started + behaviour.exit_after
    if due is not None and now.clock >= due:
        return ReportStatus(reports.exited(pod, code=behaviour.exit_code, wall=now.wall))
    if reports.is_ready(pod) != behaviour.ready:
        # Also the way back for a Pod whose Node was out of touch: the node controller marks its Pods not ready.
        return ReportStatus(reports.readiness(pod, ready=behaviour.ready, wall=now.wall))
    return None if due is None else Wait(due)


def _stop(pod: Pod, *, behaviour: Behaviour, times: PodTimes, now: Now) -> Step:
    grace = pod.metadata.deletion_grace_period_seconds or 0
    if pod.status.phase in ENDED:
        return RemovePod() if grace else None  # without grace only finalizers hold it, and they are not ours
    if pod.status.phase != "Running":
        return ReportStatus(reports.ended(pod, code=KILLED, wall=now.wall))
    due = times.deleted + min(grace, behaviour.stop_after)
    if now.clock < due:
        return Wait(due)
    return ReportStatus(reports.ended(pod, code=KILLED if behaviour.stop_after > grace else 0, wall=now.wall))


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(
        one.effect in {"", taint.effect}
        and (one.key == taint.key or (not one.key and one.operator == "Exists"))
        and (one.operator == "Exists" or one.value == taint.value)
        for one in tolerations
    )


def _refusal(pod: Pod, *, host: Host, behaviour: Behaviour) -> dict[str, Any] | None:
    if behaviour.refuse:
        return reports.refused(behaviour.refuse, f"the fake kubelet was told to refuse it with {behaviour.refuse}")
    for taint in host.taints:
        if taint.effect == "NoExecute" and not tolerates(pod.spec.tolerations, taint):
            return reports.refused(
                "TaintToleration",
                "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
            )
    return None
