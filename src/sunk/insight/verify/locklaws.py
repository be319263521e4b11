"""The laws about the lock of a Node: while a job runs there nobody else's work does, and afterwards the lock goes.

The lock is three things that have to agree: the taint, the Node's annotations, and the copy on the compute Pod. The taint
is what keeps others away; the annotations say how far it has come, for which request, and of which Pod.

As in `laws`, nothing here is a rule of the parts that are judged. They follow requests; this asks whether a job runs.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from sunk.insight.nodepods import NodePod, evictable, runs, toleration_of
from sunk.insight.verify.faults import MOMENT, Fault
from sunk.kube.core import Node, Pod, condition
from sunk.model import names
from sunk.model.contract import lock

ALONE: Final = 10
"""The law that a Node which runs a job is Slurm's alone."""
ENDING: Final = 7
"""The law that every wait has an end."""
LINGER: Final = 10.0
"""Seconds for which an idle Node stays locked, unless the operator was told otherwise."""
_NUMBERS: Final = (names.LOCK_NUMBER, names.LOCK_OWNER)


class LockSight(Struct, frozen=True, kw_only=True):
    """The lock of one member, as it was last read."""

    pod: Pod | None
    """Its compute Pod."""
    node: Node | None
    """None if Nodes may not be read."""
    busy: bool | None
    """Whether Slurm runs something there; None if that is not known."""
    slurm_only: bool | None = False
    """Whether the Node is kept for Slurm also while it is idle; None if that is not known."""
    others: tuple[NodePod, ...] | None = None
    """All Pods of the Node; None if they could not be read."""
    linger: float = LINGER


def faults(seen: LockSight) -> Iterator[Fault]:
    """Everything about the lock of a member that must not last."""
    yield from _missing(seen)
    if seen.node is None:
        return
    yield from _contradictions(seen.node)
    if seen.pod is not None:
        yield from _owner(seen.node, seen.pod)
        yield from _copy(seen.node, seen.pod)
        yield from _lasting(seen, seen.node, seen.pod)
        yield from _beside(seen, seen.node, seen.pod)


def remains(node: Node) -> Iterator[str]:
    """What is left of a lock on a Node that is nobody's."""
    yield from (f"taint {taint.key}" for taint in node.spec.taints if taint.key == names.LOCK)
    yield from (f"annotation {name}" for name in (names.LOCK, *_NUMBERS) if name in node.metadata.annotations)
    yield from (f"label {name}" for name in (names.LOCK,) if name in node.metadata.labels)


# While a job runs


def _missing(seen: LockSight) -> Iterator[Fault]:
    """A job runs under a lock, or under one that is about to be there."""
    if seen.pod is None or not (seen.busy or seen.slurm_only):
        return
    node, pod = seen.node, seen.pod
    state = _state((pod if node is None else node).metadata.annotations)
    why = f"Slurm node {pod.metadata.name} runs a job" if seen.busy else "its NodeSet says slurmOnly"
    if state == lock.UNLOCKED or (node is not None and not _is_tainted(node)):
        bare = "" if node is None or _is_tainted(node) else " and without the taint"
        yield Fault(ALONE, "job without lock", _about(seen), f"has lock {state}{bare}, though {why}", grace=MOMENT)


def _beside(seen: LockSight, node: Node, pod: Pod) -> Iterator[Fault]:
    """Once it is locked for all who ask, nobody else has a running container there."""
    request = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
    state, notes = _state(node.metadata.annotations), node.metadata.annotations
    answered = request is not None and _number(notes) >= request.number and notes.get(names.LOCK_OWNER) == _uid(pod)
    if request is None or not answered or state not in {lock.LOCKED, lock.LOCKED_STRICT}:
        return
    for other in seen.others or ():
        if runs(other) and evictable(other, jobs=request.job_ids):
            text = f"is {state}, but Pod {other.key} runs there{_bounded(other)}"
            yield Fault(ALONE, f"beside a job: {other.key}", f"Node {node.metadata.name}", text, grace=MOMENT)


def _bounded(pod: NodePod) -> str:
    found = toleration_of(pod.spec.tolerations)
    seconds = None if found is None else found.toleration_seconds
    return "" if seconds is None else f", which tolerates the lock for {seconds} s"


# What is written


