"""Names of Nodes and Pods by owner, kept by what the stores tell.

A snapshot wants to know which of thousands are there, whose they are, and which of them are new. An index of a store
would give it all their records to walk through. Names by owner can be compared as sets; and since a set is the same
object as long as nothing has come or gone, what was found by comparing it holds as long.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from sunk.kube.cache.store import Store, Subscriber
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key, R
from sunk.objects.nodesets import NodeSet, NodeSlice, marked_by, owner_uid

_NO_PODS: Final[Mapping[str, Pod]] = MappingProxyType({})
_Owner = tuple[str, str]
"""Namespace and uid of a NodeSet. The uid alone would not do: whoever may create a Pod may invent an ownerReference, and
an owner is always in the namespace of what it owns."""
OwnerT = TypeVar("OwnerT", str, _Owner)


class NameSet:
    """A set of names that is given out as the same object until it changes."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._given: frozenset[str] | None = None

    def put(self, name: str, *, there: bool) -> None:
        if there is not (name in self._names):
            self._given = None
            (self._names.add if there else self._names.discard)(name)

    def given(self) -> frozenset[str]:
        if self._given is None:
            self._given = frozenset(self._names)
        return self._given

    def __bool__(self) -> bool:
        return bool(self._names)


class OwnerIndex:
    def __init__(self, *, nodes: Store[Node], pods: Store[Pod], slices: Iterable[Store[NodeSlice]]) -> None:
        self._nodes = NameSet()
        self._marked: dict[str, NameSet] = {}
        self._pods: dict[_Owner, dict[str, Pod]] = {}
        self._pod_names: dict[_Owner, NameSet] = {}
        self._entries: dict[Key, frozenset[str]] = {}
        _follow(nodes, self._node)
        _follow(pods, self._pod)
        for store in slices:
            _follow(store, self._slice)

    @property
    def nodes(self) -> frozenset[str]:
        """The names of all Nodes."""
        return self._nodes.given()

    def marked(self, owner: NodeSet) -> frozenset[str]:
        """Nodes that carry the claim of the set, or its labels where the claim was lost."""
        found = [given for mark in (owner.metadata.uid, str(owner.key)) if (given := _given(self._marked, mark))]
        return found[0] if len(found) == 1 else frozenset().union(*found)

    def pods(self, owner: NodeSet) -> Mapping[str, Pod]:
        """The Pods of a NodeSet, by name."""
        return self._pods.get((owner.metadata.namespace, owner.metadata.uid), _NO_PODS)

    def pod_names(self, owner: NodeSet) -> frozenset[str]:
        return _given(self._pod_names, (owner.metadata.namespace, owner.metadata.uid))

    def entries(self, key: Key) -> frozenset[str]:
        """The names that stand in a slice."""
        return self._entries.get(key, frozenset())

    def _node(self, key: Key, before: Node | None, after: Node | None) -> None:
        self._nodes.put(key.name, there=after is not None)
        old, new = ("" if node is None else marked_by(node) for node in (before, after))
        _move(self._marked, key.name, old or None, new or None)

    def _pod(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        old, new = (_owner(pod) for pod in (before, after))
        _move(self._pod_names, key.name, old, new)
        if old and old != new and (held := self._pods.get(old)) is not None:
            held.pop(key.name, None)
            if not held:
                del self._pods[old]
        if new and after is not None:
            self._pods.setdefault(new, {})[key.name] = after

    def _slice(self, key: Key, _: NodeSlice | None, after: NodeSlice | None) -> None:
        if after is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = frozenset(entry.name for entry in after.spec.entries)


def _follow(store: Store[R], hear: Subscriber[R]) -> None:
    for record in store.all():
        hear(record.key, None, record)
    store.subscribe(hear)


def _owner(pod: Pod | None) -> _Owner | None:
    return (pod.metadata.namespace, owner_uid(pod)) if pod is not None and owner_uid(pod) else None


def _move(names: dict[OwnerT, NameSet], name: str, old: OwnerT | None, new: OwnerT | None) -> None:
    if old and old != new and (held := names.get(old)) is not None:
        held.put(name, there=False)
        if not held:
            del names[old]
    if new:
        names.setdefault(new, NameSet()).put(name, there=True)


def _given(names: Mapping[OwnerT, NameSet], owner: OwnerT) -> frozenset[str]:
    found = names.get(owner)
    return frozenset() if found is None else found.given()
