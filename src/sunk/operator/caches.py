"""Caches that several controllers of the operator share: all Nodes, all Pods, and the NodeSets in our namespaces.

Each is watched once, whoever asks: a second watch of all Pods of a cluster would cost as much as the first.
"""

from msgspec import Struct

from sunk.kube.cache.collection import Collection
from sunk.kube.core import NODES, PODS, Node, Pod
from sunk.objects.computepods import node_of
from sunk.objects.nodesets import NODESETS, NodeSet, owner_uid
from sunk.service.part import Setting
from sunk.service.scoped import Scoped


class SharedCaches(Struct, frozen=True):
    nodes: Collection[Node]
    pods: Collection[Pod]
    """By the index `node` those that are bound to a Node, by `compute` our own that are meant for it."""
    sets: Scoped[NodeSet]
    """By the index `uid`."""


def shared_caches(setting: Setting) -> SharedCaches:
    """To be asked for by `setting.once(shared_caches)`."""
    return SharedCaches(
        nodes=Collection(setting.client, NODES),
        pods=Collection(setting.client, PODS, indexes={"node": by_node, "compute": by_compute}),
        sets=Scoped(setting, NODESETS, indexes={"uid": lambda record: (record.metadata.uid,)}),
    )


def by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def by_compute(pod: Pod) -> tuple[str, ...]:
    """The Node of a compute Pod, also before it is bound; nothing for any other Pod."""
    if not is_compute(pod):
        return ()
    node = node_of(pod)
    return (node,) if node else ()


def is_compute(pod: Pod) -> bool:
    """One that a NodeSet has made, by its own word and whatever its labels say. `has_owner` asks whether that is true."""
    return bool(owner_uid(pod))


def has_owner(pod: Pod, sets: Scoped[NodeSet]) -> bool:
    """Whether the NodeSet that it names is there, in its own namespace: whoever may create a Pod may invent an owner."""
    uid, at = owner_uid(pod), pod.metadata.namespace
    return bool(uid) and any(one.metadata.namespace == at for one in sets.by("uid", uid))
