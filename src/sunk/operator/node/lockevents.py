"""Events of a Node about its lock: who is about to be evicted, and who keeps a job waiting (`kubectl describe node`).

Who is named is part of what is said, so that two of them are not taken for the same thing said twice.
"""

from collections.abc import Sequence
from typing import Final

from sunk.kube.control.events import Recorder, about
from sunk.kube.core import Node
from sunk.model import names
from sunk.model.contract.lock import LockRequest
from sunk.model.kubernetes.taints import LOCK_TAINT, endurance
from sunk.model.wording import counted
from sunk.operator.node.tenants import FINISHED, Tenant, has_ended, placed_by_slurm, terminates

EVICTING: Final = "Evicting"
WAITING: Final = "LockWaiting"
_ACTION: Final = "Lock"
_SHOWN: Final = 5
"""Pods, and jobs, that are named."""


class LockEvents:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def evicting(self, node: Node, pods: Sequence[Tenant], request: LockRequest) -> None:
        """Say who is evicted by the taint that was just put on. Who is told to go already knows."""
        found = [pod for pod in pods if not terminates(pod) and not placed_by_slurm(pod)]
        if found:
            note = (
                f"Evicting {counted(len(found), 'Pod')} for {jobs(request)}: {_listed([str(pod.key) for pod in found])}"
            )
            self._recorder.tell(about(node, kind="Node"), EVICTING, note, action=_ACTION)

    def waiting(self, node: Node, note: str) -> None:
        self._recorder.warn(about(node, kind="Node"), WAITING, note, action=_ACTION)


def waiting_note(pods: Sequence[Tenant], request: LockRequest) -> str:
    """Who keeps the lock from being there, and why. It says nothing that changes by itself, so it is said once."""
    told = [f"{pod.key} ({_why(pod)})" for pod in pods]
    return f"Lock for {jobs(request)} waits for {counted(len(pods), 'Pod')}: {_listed(told)}"


def jobs(request: LockRequest) -> str:
    ids = [str(job) for job in sorted(request.job_ids)]
    return f"job{'s' * (len(ids) > 1)} {_listed(ids)}" if ids else "Slurm"


def _why(pod: Tenant) -> str:
    if placed_by_slurm(pod):
        return f"placed by Slurm job {pod.metadata.annotations[names.JOB_ID]}, which does not hold this Node now"
    if not terminates(pod):
        seconds = endurance(LOCK_TAINT, pod.spec.tolerations)
        return f"tolerates the lock for {seconds:.0f} s" if seconds else "not told to terminate yet"
    if pod.status.phase in FINISHED or has_ended(pod):
        held = ", ".join(pod.metadata.finalizers)
        return f"kept by finalizer {held}" if held else "ended, but not deleted by the kubelet yet"
    grace = pod.metadata.deletion_grace_period_seconds
    return "still running" if grace is None else f"still running, grace period {grace} s"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
