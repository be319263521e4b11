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
from sunk.objects.members import NodeSet, NodeSlice, index_value, owner_uid
from sunk.objects.standing import node_of
from sunk.operator.nodeset.act.claims import claim_of
from sunk.operator.nodeset.decide.feasible import Demand
from sunk.operator.nodeset.decide.fitting import Fitting
from sunk.operator.nodeset.decide.membership import Candidate
from sunk.operator.nodeset.decide.naming import NameRefused
from sunk.operator.nodeset.decide.slices import number_of
from sunk.operator.nodeset.decide.taken import NOT_YET, Taken, decided, names_for
from sunk.operator.nodeset.observe.absence import Absences
from sunk.operator.nodeset.observe.difference import Difference
from sunk.operator.nodeset.observe.index import Register
from sunk.operator.nodeset.observe.members import Company
from sunk.operator.nodeset.observe.pages import Pages
from sunk.operator.nodeset.observe.reading import Reader
from sunk.service.scoped import Scoped

SOON: Final = 1.0
"""Seconds after which to look again for a name that is about to be free."""
_PIECES: Final = re.compile(r"(\D*)(\d*)")


class Survey(Struct, frozen=True):
    """What there is of a NodeSet at one moment."""

    members: Company
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


class _Memory:
    """What is known of a set from the survey before."""

    def __init__(self, fitting: Fitting) -> None:
        self.fitting = fitting
        self.pages = Pages()
        self.members: Company | None = None
        self.outside = Difference()
        self.strangers = Difference()


