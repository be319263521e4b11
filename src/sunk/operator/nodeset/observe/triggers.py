"""Which NodeSets to enqueue when a Node or a foreign Pod changes.

A kubelet writes to its Node every few minutes, and Pods come and go all the time. Hardly any of it concerns a NodeSet,
and each reconcile costs something; so only what a decision depends on counts as a change. A Node that has an owner
concerns that NodeSet alone, since no other could take it. Its lock, which comes and goes with every job, concerns nobody.
"""

from collections.abc import Callable

from msgspec.structs import replace

from sunk.kube.cache.store import Store
from sunk.kube.core import Node, NodeSpec, Pod
from sunk.kube.resource import Key
from sunk.model import names
from sunk.objects.computepods import finished
from sunk.objects.nodesets import NodeSet, claim_of, owner_uid
from sunk.operator.nodeset.observe.fit import ready, stays
from sunk.service.scoped import Scoped


class Triggers:
    def __init__(self, sets: Scoped[NodeSet], *, enqueue: Callable[[Key], None]) -> None:
        self._sets = sets
        self._enqueue = enqueue

    def listen(self, *, nodes: Store[Node], pods: Store[Pod]) -> None:
        nodes.subscribe(self._node)
        pods.subscribe(lambda _, before, after: self._pod(nodes, before, after))

    def _node(self, _: Key, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and not _concerns(before, after):
            return
        for node in filter(None, (before, after)):
            self._enqueue_sets(node)

    def _enqueue_sets(self, node: Node) -> None:
        for node_set in self._owners(node) or self._sets.all():
            self._enqueue(node_set.key)

    def _owners(self, node: Node) -> tuple[NodeSet, ...]:
        claim = claim_of(node)
        return self._sets.by("uid", claim) if claim else ()

    def _pod(self, nodes: Store[Node], before: Pod | None, after: Pod | None) -> None:
        """A Pod that nobody evicts is in the way of whoever wants to join its Node, and so is one of another NodeSet."""
        if _takes_room(before) == _takes_room(after):
            return
        for pod in filter(None, (before, after)):
            node = nodes.get(Key("", pod.spec.node_name))
            if node is not None and not self._owners(node):
                self._enqueue_sets(node)


def _concerns(before: Node, after: Node) -> bool:
    one, other = before.metadata, after.metadata
    return (
        one.uid != other.uid
        or claim_of(before) != claim_of(after)
        or (one.labels != other.labels and _labels(before) != _labels(after))
        or (before.spec != after.spec and _spec(before) != _spec(after))
        or before.status.addresses != after.status.addresses
        or before.status.allocatable != after.status.allocatable
        or ready(before) != ready(after)
    )


def _labels(node: Node) -> dict[str, str]:
    """All of them, without that of the lock of a Node that belongs to somebody."""
    hidden = {names.LOCK} if claim_of(node) else ()
    return {name: text for name, text in node.metadata.labels.items() if name not in hidden}


def _spec(node: Node) -> NodeSpec:
    """The same of its taints."""
    if not claim_of(node):
        return node.spec
    return replace(node.spec, taints=tuple(taint for taint in node.spec.taints if taint.key != names.LOCK))


def _takes_room(pod: Pod | None) -> str:
    """The Node on which a Pod keeps others from joining; empty if there is none.

    An owner is believed here without being looked up: it may be gone already when its Pod goes. A look too many is all
    that an invented one costs.
    """
    return "" if pod is None or finished(pod) or not (owner_uid(pod) or stays(pod)) else pod.spec.node_name
