"""What `sunk node release` takes off a Node, and what speaks against doing so now.

The lock is there for somebody: while a job holds the Slurm node, other work would start beside it, and an operator that
runs would put the lock back within a second. What cannot be read counts as if there was a job. A person who knows better
says so (`--force`).

What goes is decided by the operator's own rules for a Node that leaves, so that nothing stays which it would have taken.
One thing stays: a drain that a person has put on the machine (`kept-drain`), as it does when a Node leaves by itself.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from sunk.insight.status.locks import jobs
from sunk.kube.core import Node, Pod, condition
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import LOCK_ANNOTATIONS
from sunk.model.kubernetes.taints import described
from sunk.objects.computepods import finished
from sunk.objects.nodesets import NodeSet, marked_by
from sunk.operator.node.lock import operations
from sunk.operator.node.plan import NodeChange, body, plan


class Surroundings(Struct, frozen=True):
    """What there is beside the Nodes. What could not be read is None."""

    sets: tuple[NodeSet, ...] | None = ()
    operator: bool | None = False
    """Whether one runs, of whatever namespaces."""


class Situation(Struct, frozen=True):
    """A Node, and what is known about it."""

    node: Node
    pods: tuple[Pod, ...] | None = ()
    """Compute Pods on it; None if they could not be read."""
    around: Surroundings = Surroundings()

    @property
    def owner(self) -> NodeSet | None:
        """The NodeSet that it belongs to, if that exists."""
        mark = marked_by(self.node)
        return next((one for one in self.around.sets or () if mark in {one.metadata.uid, str(one.key)}), None)


# What speaks against it


def objection(found: Situation, *, all_marks: bool) -> str:
    """Why the Node must not be released now, and what to do; empty if nothing speaks against it."""
    reasons = [*_jobs(found), *_put_back(found)]
    if all_marks:
        reasons += _membership(found)
    return reasons[0] if reasons else ""


def _jobs(found: Situation) -> Iterator[str]:
    if found.pods is None:
        yield "you may not list Pods in all namespaces, so it is not known whether a job runs there"
        return
    for pod in (pod for pod in found.pods if not finished(pod)):
        name = pod.metadata.name
        request = lock.read(pod.metadata.annotations.get(names.LOCK_REQUEST))
        told = condition(pod.status.conditions, names.SLURM_RUNNING)
        if (request is not None and request.runs) or (told is not None and told.status == "True"):
            running = jobs(request) or "a job"
            again = ", and the operator would lock the Node again" if found.around.operator is not False else ""
            yield (
                f"Slurm node {name} runs {running}: other work would start beside it{again}. Wait until it has ended "
                f"(`squeue -w {name}`), or cancel it"
            )
        elif request is None or told is None or told.status != "False":
            yield (
                f"it is not known whether Slurm node {name} runs a job: the syncer has not reported on it. See `sunk "
                f"explain node {name}`"
            )


def _put_back(found: Situation) -> Iterator[str]:
    owner = found.owner
    if owner is not None and owner.spec.sharing == "slurmOnly" and found.around.operator is not False:
        yield (
            f"NodeSet {owner.key} has `sharing: slurmOnly`, so the operator would lock the Node again. Set `sharing: open`"
        )


def _membership(found: Situation) -> Iterator[str]:
    if not marked_by(found.node) or found.around.operator is False:
        return
    if found.around.sets is None:
        yield "you may not list NodeSets, so it is not known whether the Node still belongs to one"
    elif (owner := found.owner) is not None:
        yield (
            f"it belongs to NodeSet {owner.key}, and the operator would put the marks back. Delete the NodeSet, scale it "
            "in, or change the labels that make the Node fit; or leave out --all-marks, to take off the lock alone"
        )


# What goes


def marks(node: Node, *, all_marks: bool) -> tuple[str, ...]:
    """All that would be taken off, in words."""
    return tuple(dict.fromkeys((*_lock_marks(node), *(_other_marks(node) if all_marks else ()))))


def left(node: Node) -> tuple[str, ...]:
    """What stays, in words, if only the lock goes."""
    there = {*_lock_marks(node)}
    return tuple(mark for mark in _other_marks(node) if mark not in there)


def kept_drain(node: Node) -> bool:
    return names.KEPT_DRAIN in node.metadata.annotations


def _lock_marks(node: Node) -> Iterator[str]:
    notes, labels = node.metadata.annotations, node.metadata.labels
    yield from (f"taint {described(taint)}" for taint in node.spec.taints if taint.key == names.LOCK)
    yield from (f"annotation {name}={notes[name]}" for name in LOCK_ANNOTATIONS if name in notes)
    yield from (f"label {name}={labels[name]}" for name in (names.LOCK,) if name in labels)


def _other_marks(node: Node) -> Iterator[str]:
    change = _leaving(node)
    yield from (f"annotation {name}={node.metadata.annotations[name]}" for name in change.annotations)
    yield from (f"label {name}={node.metadata.labels[name]}" for name in change.labels)
    yield from (f"condition {kind}" for kind in change.ended)


def _leaving(node: Node) -> NodeChange:
    return plan(node, None, now=datetime.now(UTC))  # of no meaning to a Node that leaves


def lock_patch(node: Node) -> list[dict[str, Any]] | None:
    """The JSON patch that takes off the lock; None if there is none."""
    return operations(node, None) if any(True for _ in _lock_marks(node)) else None


def marks_patch(node: Node) -> dict[str, Any] | None:
    """The patch of the status subresource that takes off all else; None if there is nothing."""
    change = _leaving(node)
    return body(node, change) if change else None