class Census:
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
        self._memories: dict[str, _Memory] = {}
        self._promises: set[tuple[str, str, str]] = set()
        self._absences = Absences(nodes.store, now=now)
        shards = [one.store for one in slices.collections]
        self._register = Register(nodes=nodes.store, pods=pods.store, slices=shards)
        nodes.store.subscribe(self._node_changed)
        pods.store.subscribe(self._pod_changed)
        for one in sets.collections:
            one.store.subscribe(self._set_changed)

    def forget(self, uid: str) -> None:
        """Forget a NodeSet that is no more."""
        self._memories.pop(uid, None)

    def _node_changed(self, key: Key, _: Node | None, after: Node | None) -> None:
        for memory in self._memories.values():
            memory.pages.node_changed(key.name)
            (memory.fitting.forget if after is None else memory.fitting.changed)(key.name)

    def _pod_changed(self, key: Key, before: Pod | None, after: Pod | None) -> None:
        for pod in filter(None, (before, after)):
            memory = self._memories.get(owner_uid(pod))
            if memory is not None and memory.fitting.namespace == key.namespace:
                memory.pages.pod_changed(key.name)
            for memory in self._memories.values():
                memory.fitting.changed(pod.spec.node_name)

    def _set_changed(self, _: Key, before: NodeSet | None, after: NodeSet | None) -> None:
        if before is None or after is None or before.metadata.uid != after.metadata.uid:
            for memory in self._memories.values():
                memory.fitting.sets_changed()

    def _exists(self, namespace: str, uid: str) -> bool:
        return any(one.metadata.namespace == namespace for one in self._sets.by("uid", uid))

    def take(self, owner: NodeSet, demand: Demand | None) -> Survey:
        """Look. Without a demand nothing is known of which Nodes fit: none may join, and who is leaving goes on."""
        memory = self._memory(owner, demand)
        slices = _in_order(self._slices.by("owner", index_value(owner)))
        members, left = self._members(owner, memory, slices)
        refused: list[tuple[str, str]] = []
        candidates = tuple(self._candidates(owner, memory, members.nodes, refused)) if demand else ()
        waits = [wait for wait in left.values() if wait > 0]
        # Whose slice has to change for it is another set's, perhaps: nobody would call us.
        waits += [SOON] * any(why == NOT_YET for _, why in refused)
        return Survey(
            members=members,
            candidates=candidates,
            slices=slices,
            recorded=len(members) == len(memory.pages.names) == sum(len(one.spec.entries) for one in slices),
            refused=tuple((node, why) for node, why in refused if why != NOT_YET),
            unreadable=memory.fitting.unreadable,
            claimed=self._register.marked(owner),
            claimed_by=self._claimants(memory.fitting) if demand and not (candidates or len(members)) else (),
            wait=min(waits, default=None),
        )

    def _memory(self, owner: NodeSet, demand: Demand | None) -> _Memory:
        uid = owner.metadata.uid
        found = self._memories.get(uid)
        if found is None or not found.fitting.is_for(owner, demand):
            found = self._memories[uid] = _Memory(Fitting(owner, demand, exists=self._exists))
        return found

    # Members

    def _members(
        self, owner: NodeSet, memory: _Memory, slices: Sequence[NodeSlice]
    ) -> tuple[Company, Mapping[str, float]]:
        """The members, and for how long those of them whose Nodes are missing may still stay."""
        released = _released(slices)
        pages = memory.pages.opened(slices, released=released)
        strangers = self._strangers(owner, memory)
        unread = [page.entries for page in pages if page.group is None]
        # A page that needs not be read again misses no Node: who does is never kept.
        nodes = self._register.nodes
        left = self._absences.left(entry for entry in chain(*unread, strangers) if entry.node not in nodes)
        reader = Reader(
            owner,
            memory.fitting,
            nodes=self._nodes.store,
            pods=self._register.pods(owner),
            is_free=self.is_free,
            released=released,
            left=left,
        )
        groups = [*map(reader.group, pages), reader.strangers(strangers)]
        memory.members = Company.of(groups, before=memory.members)
        return memory.members, left

    def _strangers(self, owner: NodeSet, memory: _Memory) -> tuple[Entry, ...]:
        """Entries for Pods that have none: they were made by somebody who died before he could write it down."""
        pods = self._register.pods(owner)
        unknown = memory.strangers.between(self._register.pod_names(owner), memory.pages.names)
        found = ((name, node_of(pods[name])) for name in sorted(unknown))
        return tuple(Entry(name=name, node=node) for name, node in found if node)

    @contextmanager
    def promised(self, owner: NodeSet, names: Iterable[str]) -> Iterator[None]:
        """Keep names from others until they stand in a slice: two sets may join at the same time."""
        held = [(owner.metadata.namespace, owner.spec.cluster, name) for name in names]
        self._promises.update(held)
        try:
            yield
        finally:
            self._promises.difference_update(held)

    def is_free(self, node: Node) -> bool:
        """No NodeSet claims the Node, or none that there is and that we would see."""
        claim = claim_of(node)
        if not claim:
            return True
        from_there = node.metadata.labels.get(NAMESPACE, "")
        return self._sets.covers(from_there) and not self._sets.by("uid", claim)

    # Nodes that could join

    def _candidates(
        self, owner: NodeSet, memory: _Memory, here: frozenset[str], refused: list[tuple[str, str]]
    ) -> Iterator[Candidate]:
        outside = memory.outside.between(self._register.nodes, here) - memory.fitting.closed
        near = [node for name in outside if (node := self._nodes.store.get(Key("", name)))]
        found = [node for node in near if self._may_join(node, memory.fitting)]
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

    def _may_join(self, node: Node, fitting: Fitting) -> bool:
        # Fit comes first, since its answer is kept, and who does not fit is not asked about again.
        if not fitting.may_join(node, beside=self._pods.store.by("node", node.metadata.name)):
            return False
        if claim_of(node) != fitting.uid and not self.is_free(node):
            return False
        return not self.has_place_in_another(node, uid=fitting.uid)

    def _claimants(self, fitting: Fitting) -> tuple[str, ...]:
        """Whose the Nodes are that would fit, if they were free."""
        found: Counter[str] = Counter()
        for name in self._register.nodes:
            node = self._nodes.store.get(Key("", name))
            if node is None or claim_of(node) == fitting.uid or self.is_free(node):
                continue
            if not fitting.why_not(node):
                label = node.metadata.labels.get
                found[f"{label(NAMESPACE, '?')}/{label(NODESET, '?')}"] += 1
        return tuple(f"{whose} ({number})" for whose, number in sorted(found.items()))

    def has_place_in_another(self, node: Node, *, uid: str) -> bool:
        """Another NodeSet has it as a member. A Node that registers anew has lost its claim, but not its place."""
        slices = self._slices.by("node", node.metadata.name)
        owners = {(one.metadata.namespace, owner_uid(one)) for one in slices}
        return any(self._exists(namespace, owner) for namespace, owner in owners if owner != uid)

    def _taken(self, owner: NodeSet) -> Taken:
        """Names in use in the same namespace, where Pods have to differ, or the same cluster, where nodes have to.

        One that was released is in use until the syncer has taken it off the list; else it would be released already
        when it is the next one's turn to leave.
        """
        at, cluster = owner.metadata.namespace, owner.spec.cluster

        def near(namespace: str, other: str) -> bool:
            return namespace == at or (bool(cluster) and other == cluster)

        slices = [one for one in self._slices.all() if near(one.metadata.namespace, one.spec.cluster)]
        names = set[str]().union(*(self._register.entries(one.key) for one in slices))
        names.update(name for namespace, other, name in self._promises if near(namespace, other))
        pods = self._pods.store
        return Taken(names, released=_released(slices), also=lambda name: Key(at, name) in pods)


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
