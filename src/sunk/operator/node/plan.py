"""What a Node shall say of its Slurm node, and what has to be written for that.

The conditions are those of its Pod; one that the Pod does not have, or a Pod that is not there, is `Unknown` and never
"no". Only a node that has just joined has none at all, for a few seconds. `SlurmCordon` holds only for drains that came
from Slurm: one that came from a cordon must not come back as one.

Two annotations go with them. `drain` is Slurm's reason, and what is unknown leaves it: it is the last thing known.
Only a record that is gone takes it along, since the next one has not been seen with that drain.
`kept-drain` is there for the day on which the Node leaves. Slurm forgets a node that has left, and a person's drain with
it; so it stands on the Node from the moment it is seen, and stays when everything else of ours goes. It must not wait
for the leaving, because then nobody may be looking, and whose the Node was is gone with the claim.
Where it stands beside the Node object, so that it outlives that too, `sunk.operator.keptdrains` says.

When is a kept drain over? When it was seen on this record of the node (`drain` says the same) and is there no more:
somebody has lifted it. A node that came back shows "not drained" for a moment before the syncer has put it on again, so
by itself that means nothing until it has lasted. Nor does the drain with which a record is born: it is a new one, also
if nobody saw the old one go.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from sunk.kube.core import Condition, Node, Pod, condition
from sunk.model import names
from sunk.model.contract import drains, keptdrains
from sunk.model.contract.conditions import transition_time
from sunk.model.contract.syncerwrites import POD_CONDITIONS
from sunk.objects.nodesets import CLAIM_LABELS, marked_by
from sunk.operator.node.lock import is_marked

OURS: Final = (*POD_CONDITIONS, names.SLURM_CORDON)
UNKNOWN: Final = "Unknown"
NO_POD: Final = "NoPod"
NOT_TOLD: Final = "NotTold"
SILENCE: Final = timedelta(seconds=15)
"""A node that has just joined says something within this time. Thousands may join at once, and a write to each only to
say that nothing is known yet would double what that costs."""
NO_REASON: Final = "drained without a reason"
"""Stands for none at all, which could not be put on again."""
SURE: Final = timedelta(minutes=5)
"""So long "not drained" must last before a kept drain that was never seen is taken for lifted."""


class Ownership(Struct, frozen=True):
    """That a Node belongs to a NodeSet."""

    cluster: str
    """As `sunk.model.contract.keptdrains` calls it."""
    pod: Pod | None
    """The one that the NodeSet has made for this Node; none if it is not there."""
    kept_drain: str | None = None
    """What is kept for this Node in that cluster, also if its object is a new one and does not say so."""


class NodeChange(Struct, frozen=True):
    """What has to be written; false if nothing has."""

    conditions: tuple[Condition, ...] = ()
    """To be set. Without a time of transition where the status stays."""
    ended: tuple[str, ...] = ()
    """Conditions to be taken off."""
    annotations: dict[str, str | None] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    over: bool = False
    """The drain that was kept in this cluster is lifted."""
    wait: float | None = None
    """Seconds after which there may be something to do though nothing changes."""

    def __bool__(self) -> bool:
        return bool(self.conditions or self.ended or self.annotations or self.labels)


def carries(node: Node) -> bool:
    """Something of ours is on it that would have to go if it were nobody's."""
    if marked_by(node) or names.DRAIN in node.metadata.annotations:
        return True
    return any(one.type in OURS for one in node.status.conditions) or is_marked(node)


def plan(node: Node, member: Ownership | None, *, now: datetime) -> NodeChange:
    """Compare what is with what should be; without membership that is nothing, but for the drains that are kept."""
    return _leave(node) if member is None else _follow(node, member, now=now)


def _leave(node: Node) -> NodeChange:
    here, labels = node.metadata.annotations, node.metadata.labels
    return NodeChange(
        ended=tuple(one.type for one in node.status.conditions if one.type in OURS),
        annotations={name: None for name in (names.DRAIN, names.CLAIM) if name in here},
        labels={name: None for name in CLAIM_LABELS if name in labels},
    )


def _follow(node: Node, member: Ownership, *, now: datetime) -> NodeChange:
    if _is_new(node, member.pod):
        left = _patience(member.pod, now=now)
        if left is None or left > timedelta(0):
            return NodeChange(wait=None if left is None else left.total_seconds())
    said = told(member.pod)
    drain = said[0]
    annotations, wait = _annotations(node, member, drain, now=now)
    here = node.metadata.annotations
    kept_now = keptdrains.read(annotations.get(names.KEPT_DRAIN) or "")
    return NodeChange(
        conditions=tuple(changed for one in said if (changed := _changed(node, one, now=now))),
        annotations={name: text for name, text in annotations.items() if here.get(name) != text},
        over=names.KEPT_DRAIN in annotations and member.kept_drain is not None and member.cluster not in kept_now,
        wait=wait,
    )


