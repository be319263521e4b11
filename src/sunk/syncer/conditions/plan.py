"""What a Pod should show about its Slurm node: conditions, labels, and whether an eviction would cost a job.

Pure: from a row of Slurm and the runs of jobs that hold it to one patch, or none. The lock that those need is in the same
patch (`request`). Texts change only with what they mean. The state as `sinfo` shows it would not do as a message: PLANNED
comes and goes with every pass of the backfill scheduler, MIXED and ALLOCATED with every job, and each would be a write to
the API server for every node.

An eviction is allowed by a label, which the disruption budget spares. The label is there while the node is drained and no
job holds it. It is there too where a drain can never come, though somebody has cordoned the Node and waits: when Slurm
has the node DOWN, or does not know it and its slurmd does not run. Else `kubectl drain` would wait for a dead slurmd for
ever.
"""

from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from sunk.model import names
from sunk.model.contract import drains, requests
from sunk.model.contract.conditions import transition_time
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.model.contract.syncerwrites import LABEL_OF_CONDITION, POD_CONDITIONS
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag, NodeState
from sunk.syncer.conditions.request import request_text, wanted_request
from sunk.syncer.pods import ComputePod, condition, ready

LONGEST: Final = requests.LONGEST
"""Characters of a message."""
_BUSY: Final = frozenset({NodeBase.ALLOCATED, NodeBase.MIXED})
_SHOWN: Final = (
    NodeFlag.DRAIN,
    NodeFlag.COMPLETING,
    NodeFlag.FAIL,
    NodeFlag.MAINTENANCE,
    NodeFlag.INVALID_REG,
    NodeFlag.POWERED_DOWN,
    NodeFlag.POWERING_DOWN,
    NodeFlag.POWERING_UP,
    NodeFlag.REBOOT_REQUESTED,
    NodeFlag.REBOOT_ISSUED,
)
"""Flags that stay for a while, and that somebody does something about."""
_STAYING: Final = tuple(flag for flag in _SHOWN if flag is not NodeFlag.COMPLETING)
_BUSY_WORD: Final = "BUSY"


class NodeFacts(Struct, frozen=True):
    """What is known of a node when its Pod's conditions are decided."""

    node: Node | None
    """None if Slurm has no such node."""
    known: bool = True
    """Slurm answers. If not, there is nothing but the word of prologs."""
    runs: frozenset[JobRun] = frozenset()
    """Those of the jobs that hold it, by the jobs' own word or that of their prologs."""
    strict: bool = False
    """One of them needs the strict lock."""
    ahead: bool = False
    """A prolog runs there that no read has shown yet: the next one will show the node busy."""
    calm: bool = False
    """It was returned to service a moment ago. Until its slurmd has answered it is NOT_RESPONDING, which means nothing."""
    doubted: bool = False
    """What Slurm says is hard to believe."""
    stuck: str = ""
    """Why it will not become idle by itself."""

    @property
    def certain(self) -> bool:
        """Whether a run that is not among these does not hold it. No job is on a node that Slurm has no record of."""
        return self.known and not self.doubted


class WantedCondition(Struct, frozen=True):
    """A condition as it should be."""

    type: str
    status: str
    reason: str
    message: str = ""


class PodConditions(Struct, frozen=True):
    conditions: tuple[WantedCondition, ...]
    evictable: bool = False
    request: LockRequest | None = None
    """None: as it is."""

    @property
    def labels(self) -> dict[str, str | None]:
        """None where there should be none: what nobody knows is neither true nor false."""
        labels = {
            LABEL_OF_CONDITION[condition.type]: None if condition.status == "Unknown" else condition.status.lower()
            for condition in self.conditions
        }
        return labels | {names.EVICTABLE: "true" if self.evictable else None}


def pod_conditions(pod: ComputePod, facts: NodeFacts) -> PodConditions:
    request = wanted_request(pod, facts.runs, strict=facts.strict, certain=facts.certain)
    named = request is not None and bool(request.runs)
    if not facts.known:
        return PodConditions((_busy(pod),), request=request)
    if facts.node is None:
        conditions = _not_registered(pod, named=named)
    else:
        running = _running(pod, facts.node, facts, named=named)
        conditions = (_drain(facts.node), running, _responding(facts.node, facts))
    evictable = not (facts.doubted or facts.runs) and _evictable(pod, facts.node)
    return PodConditions(conditions, evictable=evictable, request=request)


def _not_registered(pod: ComputePod, *, named: bool) -> tuple[WantedCondition, ...]:
    message = "Slurm has no node of this name"
    unknown = {kind: WantedCondition(kind, "Unknown", names.NOT_REGISTERED, message) for kind in POD_CONDITIONS}
    return tuple((unknown | ({names.SLURM_RUNNING: _busy(pod)} if named else {})).values())


