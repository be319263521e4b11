"""Read the stores for one NodeSet: its members and what is there of them, and the Nodes that could join."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Final

from msgspec import Struct

from sunk.kube.cache.collection import Collection
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key
from sunk.model.names import NAMESPACE, NODESET
from sunk.model.nodeslice import Entry
from sunk.objects.computepods import node_of
from sunk.objects.nodesets import NodeSet, NodeSlice, claim_of, index_value, number_of, owner_uid
from sunk.operator.nodeset.observe.fit import Demand, FitCache
from sunk.operator.nodeset.observe.index import OwnerIndex
from sunk.operator.nodeset.observe.members import MemberList, SetDifference
from sunk.operator.nodeset.observe.names import NOT_YET, NameRefused, UsedNames, decided, names_for
from sunk.operator.nodeset.observe.reader import MemberReader, MissingNodes, SliceCache
from sunk.service.scoped import Scoped

SOON: Final = 1.0
"""Seconds after which to look again for a name that is about to be free."""
_PIECES: Final = re.compile(r"(\D*)(\d*)")


class Candidate(Struct, frozen=True, gc=False):
    """A Node that could join, and what it would be called."""

    node: str
    name: str


class Snapshot(Struct, frozen=True):
    """What there is of a NodeSet at one moment."""

    members: MemberList
    candidates: tuple[Candidate, ...]
    slices: tuple[NodeSlice, ...]
    """As they were read: they are written on the condition that they still are so."""
    recorded: bool
    """Every member stands in one of them, and in one only."""
    refused: tuple[tuple[str, str], ...]
    """Nodes that fit and cannot be named, and why."""
    unreadable: tuple[tuple[str, str], ...]
    """Nodes that do not fit because something about them cannot be read, and what."""
    claimed: frozenset[str]
    """Nodes that carry the claim of the set, or only its labels."""
    wait: float | None
    """Seconds until there may be something to do though nobody says so: a Node has been missing for long, or a name is
    free."""
    claimed_by: tuple[str, ...] = ()
    """Other NodeSets that have Nodes which would fit, each with their number. Only looked for where none is left."""

    @property
    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Members that Slurm does not let go, and why."""
        return tuple((each.name, each.reason) for one in self.slices for each in one.status.refused)


class _SetCache:
    """What is known of a set from the snapshot before."""

    def __init__(self, fit_cache: FitCache) -> None:
        self.fit_cache = fit_cache
        self.slice_cache = SliceCache()
        self.members: MemberList | None = None
        self.outside = SetDifference()
        self.unrecorded = SetDifference()


