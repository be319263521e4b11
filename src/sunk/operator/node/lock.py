"""What the lock of a Node shall be, by what its compute Pod says, and the one write that brings it there.

    false ──ask──► pending ──nobody in the way──► locked, locked_strict ──idle for `linger`──► false

The taint goes on with `pending`, and the Pods of the Node are listed after that write was acknowledged: the scheduler may
have bound one the moment before, which no cache would show. Whatever comes later is refused by the kubelet, which looks at
this taint again before it starts a Pod.

A request with a higher number on a Node that is locked already needs the list once more: a Pod of our scheduler may have
outlived its job. The answer keeps its old number until that is gone.

It depends on nothing that happened before, only on what is written: so a taint that somebody takes off, a Node that
registers again and an operator that dies in between all end in the same place. Unknown keeps what is: a Pod that was just
made says nothing yet, and its slurmd may have a job from before.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from sunk.kube.core import Node, Pod, Taint, condition
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import LockAnswer, LockRequest

TAINT: Final = Taint(key=names.LOCK, value=lock.TAINT_VALUE, effect=lock.TAINT_EFFECT)
SKEW: Final = timedelta(seconds=5)
"""By so much the clock that says since when a node is idle may be ahead of the one that is read here."""


class Take(Struct, frozen=True):
    """Put the taint on, and say that the lock is pending."""

    answer: LockAnswer


class Look(Struct, frozen=True):
    """List the Node's Pods. If none is in the way, write the answer."""

    request: LockRequest
    answer: LockAnswer


class Release(Struct, frozen=True):
    """Take the taint off."""

    answer: LockAnswer


class Linger(Struct, frozen=True):
    """Come back when the Node has been idle for long enough."""

    seconds: float


LockAction = Take | Look | Release | Linger


def plan(node: Node, pod: Pod | None, *, slurm_only: bool, linger: timedelta, now: datetime) -> LockAction | None:
    """What to do next about the lock of a Node that belongs to a NodeSet; None if it is as it should be, or unknown."""
    request = None if pod is None else request_of(pod)
    if pod is None or request is None:
        return None
    if slurm_only or is_wanted(pod):
        return _towards_locked(node, request, owner=pod.metadata.uid)
    if not _is_idle(pod):
        return None
    return _towards_unlocked(node, pod, request, linger=linger, now=now)


def request_of(pod: Pod) -> LockRequest | None:
    """What a compute Pod asks for; None if it cannot be read."""
    return lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))


def is_wanted(pod: Pod) -> bool:
    """Whether its Slurm node runs something, or is about to."""
    request = request_of(pod)
    return (request is not None and bool(request.runs)) or _running(pod) == "True"


def _running(pod: Pod) -> str:
    said = condition(pod.status.conditions, names.SLURM_RUNNING)
    return "" if said is None else said.status


def _is_idle(pod: Pod) -> bool:
    """Whether Slurm surely runs nothing there. It does not where it has no such node, and a Pod may never register."""
    said = condition(pod.status.conditions, names.SLURM_RUNNING)
    return said is not None and (said.status == "False" or said.reason == names.NOT_REGISTERED)


def _towards_locked(node: Node, request: LockRequest, *, owner: str) -> LockAction | None:
    current = lock.answer(node.metadata.annotations)
    goal = LockAnswer(lock.LOCKED_STRICT if request.strict else lock.LOCKED, request.number, owner)
    if current is None or current.owner != owner or current.state == lock.UNLOCKED or not is_tainted(node):
        return Take(LockAnswer(lock.PENDING, request.number, owner))
    if current.state == lock.PENDING:
        return Look(request, goal)
    if request.strict and current.state != lock.LOCKED_STRICT:
        return Take(LockAnswer(lock.PENDING, request.number, owner))
    return None if lock.satisfies(current, request, owner=owner) else Look(request, goal)