def _contradictions(node: Node) -> Iterator[Fault]:
    notes, about = node.metadata.annotations, f"Node {node.metadata.name}"
    said, number = notes.get(names.LOCK), notes.get(names.LOCK_NUMBER, "0")
    if said not in {None, *lock.STATES}:
        words = f"has the annotation {names.LOCK}={said!r}, which is none of {', '.join(lock.STATES)}"
        yield Fault(ALONE, "word of lock", about, words, grace=MOMENT)
        return
    if not number.isdecimal():
        yield Fault(ALONE, "number of lock", about, f"has lock number {number!r}, which is no number", grace=MOMENT)
    locked = said not in {None, lock.UNLOCKED}
    if locked != _is_tainted(node) or _odd_taints(node):
        found = ", ".join(_taints(node)) or "no taint"
        yield Fault(ALONE, "taint of lock", about, f"has lock {said or 'none'} and {found}", grace=MOMENT)
    if said != node.metadata.labels.get(names.LOCK):
        label = node.metadata.labels.get(names.LOCK, "none")
        yield Fault(ALONE, "label of lock", about, f"has lock {said or 'none'} and the label {label}", grace=MOMENT)


def _owner(node: Node, pod: Pod) -> Iterator[Fault]:
    """A lock is of the Pod that is there. One that has said nothing of Slurm yet may find that of the Pod before."""
    told = condition(pod.status.conditions, names.SLURM_RUNNING)
    owner = node.metadata.annotations.get(names.LOCK_OWNER, "")
    locked = _state(node.metadata.annotations) != lock.UNLOCKED
    if locked and told is not None and told.status in {"True", "False"} and owner != _uid(pod):
        text = f"is locked for Pod uid {owner or 'none'}, while {pod.metadata.name} has {_uid(pod)}"
        yield Fault(ALONE, "owner of lock", f"Node {node.metadata.name}", text, grace=MOMENT)


def _copy(node: Node, pod: Pod) -> Iterator[Fault]:
    """What the Node says of this Pod's lock, the Pod says too; while there is none, only that."""
    theirs = node.metadata.annotations.get(names.LOCK_OWNER) == _uid(pod)
    said = _told(node.metadata.annotations if theirs else {})
    copied = _told(pod.metadata.annotations)
    if said != copied:
        text = f"says lock {' '.join(copied)} while Node {node.metadata.name} says {' '.join(said)}"
        yield Fault(ALONE, "copy of lock", f"Pod {pod.metadata.name}", text, grace=MOMENT)


# Afterwards


def _lasting(seen: LockSight, node: Node, pod: Pod) -> Iterator[Fault]:
    """No lock without a job, unless it is wanted so."""
    told = condition(pod.status.conditions, names.SLURM_RUNNING)
    request = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
    idle = seen.busy is False and told is not None and told.status == "False" and request is not None
    if not idle or seen.slurm_only is not False or (request is not None and request.runs):
        return
    if _is_tainted(node) or _state(node.metadata.annotations) != lock.UNLOCKED:
        text = f"is still locked ({_state(node.metadata.annotations)}), though Slurm node {pod.metadata.name} is idle"
        yield Fault(ENDING, "lasting lock", f"Node {node.metadata.name}", text, grace=seen.linger + MOMENT)


def _about(seen: LockSight) -> str:
    if seen.node is not None:
        return f"Node {seen.node.metadata.name}"
    return f"Pod {seen.pod.metadata.name}" if seen.pod else "a member"


def _state(notes: Mapping[str, str]) -> str:
    return notes.get(names.LOCK, lock.UNLOCKED)


def _told(notes: Mapping[str, str]) -> tuple[str, ...]:
    state = _state(notes)
    return (state,) if state == lock.UNLOCKED else (state, *(notes.get(name, "none") for name in _NUMBERS))


def _number(notes: Mapping[str, str]) -> int:
    number = notes.get(names.LOCK_NUMBER, "")
    return int(number) if number.isdecimal() and len(number) < len(str(1 << 64)) else -1


def _uid(pod: Pod) -> str:
    return pod.metadata.uid


def _is_tainted(node: Node) -> bool:
    return any(_is_the_lock(taint.key, taint.value, taint.effect) for taint in node.spec.taints)


def _odd_taints(node: Node) -> bool:
    ours = [taint for taint in node.spec.taints if taint.key == names.LOCK]
    return any(not _is_the_lock(taint.key, taint.value, taint.effect) for taint in ours)


def _is_the_lock(key: str, value: str, effect: str) -> bool:
    return (key, value, effect) == (names.LOCK, lock.TAINT_VALUE, lock.TAINT_EFFECT)


def _taints(node: Node) -> Iterator[str]:
    yield from (
        f"taint {taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints if taint.key == names.LOCK
    )
