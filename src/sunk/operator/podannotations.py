"""What a compute Pod shall carry because of its Node: that it is cordoned, a drain that was kept for it, and its lock.

A Node that is not there says nothing, so nothing changes: it may be registering again.
"""

from collections.abc import Mapping
from typing import Final

from sunk.kube.core import Node, Pod, condition
from sunk.model import names
from sunk.model.contract import lock

LONGEST: Final = 1024
"""Of a reason."""


def annotation_changes(
    pod: Pod, node: Node | None, *, kept_drain: str | None = None, reason_key: str = names.CORDON_REASON
) -> dict[str, str | None]:
    """The annotations that have to change; None takes one off. `kept_drain` is what is kept for the Node."""
    if node is None:
        return {}
    wanted = {names.CORDON: cordon(node, reason_key=reason_key), names.KEPT_DRAIN: _kept(pod, kept_drain)}
    return differences(pod, wanted)


def differences(pod: Pod, wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    here = pod.metadata.annotations
    return {name: text for name, text in wanted.items() if here.get(name) != text}


def cordon(node: Node, *, reason_key: str) -> str | None:
    """Why the Node takes no new work; perhaps nobody has said. None if it does."""
    return node.metadata.annotations.get(reason_key, "")[:LONGEST] if node.spec.unschedulable else None


def _kept(pod: Pod, wanted: str | None) -> str | None:
    drain = condition(pod.status.conditions, names.SLURM_DRAIN)
    theirs = drain is not None and drain.status == "True" and drain.reason == names.FROM_SLURM
    # It is on the node already, so that nothing has to be put on. A drain of ours is none: new records have one.
    return None if theirs and names.KEPT_DRAIN not in pod.metadata.annotations else wanted


def lock_copy(pod: Pod, node: Node | None) -> dict[str, str | None]:
    """What the Pod should say of the lock of its Node; nothing is named that should stay as it is.

    Only what was answered to this very Pod: another one of the same name, which was here before, may have had the lock.
    A new Pod therefore carries none from the start, since what is answered to it has yet to be asked for.
    """
    answer = None if node is None else lock.answer(node.metadata.annotations)
    if answer is None:
        return {}
    if answer.owner != pod.metadata.uid:
        return dict.fromkeys(lock.LOCK_ANNOTATIONS)
    return dict(answer.annotations)


def at_creation(
    node: Node | None, *, kept_drain: str | None = None, reason_key: str = names.CORDON_REASON
) -> dict[str, str]:
    """What a Pod that is about to be made for a Node shall carry from its first moment.

    Were it to follow a moment later, an operator that dies in between would let a node into service that must not be;
    and the syncer looks for a kept drain only once, when Slurm's record is new.
    """
    if node is None:
        return {}
    wanted = {names.CORDON: cordon(node, reason_key=reason_key), names.KEPT_DRAIN: kept_drain}
    return {name: text for name, text in wanted.items() if text is not None}
