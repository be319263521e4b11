"""Claim Nodes and release them: an annotation that one writer can win.

A NodeSet claims a Node with the resourceVersion that it read, so of two that want it the second is refused; a leader
that was paused in the middle of a write likewise. The labels beside it are for people and selectors.

A claim of a NodeSet that no longer exists is void. That can only be said of one that we would see: where we look after
some namespaces only, a claim from another one holds. Where somebody has taken the claim off and left the labels, these
say whose it was, and whose it is to clean.
"""

from collections.abc import Callable
from typing import Final

from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import Node
from sunk.kube.errors import Conflict, KubeError, NotFound
from sunk.kube.resource import Key
from sunk.model import names
from sunk.objects.nodesets import CLAIM_LABELS, NodeSet, claim_of, marked_by

TRIES: Final = 4
"""The kubelet writes to its Node too, and each of its writes defeats one of ours."""


class Contested(KubeError):  # noqa: N818 - named as in sunk.kube.errors
    """A Node was changed by others at each of our tries. There will be another."""


async def claim(nodes: Collection[Node], node: str, *, owner: NodeSet, name: str, free: Callable[[Node], bool]) -> bool:
    """Make a Node ours, if it is free or ours already. Returns whether it is; if not, it belongs to another."""
    uid = owner.metadata.uid
    for _ in range(TRIES):
        found = nodes.store.get(Key("", node))
        if found is None or not (claim_of(found) == uid or free(found)):
            return False
        if await _write(nodes, found, annotations={names.CLAIM: uid}, labels=_labels(owner, name)):
            return True
    raise Contested(f"Node {node} was not claimed: others changed it {TRIES} times in the meantime")


async def release(nodes: Collection[Node], node: str, *, owner: NodeSet) -> None:
    """Take everything of ours from a Node, if it is ours."""
    for _ in range(TRIES):
        found = nodes.store.get(Key("", node))
        if found is None or marked_by(found) not in {owner.metadata.uid, str(owner.key)}:
            return
        if await _write(nodes, found, annotations={names.CLAIM: None}, labels=dict.fromkeys(CLAIM_LABELS)):
            return
    raise Contested(f"Node {node} was not released: others changed it {TRIES} times in the meantime")


async def _write(
    nodes: Collection[Node], node: Node, *, annotations: dict[str, str | None], labels: dict[str, str | None]
) -> bool:
    version = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
    try:
        await nodes.patch(node.key, Merge({"metadata": version | {"annotations": annotations, "labels": labels}}))
    except (Conflict, NotFound):  # the collection has read it again: try with that
        return False
    return True


def _labels(owner: NodeSet, name: str) -> dict[str, str | None]:
    at = owner.metadata
    return {
        names.NODESET: at.name,
        names.NAMESPACE: at.namespace,
        names.CLUSTER: owner.spec.cluster or None,
        names.POD: name,
    }