def _towards_unlocked(
    node: Node, pod: Pod, request: LockRequest, *, linger: timedelta, now: datetime
) -> LockAction | None:
    current = lock.answer(node.metadata.annotations)
    owner = pod.metadata.uid
    if current is not None and current.state == lock.UNLOCKED and not is_tainted(node):
        return None
    held = current is not None and current.state in lock.HELD and current.owner == owner
    left = _idle_since(pod, now) - now + linger if held else timedelta(0)  # in this order: no date beyond all dates
    # A time that lies far ahead is some clock's mistake, and nobody waits until it has come.
    if timedelta(0) < left <= linger + SKEW:
        return Linger(min(left, linger).total_seconds())
    return Release(LockAnswer(lock.UNLOCKED, request.number, owner))


def _idle_since(pod: Pod, now: datetime) -> datetime:
    said = condition(pod.status.conditions, names.SLURM_RUNNING)
    return now if said is None or said.last_transition_time is None else said.last_transition_time


def is_tainted(node: Node) -> bool:
    return TAINT in node.spec.taints


def has_lost_its_taint(node: Node) -> bool:
    """Whether a Node says that it is locked, or about to be, and Kubernetes may place Pods there all the same."""
    current = lock.answer(node.metadata.annotations)
    return current is not None and current.state != lock.UNLOCKED and not is_tainted(node)


def is_marked(node: Node) -> bool:
    """Whether anything of a lock is on a Node, be it only that it is unlocked."""
    here, labels = node.metadata.annotations, node.metadata.labels
    if names.LOCK in labels or any(name in here for name in lock.LOCK_ANNOTATIONS):
        return True
    return any(taint.key == names.LOCK for taint in node.spec.taints)


# Writing


def operations(node: Node, answer: LockAnswer | None) -> list[dict[str, Any]]:
    """The JSON patch that makes a Node say this; None takes off all that is ours.

    A merge patch would replace the list of taints, and the record of a taint here has not all of its fields: those of
    others would lose the time since which they count. The version makes it fail if anybody has changed the Node.
    """
    tainted = answer is not None and answer.state != lock.UNLOCKED
    wanted: Mapping[str, str | None] = dict.fromkeys(lock.LOCK_ANNOTATIONS) if answer is None else answer.annotations
    state = None if answer is None else answer.state
    return [
        {"op": "test", "path": "/metadata/uid", "value": node.metadata.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": node.metadata.resource_version},
        *_taints(node, tainted=tainted),
        *_entries("/metadata/annotations", node.metadata.annotations, wanted),
        *_entries("/metadata/labels", node.metadata.labels, {names.LOCK: state}),
    ]


def _taints(node: Node, *, tainted: bool) -> list[dict[str, Any]]:
    ours = [number for number, taint in enumerate(node.spec.taints) if taint.key == names.LOCK]
    if tainted and [node.spec.taints[number] for number in ours] == [TAINT]:
        return []
    removed = [{"op": "remove", "path": f"/spec/taints/{number}"} for number in reversed(ours)]
    if not tainted:
        return removed
    body = {"key": TAINT.key, "value": TAINT.value, "effect": TAINT.effect}
    return [*removed, _added(body) if node.spec.taints else {"op": "add", "path": "/spec/taints", "value": [body]}]


def _added(taint: dict[str, str]) -> dict[str, Any]:
    return {"op": "add", "path": "/spec/taints/-", "value": taint}


def _entries(at: str, here: Mapping[str, str], wanted: Mapping[str, str | None]) -> Sequence[dict[str, Any]]:
    changed = {key: value for key, value in wanted.items() if here.get(key) != value}
    if not here:
        kept = {key: value for key, value in changed.items() if value is not None}
        return [{"op": "add", "path": at, "value": kept}] if kept else []
    return [_entry(f"{at}/{key.replace('/', '~1')}", value) for key, value in changed.items()]


def _entry(path: str, value: str | None) -> dict[str, Any]:
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
