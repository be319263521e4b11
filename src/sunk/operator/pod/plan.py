"""What a compute Pod shall carry because of its Node: that it is cordoned, and a drain that was kept for it.

A Node that is not there says nothing, so nothing changes: it may be registering anew.
"""

from typing import Final

from sunk.kube.core import Node, Pod, condition
from sunk.model import kept, names

LONGEST: Final = 1024
"""Of a reason."""


def plan(pod: Pod, node: Node | None, *, reason_key: str = names.CORDON_REASON) -> dict[str, str | None]:
    """The annotations that have to change; None takes one off."""
    if node is None:
        return {}
    wanted = {names.CORDON: cordon(node, reason_key=reason_key), names.KEPT_DRAIN: _kept(pod, node)}
    here = pod.metadata.annotations
    return {name: text for name, text in wanted.items() if here.get(name) != text}


def cordon(node: Node, *, reason_key: str) -> str | None:
    """Why the Node takes no new work; perhaps nobody has said. None if it does."""
    return node.metadata.annotations.get(reason_key, "")[:LONGEST] if node.spec.unschedulable else None


def kept_drain(node: Node, *, namespace: str, cluster: str) -> str | None:
    """The drain that is to be put on again when the Node is back in this cluster."""
    text = node.metadata.annotations.get(names.KEPT_DRAIN)
    return kept.read(text).get(kept.cluster(namespace=namespace, name=cluster)) if text else None


def _kept(pod: Pod, node: Node) -> str | None:
    at = pod.metadata
    wanted = kept_drain(node, namespace=at.namespace, cluster=at.labels.get(names.CLUSTER, ""))
    drain = condition(pod.status.conditions, names.SLURM_DRAIN)
    if names.KEPT_DRAIN not in at.annotations and drain is not None and drain.status == "True":
        return None  # it is on the node already, so that nothing has to be put on
    return wanted


def at_birth(node: Node | None, *, namespace: str, cluster: str) -> dict[str, str]:
    """What a Pod that is about to be made for a Node shall carry from its first moment.

    Were it to follow a moment later, an operator that dies in between would let a node into service that must not be;
    and the syncer looks for a kept drain only once, when Slurm's record is new.
    """
    if node is None:
        return {}
    wanted = {
        names.CORDON: cordon(node, reason_key=names.CORDON_REASON),
        names.KEPT_DRAIN: kept_drain(node, namespace=namespace, cluster=cluster),
    }
    return {name: text for name, text in wanted.items() if text is not None}