def _drain(node: Node) -> WantedCondition:
    if not node.state.out_of_service:
        return WantedCondition(names.SLURM_DRAIN, "False", names.NOT_DRAINED)
    ours = drains.is_ours(node.reason) and not node.state.failing
    reason = names.FROM_KUBERNETES if ours else names.FROM_SLURM
    return WantedCondition(names.SLURM_DRAIN, "True", reason, node.reason[:LONGEST])


def _running(pod: ComputePod, node: Node, facts: NodeFacts, *, named: bool) -> WantedCondition:
    state, before = node.state, condition(pod, names.SLURM_RUNNING)
    message = (facts.stuck or words(state, busy=facts.ahead))[:LONGEST]
    if NodeFlag.COMPLETING in state and state.base not in _BUSY and not facts.ahead:
        return WantedCondition(names.SLURM_RUNNING, "True", "Completing", message)
    if state.busy or facts.runs:
        return WantedCondition(names.SLURM_RUNNING, "True", "Busy", message)
    if named or (facts.doubted and before is not None and before.status == "True"):
        # A slurmctld that lost its jobs shows every node idle, and they may run on.
        return _busy(pod)
    return WantedCondition(names.SLURM_RUNNING, "False", "Idle", message)


def _busy(pod: ComputePod) -> WantedCondition:
    """That jobs are there, by something else than the row: as it was said before, if it was."""
    before = condition(pod, names.SLURM_RUNNING)
    if before is not None and before.status == "True":
        return WantedCondition(names.SLURM_RUNNING, "True", before.reason, before.message)
    return WantedCondition(names.SLURM_RUNNING, "True", "Busy", _BUSY_WORD)


def _responding(node: Node, facts: NodeFacts) -> WantedCondition:
    if NodeFlag.NOT_RESPONDING in node.state and not facts.calm:
        return WantedCondition(
            names.SLURM_NOT_RESPONDING, "True", "NotResponding", "slurmctld gets no answer from slurmd"
        )
    return WantedCondition(names.SLURM_NOT_RESPONDING, "False", "Responding")


def _evictable(pod: ComputePod, node: Node | None) -> bool:
    cordoned = names.CORDON in pod.metadata.annotations
    if node is None:
        return cordoned and not ready(pod)
    if node.state.drained:
        return True
    return cordoned and node.state.base is NodeBase.DOWN and not node.state.busy


def words(state: NodeState, *, busy: bool = False) -> str:
    """A state, without what comes and goes by itself; `busy` as it will be with the job that has just begun there."""
    if busy and state.base is NodeBase.IDLE:
        return "+".join([_BUSY_WORD, *(flag.name or "" for flag in _STAYING if flag in state)])
    base = _BUSY_WORD if state.base in _BUSY else state.base.name
    return "+".join([base, *(flag.name or "" for flag in _SHOWN if flag in state)])


# What has to be written for it


def status_patch(pod: ComputePod, wanted: PodConditions, *, now: datetime | None = None) -> dict[str, Any] | None:
    """The strategic merge patch for a Pod's status, or None if it says all of this already."""
    labels = {key: value for key, value in wanted.labels.items() if pod.metadata.labels.get(key) != value}
    conditions = [
        patch
        for condition in wanted.conditions
        if (patch := _condition_patch(pod, condition, now=now or datetime.now(UTC)))
    ]
    running = any(one.type == names.SLURM_RUNNING and one.status == "True" for one in wanted.conditions)
    request = request_text(pod, wanted.request, running=running, writing=bool(labels or conditions))
    if not (labels or conditions or request):
        return None
    at: dict[str, Any] = {"uid": pod.metadata.uid}
    if labels.get(names.EVICTABLE) or request:
        # What lets others destroy applies to the Pod as it was read, or to nothing. And the number of a request only grows:
        # one that was decided on an older Pod, by a leader that was one, must not set it back.
        at["resourceVersion"] = pod.metadata.resource_version
    at |= {"labels": labels} if labels else {}
    at |= {"annotations": {names.LOCK_REQUEST: request}} if request else {}
    return {"metadata": at} | ({"status": {"conditions": conditions}} if conditions else {})


def _condition_patch(pod: ComputePod, wanted: WantedCondition, *, now: datetime) -> dict[str, Any] | None:
    held = condition(pod, wanted.type)
    same = held is not None and (held.status, held.reason, held.message) == (
        wanted.status,
        wanted.reason,
        wanted.message,
    )
    if same:
        return None
    return {
        "type": wanted.type,
        "status": wanted.status,
        "lastTransitionTime": transition_time(held, wanted.status, now=now),
        "reason": wanted.reason,
        "message": wanted.message,
    }
