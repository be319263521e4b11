"""The lock of a node in sentences: what it is, for whom, who is in the way, and why it is still there."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from sunk.insight.explain.sentence import Sentence
from sunk.insight.nodepods import NodePod, in_the_way, overdue, runs, terminating, toleration_of, workload
from sunk.insight.status.locks import LockView, jobs, lock_of
from sunk.insight.status.members import ObservedMember
from sunk.kube.core import Condition, condition
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import LockAnswer, LockRequest
from sunk.operator.commands import NAME as OPERATOR

ABOUT: Final = "Lock"
SHOWN: Final = 10
"""Pods in the way that are named."""
STUCK: Final = timedelta(minutes=2)
"""A node that is idle and locked for longer does not linger."""


class LockContext(Struct, frozen=True):
    """All that is known about the lock of a member."""

    seen: ObservedMember
    slurm_only: bool
    others: tuple[NodePod, ...] | None
    """All Pods of the Node; None if they may not be listed."""
    now: datetime

    @property
    def view(self) -> LockView:
        return lock_of(self.seen.node, self.seen.pod)

    @property
    def running(self) -> Condition | None:
        pod = self.seen.pod
        return None if pod is None else condition(pod.status.conditions, names.SLURM_RUNNING)

    @property
    def in_the_way(self) -> tuple[NodePod, ...]:
        wanted = self.view.request or LockRequest()
        pods = self.others or ()
        return tuple(pod for pod in pods if in_the_way(pod, jobs=wanted.job_ids, strict=wanted.strict))

    @property
    def stuck(self) -> bool:
        """Whether it is locked for nobody: not asked for, and idle for long."""
        view, told = self.view, self.running
        if self.slurm_only or view.request is None or view.request.runs or told is None or told.status != "False":
            return False
        since = told.last_transition_time
        return (bool(view.tainted) or view.locked or view.pending) and since is not None and self.now - since > STUCK


# Sentences


def lock_sentences(found: LockContext) -> Iterator[Sentence]:
    view = found.view
    if found.seen.pod is None and not view.tainted and not view.locked:
        return
    if view.answer is None or view.request is None:
        key = names.LOCK if view.answer is None else names.LOCK_REQUEST
        yield Sentence(
            ABOUT, f"cannot be read: see the annotation {key}. It stays as it is until that is valid", grave=True
        )
        return
    yield from _contradiction(view, view.answer)
    if view.pending:
        yield from _pending(found, view.answer, view.request)
    elif view.locked:
        yield from _locked(found, view.answer, view.request)
    elif view.request.runs:
        yield Sentence(ABOUT, f"requested for {_asked(view.request)}; the operator has not answered yet")
    else:
        yield Sentence(ABOUT, "off: other work may run on this Node")


def _contradiction(view: LockView, answer: LockAnswer) -> Iterator[Sentence]:
    off = answer.state == lock.UNLOCKED
    if view.tainted is not None and view.tainted == off:
        what = "the Node still has the taint" if off else "the Node has lost the taint"
        yield Sentence(ABOUT, f"says {answer.state}, but {what}. The operator corrects that at once", grave=True)


def _pending(found: LockContext, answer: LockAnswer, request: LockRequest) -> Iterator[Sentence]:
    since = found.seen.lock_time
    if not request.runs:
        yield Sentence(ABOUT, f"pending (request {answer.number}), though {_no_job(found)}", since, grave=found.stuck)
        return
    left = "are gone" if request.strict else "have ended"
    yield Sentence(ABOUT, f"pending for {_asked(request)}, which starts when all other Pods here {left}", since)
    yield from _waiting(found)


def _locked(found: LockContext, answer: LockAnswer, request: LockRequest) -> Iterator[Sentence]:
    pod, since = found.seen.pod, found.seen.lock_time
    strictly = "locked strictly" if answer.state == lock.LOCKED_STRICT else "locked"
    if pod is not None and answer.owner != pod.metadata.uid:
        text = (
            f"{strictly} for an earlier Pod of this node. The operator renews it once Slurm is known to be idle or busy"
        )
        yield Sentence(ABOUT, text, since)
    elif not request.runs:
        yield Sentence(
            ABOUT, f"{strictly} (request {answer.number}), though {_no_job(found)}", since, grave=found.stuck
        )
    elif answer.number < request.number:
        yield Sentence(
            ABOUT, f"{strictly} by request {answer.number}; {_asked(request)} waits for Pods of earlier jobs", since
        )
        yield from _waiting(found)
    else:
        yield Sentence(ABOUT, f"{strictly} for {_asked(request)}", since)


def _no_job(found: LockContext) -> str:
    """Why a Node is kept though no job asks for it."""
    told = found.running
    if found.slurm_only:
        return "no job asks for it: its NodeSet says `sharing: slurmOnly`, so it is always kept for Slurm"
    if found.seen.pod is None or told is None or told.status not in {"True", "False"}:
        return "no job asks for it: it is not known whether Slurm runs something here, so the lock stays"
    if told.status == "True":
        return "no job asks for it: Slurm says that something runs here"
    if found.stuck:
        return "its Slurm node has been idle for long: check that the operator runs"
    return "its Slurm node is idle: the operator waits a few seconds for the next job (`lockLinger`)"


def _asked(request: LockRequest) -> str:
    return f"{jobs(request)} (request {request.number})"


# Who is in the way


def _waiting(found: LockContext) -> Iterator[Sentence]:
    if found.others is None:
        yield Sentence(ABOUT, "waits for Pods that you may not list: get the permission to list Pods in all namespaces")
        return
    pods = found.in_the_way
    if not pods:
        yield Sentence(ABOUT, "no Pod is in the way any more")
    for pod in pods[:SHOWN]:
        yield Sentence(ABOUT, f"waits for {_named(pod)}: {_why(found, pod)}", grave=overdue(pod, now=found.now))
    if len(pods) > SHOWN:
        yield Sentence(ABOUT, f"waits for {len(pods) - SHOWN} more Pods")


def _named(pod: NodePod) -> str:
    of = workload(pod)
    return f"Pod {pod.key}" if of.kind == "Pod" else f"Pod {pod.key} of {of.kind} {of.name}"


def _why(found: LockContext, pod: NodePod) -> str:
    if terminating(pod):
        return _ending(found, pod)
    if (job := pod.metadata.annotations.get(names.JOB_ID)) is not None:
        return f"its Slurm job {job} no longer holds this node"
    toleration = toleration_of(pod.spec.tolerations)
    if toleration is not None and toleration.toleration_seconds is not None:
        return f"tolerates the lock for {toleration.toleration_seconds} s, and is evicted then"
    return "about to be evicted"


def _ending(found: LockContext, pod: NodePod) -> str:
    if not runs(pod) and pod.metadata.finalizers:
        return f"has ended, but its object is kept by the finalizer {pod.metadata.finalizers[0]}"
    end = pod.metadata.deletion_timestamp
    left = 0 if end is None else round((end - found.now).total_seconds())
    if left >= 0:
        return f"terminating, with up to {left} s left"
    return f"should have ended {-left} s ago: a process cannot be killed, or its kubelet does not answer"


# What to do


def lock_advice(found: LockContext) -> Iterator[str]:
    view, node = found.view, found.seen.entry.node
    if view.request is not None and view.request.runs:
        for pod in (pod for pod in found.in_the_way[:SHOWN] if overdue(pod, now=found.now)):
            yield f"kubectl describe pod -n {pod.metadata.namespace} {pod.metadata.name}    # what keeps it"
        if any(workload(pod).kind == "DaemonSet" for pod in found.in_the_way):
            yield "sunk check    # agents of the Node need a toleration"
    if found.stuck:
        yield f"kubectl get lease -A --field-selector metadata.name={OPERATOR}    # does the operator run?"
        yield f"sunk node release {node}    # if it was uninstalled"