class Observer:
    """Takes snapshots of NodeSets. What has not changed since the last one is not read again."""

    def __init__(
        self,
        *,
        sets: Scoped[NodeSet],
        slices: Scoped[NodeSlice],
        nodes: Collection[Node],
        pods: Collection[Pod],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sets = sets
        self._slices = slices
        self._nodes = nodes
        self._pods = pods
        self._set_caches: dict[str, _SetCache] = {}
        self._reserved_names: set[tuple[str, str, str]] = set()
        self._missing_nodes = MissingNodes(nodes.store, now=now)
        shards = [collection.store for collection in slices.collections]
        self._index = OwnerIndex(nodes=nodes.store, pods=pods.store, slices=shards)
        nodes.store.subscribe(self._node_changed)
        pods.store.subscribe(self._pod_changed)
        for collection in sets.collections:
            collection.store.subscribe(self._set_changed)

    def forget(self, uid: str) -> None:
        """Forget a NodeSet that is no more."""
        self._set_caches.pop(uid, None)

    def _node_changed(self, key: Key, _: Node | None, after: Node | None) -> None:
        for cache in self._set_caches.values():
            cache.slice_cache.node_changed(key.name)
            (cache.fit_cache.forget if after is None else cache.fit_cache.changed)(key.name)

    def _pod_changed(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        for pod in filter(None, (before, after)):
            cache = self._set_caches.get(owner_uid(pod))
            if cache is not None and cache.fit_cache.namespace == key.namespace:
                cache.slice_cache.pod_changed(key.name)
            for cache in self._set_caches.values():
                cache.fit_cache.changed(pod.spec.node_name)

    def _set_changed(self, _: Key, before: NodeSet | None, after: NodeSet | None) -> None:
        if before is None or after is None or before.metadata.uid != after.metadata.uid:
            for cache in self._set_caches.values():
                cache.fit_cache.sets_changed()

    def _exists(self, namespace: str, uid: str) -> bool:
        return any(one.metadata.namespace == namespace for one in self._sets.by("uid", uid))

    def snapshot(self, owner: NodeSet, demand: Demand | None) -> Snapshot:
        """Look. Without a demand nothing is known of which Nodes fit: none may join, and who is leaving goes on."""
        cache = self._set_cache(owner, demand)
        slices = _in_order(self._slices.by("owner", index_value(owner)))
        members, left = self._members(owner, cache, slices)
        refused: list[tuple[str, str]] = []
        candidates = tuple(self._candidates(owner, cache, members.nodes, refused)) if demand else ()
        waits = [wait for wait in left.values() if wait > 0]
        # Whose slice has to change for it is another set's, perhaps: nobody would call us.
        waits += [SOON] * any(why == NOT_YET for _, why in refused)
        return Snapshot(
            members=members,
            candidates=candidates,
            slices=slices,
            recorded=len(members) == len(cache.slice_cache.names) == sum(len(one.spec.entries) for one in slices),
            refused=tuple((node, why) for node, why in refused if why != NOT_YET),
            unreadable=cache.fit_cache.unreadable,
            claimed=self._index.marked(owner),
            claimed_by=self._claimants(cache.fit_cache) if demand and not (candidates or len(members)) else (),
            wait=min(waits, default=None),
        )

    def _set_cache(self, owner: NodeSet, demand: Demand | None) -> _SetCache:
        uid = owner.metadata.uid
        found = self._set_caches.get(uid)
        if found is None or not found.fit_cache.is_for(owner, demand):
            found = self._set_caches[uid] = _SetCache(FitCache(owner, demand, exists=self._exists))
        return found

    # Members

    def _members(
        self, owner: NodeSet, cache: _SetCache, slices: Sequence[NodeSlice]
    ) -> tuple[MemberList, Mapping[str, float]]:
        """The members, and for how long those of them whose Nodes are missing may still stay."""
        released = _released(slices)
        views = cache.slice_cache.opened(slices, released=released)
        unrecorded = self._unrecorded(owner, cache)
        unread = [view.entries for view in views if view.group is None]
        # A page that needs not be read again misses no Node: who does is never kept.
        nodes = self._index.nodes
        left = self._missing_nodes.left(entry for entry in chain(*unread, unrecorded) if entry.node not in nodes)
        reader = MemberReader(
            owner,
            cache.fit_cache,
            nodes=self._nodes.store,
            pods=self._index.pods(owner),
            is_free=self.is_free,
            released=released,
            left=left,
        )
        groups = [*map(reader.group, views), reader.unrecorded(unrecorded)]
        cache.members = MemberList.of(groups, before=cache.members)
        return cache.members, left

    def _unrecorded(self, owner: NodeSet, cache: _SetCache) -> tuple[Entry, ...]:
        """Entries for Pods that have none: they were made by a leader that died before it could write the entry."""
        pods = self._index.pods(owner)
        unknown = cache.unrecorded.between(self._index.pod_names(owner), cache.slice_cache.names)
        found = ((name, node_of(pods[name])) for name in sorted(unknown))
        return tuple(Entry(name=name, node=node) for name, node in found if node)

    @contextmanager
    def reserve_names(self, owner: NodeSet, names: Iterable[str]) -> Iterator[None]:
        """Keep names from others until they stand in a slice: two sets may join at the same time."""
        held = [(owner.metadata.namespace, owner.spec.cluster, name) for name in names]
        self._reserved_names.update(held)
        try:
            yield
        finally:
            self._reserved_names.difference_update(held)

    def is_free(self, node: Node) -> bool:
        """No NodeSet claims the Node, or none that there is and that we would see."""
        claim = claim_of(node)
        if not claim:
            return True
        from_there = node.metadata.labels.get(NAMESPACE, "")
        return self._sets.covers(from_there) and not self._sets.by("uid", claim)

    # Nodes that could join

    def _candidates(
        self, owner: NodeSet, cache: _SetCache, here: frozenset[str], refused: list[tuple[str, str]]
    ) -> Iterator[Candidate]:
        outside = cache.outside.between(self._index.nodes, here) - cache.fit_cache.closed
        near = [node for name in outside if (node := self._nodes.store.get(Key("", name)))]
        found = [node for node in near if self._may_join(node, cache.fit_cache)]
        found.sort(key=lambda node: (_natural(node.metadata.name), node.metadata.name))
        if not found:
            return
        taken = self._taken(owner)
        kept = dict(decided(owner, found, taken))
        name_for = names_for(owner, taken=taken)
        for node in found:
            try:
                yield Candidate(node=node.metadata.name, name=kept.get(node.metadata.name) or name_for(node))
            except NameRefused as why:
                refused.append((node.metadata.name, str(why)))

    def _may_join(self, node: Node, fit_cache: FitCache) -> bool:
        # Fit comes first, since its answer is kept, and who does not fit is not asked about again.
        if not fit_cache.may_join(node, beside=self._pods.store.by("node", node.metadata.name)):
            return False
        if claim_of(node) != fit_cache.uid and not self.is_free(node):
            return False
        return not self.is_member_of_another(node, uid=fit_cache.uid)

    def _claimants(self, fit_cache: FitCache) -> tuple[str, ...]:
        """Whose the Nodes are that would fit, if they were free."""
        found: Counter[str] = Counter()
        for name in self._index.nodes:
            node = self._nodes.store.get(Key("", name))
            if node is None or claim_of(node) == fit_cache.uid or self.is_free(node):
                continue
            if not fit_cache.why_not(node):
                label = node.metadata.labels.get
                found[f"{label(NAMESPACE, '?')}/{label(NODESET, '?')}"] += 1
        return tuple(f"{whose} ({number})" for whose, number in sorted(found.items()))

    def is_member_of_another(self, node: Node, *, uid: str) -> bool:
        """Another NodeSet has it as a member. A Node that registers again has lost its claim, but not its place."""
        slices = self._slices.by("node", node.metadata.name)
        owners = {(one.metadata.namespace, owner_uid(one)) for one in slices}
        return any(self._exists(namespace, owner) for namespace, owner in owners if owner != uid)

    def _taken(self, owner: NodeSet) -> UsedNames:
        """Names in use in the same namespace, where Pods have to differ, or the same cluster, where nodes have to.

        One that was released is in use until the syncer has taken it off the list; else it would be released already
        when it is the next one's turn to leave.
        """
        at, cluster = owner.metadata.namespace, owner.spec.cluster

        def near(namespace: str, other: str) -> bool:
            return namespace == at or (bool(cluster) and other == cluster)

        slices = [one for one in self._slices.all() if near(one.metadata.namespace, one.spec.cluster)]
        names = set[str]().union(*(self._index.entries(one.key) for one in slices))
        names.update(name for namespace, other, name in self._reserved_names if near(namespace, other))
        pods = self._pods.store
        return UsedNames(names, released=_released(slices), also=lambda name: Key(at, name) in pods)


def _in_order(slices: Iterable[NodeSlice]) -> tuple[NodeSlice, ...]:
    """The slices that we have made, by their numbers."""
    numbered = [(number, one) for one in slices if (number := number_of(one)) is not None]
    return tuple(one for _, one in sorted(numbered, key=lambda pair: pair[0]))


def _released(slices: Iterable[NodeSlice]) -> frozenset[str]:
    return frozenset(name for one in slices for name in one.status.released)


@lru_cache(maxsize=1 << 16)
def _natural(name: str) -> tuple[tuple[str, int], ...]:
    """Sort node-2 before node-10."""
    return tuple((text, int(digits or 0)) for text, digits in _PIECES.findall(name))