def _is_new(node: Node, pod: Pod | None) -> bool:
    """Nothing was ever said of it, so that nothing is to be taken back."""
    there = () if pod is None else pod.status.conditions
    return not any(one.type in OURS for one in (*node.status.conditions, *there))


def _patience(pod: Pod | None, *, now: datetime) -> timedelta | None:
    """How long a node that joins may be silent; none if there is no end, as long as it has no Pod."""
    made = None if pod is None else pod.metadata.creation_timestamp
    if made is None:
        return None if pod is None else timedelta(0)
    return made + SILENCE - now


# Conditions


def told(pod: Pod | None) -> tuple[Condition, ...]:
    """The conditions of the Node: that of the drain first."""
    drain, *others = (_copied(pod, kind) for kind in POD_CONDITIONS)
    return drain, *others, _cordon(drain)


def _copied(pod: Pod | None, kind: str) -> Condition:
    if pod is None:
        return Condition(type=kind, status=UNKNOWN, reason=NO_POD, message="it has no Pod")
    found = condition(pod.status.conditions, kind)
    if found is None:
        return Condition(type=kind, status=UNKNOWN, reason=NOT_TOLD, message="no report from Slurm yet")
    status = found.status if found.status in {"True", "False"} else UNKNOWN
    return Condition(type=kind, status=status, reason=found.reason, message=found.message)


def _cordon(drain: Condition) -> Condition:
    ours = drain.status == "True" and drain.reason != names.FROM_SLURM
    status, message = ("False", "") if ours else (drain.status, drain.message)
    return Condition(type=names.SLURM_CORDON, status=status, reason=drain.reason, message=message)


def _changed(node: Node, wanted: Condition, *, now: datetime) -> Condition | None:
    held = condition(node.status.conditions, wanted.type)
    if held is not None and (held.status, held.reason, held.message) == (wanted.status, wanted.reason, wanted.message):
        return None
    return replace(wanted, last_transition_time=transition_time(held, wanted.status, now=now))


# Annotations


def _annotations(
    node: Node, member: Ownership, drain: Condition, *, now: datetime
) -> tuple[dict[str, str | None], float | None]:
    """What they should be; what is not named stays as it is. And when to look again."""
    if drain.status == UNKNOWN:
        return {names.DRAIN: None} if drain.reason == names.NOT_REGISTERED else {}, None
    here = node.metadata.annotations
    words = keptdrains.line if drain.reason == names.FROM_SLURM else keptdrains.one_line
    reason = words(drain.message) or NO_REASON if drain.status == "True" else None
    kept_here = keptdrains.read(here.get(names.KEPT_DRAIN, ""))
    before = kept_here.pop(member.cluster, None) or member.kept_drain
    wait = None
    if reason is not None and drain.reason == names.FROM_SLURM:
        # One that was not seen on this record yet is only covered, and put on when this one is lifted.
        covers = before not in {None, reason, here.get(names.DRAIN)}
        kept_here[member.cluster] = before if before is not None and covers else reason
    elif before is not None and (reason in {before, drains.NEW} or before != here.get(names.DRAIN)):
        left = _left(member.pod, drain, now=now)
        if left is None or left > timedelta(0):  # it may be about to be put on again
            kept_here[member.cluster] = before
            wait = None if left is None else left.total_seconds()
    return {names.DRAIN: reason, names.KEPT_DRAIN: keptdrains.write(kept_here)}, wait


def _left(pod: Pod | None, drain: Condition, *, now: datetime) -> timedelta | None:
    """How long "not drained" has still to last to be believed; none if that is not what is said."""
    found = None if pod is None else condition(pod.status.conditions, names.SLURM_DRAIN)
    if drain.status != "False" or found is None or found.last_transition_time is None:
        return None
    return found.last_transition_time + SURE - now


# Writing


def body(node: Node, change: NodeChange) -> dict[str, Any]:
    """The one patch of it all: a strategic merge of the status subresource, which takes annotations too.

    The uid keeps it from a Node that registered again. What cannot be said again by looking at the Pod, a kept drain and
    a claim, also depends on the version that was read: a leader that was paused must not bring back what is over.
    """
    at = {"uid": node.metadata.uid}
    if names.KEPT_DRAIN in change.annotations or names.CLAIM in change.annotations or change.labels:
        at["resourceVersion"] = node.metadata.resource_version
    conditions: list[dict[str, Any]] = [_written(one) for one in change.conditions]
    conditions += [{"$patch": "delete", "type": kind} for kind in change.ended]
    return {
        "metadata": at | _filled(annotations=change.annotations, labels=change.labels),
        **({"status": {"conditions": conditions}} if conditions else {}),
    }


def _written(one: Condition) -> dict[str, Any]:
    return {
        "type": one.type,
        "status": one.status,
        "lastTransitionTime": one.last_transition_time,
        "reason": one.reason,
        "message": one.message,
    }


def _filled(**parts: dict[str, str | None]) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}
