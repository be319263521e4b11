"""Read the stores for one NodeSet: its members and what is there of them, and the Nodes that could join."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sunk.kube.collection import Collection
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key
from sunk.model.names import NAMESPACE, POD
from sunk.model.nodeslice import Entry
from sunk.objects.members import NodeSet, NodeSlice, owner_uid
from sunk.objects.standing import node_of
from sunk.operator.nodeset.absence import Absences
from sunk.operator.nodeset.claims import claim_of, claimed_for
from sunk.operator.nodeset.feasible import Demand
from sunk.operator.nodeset.fitting import Fitting
from sunk.operator.nodeset.membership import Candidate, Member
from sunk.operator.nodeset.naming import NameRefused, address_name, ordinal_names
from sunk.operator.nodeset.slices import number_of, shards
from sunk.service.scoped import Scoped

SOON: Final = 1.0
"""Seconds after which to look again for a name that is about to be free."""
_NOT_YET: Final = "its name was released, and the syncer has not seen yet that the entry is gone"
"""Nothing to complain of: it is a matter of moments."""
_PIECES: Final = re.compile(r"(\D*)(\d*)")


class Survey(Struct, frozen=True):
    """What there is of a NodeSet at one moment."""

    members: tuple[Member, ...]
    candidates: tuple[Candidate, ...]
    slices: tuple[NodeSlice, ...]
    """As they were read: they are written on the condition that they still are so."""
    refused: tuple[tuple[str, str], ...]
    """Nodes that fit and cannot be named, and why."""
    claimed: tuple[str, ...]
    """Nodes that carry the claim of the set, or only its labels."""
    wait: float | None
    """Seconds until there may be something to do though nobody says so: a Node has been missing for long, or a name is
    free."""

    @property
    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Members that Slurm does not let go, and why."""
        return tuple((each.name, each.reason) for one in self.slices for each in one.status.refused)


class _Known(Struct, frozen=True, gc=False):
    """A member, and the Node that it was made from."""

    node: Node
    member: Member


class Census:
    def __init__(
        self, *, sets: Scoped[NodeSet], slices: Scoped[NodeSlice], nodes: Collection[Node], pods: Collection[Pod]
    ) -> None:
        self._sets = sets
        self._slices = slices
        self._nodes = nodes
        self._pods = pods
        self._fitting: dict[str, Fitting] = {}
        self._members: dict[str, dict[str, _Known]] = {}
        self._promises: set[tuple[str, str, str]] = set()
        self._absences = Absences(nodes.store)
        nodes.store.subscribe(self._forget_node)

    def forget(self, uid: str) -> None:
        """Forget a NodeSet that is no more."""
        self._fitting.pop(uid, None)
        self._members.pop(uid, None)
        self._absences.forget(uid)

    def _forget_node(self, key: Key, _: Node | None, after: Node | None) -> None:
        if after is None:
            for fitting in self._fitting.values():
                fitting.forget(key.name)

    def take(self, owner: NodeSet, demand: Demand | None) -> Survey:
        """Look. Without a demand nothing is known of which Nodes fit: none may join, and who is leaving goes on."""
        uid = owner.metadata.uid
        fitting = self._fitting.get(uid)
        if fitting is None or not fitting.is_for(owner, demand):
            fitting = self._fitting[uid] = Fitting(owner, demand)
            self._members.pop(uid, None)
        slices = tuple(one for one in self._slices.by("owner", uid) if number_of(one) is not None)
        pods = {pod.metadata.name: pod for pod in self._pods.store.by("owner", uid)}
        marked = self._marked(owner)
        get = self._nodes.store.get
        places = [(entry, marked.get(entry.node) or get(Key("", entry.node))) for entry in _entries(slices, pods)]
        left = self._absences.note(uid, (entry.node for entry, node in places if node is None))
        here = {entry.node for entry, _ in places}
        refused: list[tuple[str, str]] = []
        candidates = tuple(self._candidates(owner, fitting, here, refused)) if demand else ()
        waits = [wait for wait in left.values() if wait > 0]
        # Whose slice has to change for it is another set's, perhaps: nobody would call us.
        waits += [SOON] * any(why == _NOT_YET for _, why in refused)
        return Survey(
            members=self._seen(owner, fitting, places, pods=pods, released=_released(slices), left=left),
            candidates=candidates,
            slices=slices,
            refused=tuple((node, why) for node, why in refused if why != _NOT_YET),
            claimed=tuple(marked),
            wait=min(waits, default=None),
        )

    @contextmanager
    def promised(self, owner: NodeSet, names: Iterable[str]) -> Iterator[None]:
        """Keep names from others until they stand in a slice: two sets may join at the same time."""
        held = [(owner.metadata.namespace, owner.spec.cluster, name) for name in names]
        self._promises.update(held)
        try:
            yield
        finally:
            self._promises.difference_update(held)

    # Members

    def _marked(self, owner: NodeSet) -> dict[str, Node]:
        """Nodes that carry the claim of the set, or its labels where the claim was lost, by name."""
        marks = (owner.metadata.uid, str(owner.key))
        return {node.metadata.name: node for mark in marks for node in self._nodes.store.by("claim", mark)}

    def _seen(  # noqa: PLR0913 - one for each thing that a member is made of
        self,
        owner: NodeSet,
        fitting: Fitting,
        places: Iterable[tuple[Entry, Node | None]],
        *,
        pods: Mapping[str, Pod],
        released: Container[str],
        left: Mapping[str, float],
    ) -> tuple[Member, ...]:
        """The members; those about whom nothing has changed as the same objects as before."""
        before, now = self._members.get(owner.metadata.uid, {}), {}
        members = []
        for entry, node in places:
            name = entry.name
            pod, free = pods.get(name), name in released
            known = before.get(name)
            if known is not None and known.node is node:
                member = known.member
                if member.entry is entry and member.pod is pod and member.released is free:
                    now[name] = known
                    members.append(member)
                    continue
            why = self._why(entry, node, left, fitting)
            claimed = node is None or self._is_claimed(node, owner, name)
            traits = None if node is None else fitting.features(node)
            members.append(member := Member(entry, pod, why, free, claimed, traits))
            # What is not in these records cannot be remembered with them: the time, and whether another set exists.
            if node is not None and claim_of(node) in {"", fitting.uid}:
                now[name] = _Known(node, member)
        self._members[owner.metadata.uid] = now
        return tuple(members)

    def _is_claimed(self, node: Node, owner: NodeSet, name: str) -> bool:
        """The Node is marked as ours, or belongs to another set and cannot be."""
        return claimed_for(node, owner, name) or not (claim_of(node) == owner.metadata.uid or self.is_free(node))

    def _why(self, entry: Entry, node: Node | None, left: Mapping[str, float], fitting: Fitting) -> str:
        """Why the Node of a member does not fit."""
        if node is None:
            return "" if left[entry.node] > 0 else "its Node is gone"
        if claim_of(node) != fitting.uid and not self.is_free(node):
            return "its Node belongs to another NodeSet"
        if fitting.demand is None and entry.state == "leaving":
            return entry.reason or "leaving"
        return fitting.why_not(node)

    def is_free(self, node: Node) -> bool:
        """No NodeSet claims the Node, or none that there is and that we would see."""
        claim = claim_of(node)
        if not claim:
            return True
        from_there = node.metadata.labels.get(NAMESPACE, "")
        return self._sets.covers(from_there) and not self._sets.by("uid", claim)

    # Nodes that could join

    def _candidates(
        self, owner: NodeSet, fitting: Fitting, here: Container[str], refused: list[tuple[str, str]]
    ) -> Iterator[Candidate]:
        found = [node for node in self._nodes.store.all() if node.metadata.name not in here]
        found = [node for node in found if self._may_join(node, fitting)]
        if not found:
            return
        taken = self._taken(owner)
        decided = dict(_decided(owner, found, taken))
        name_for = _names(owner, taken=taken)
        for node in sorted(found, key=lambda node: _natural(node.metadata.name)):
            try:
                yield Candidate(node=node.metadata.name, name=decided.get(node.metadata.name) or name_for(node))
            except NameRefused as why:
                refused.append((node.metadata.name, str(why)))

    def _may_join(self, node: Node, fitting: Fitting) -> bool:
        name = node.metadata.name
        if claim_of(node) != fitting.uid and not self.is_free(node):
            return False
        if not fitting.may_join(node, beside=self._pods.store.by("node", name)):
            return False
        return not self.has_place_in_another(node, uid=fitting.uid)

    def has_place_in_another(self, node: Node, *, uid: str) -> bool:
        """Another NodeSet has it as a member. A Node that registers anew has lost its claim, but not its place."""
        owners = {owner_uid(one) for one in self._slices.by("node", node.metadata.name)} - {uid}
        return any(self._sets.by("uid", owner) for owner in owners)

    def _taken(self, owner: NodeSet) -> "_Taken":
        """Names in use in the same namespace, where Pods have to differ, or the same cluster, where nodes have to.

        One that was released is in use until the syncer has taken it off the list; else it would be released already
        when it is the next one's turn to leave.
        """
        at, cluster = owner.metadata.namespace, owner.spec.cluster

        def near(namespace: str, other: str) -> bool:
            return namespace == at or (bool(cluster) and other == cluster)

        slices = [one for one in self._slices.all() if near(one.metadata.namespace, one.spec.cluster)]
        names = {entry.name for one in slices for entry in one.spec.entries}
        names.update(name for namespace, other, name in self._promises if near(namespace, other))
        pods = self._pods.store
        return _Taken(names, released=_released(slices), also=lambda name: Key(at, name) in pods)


class _Taken:
    """Names in use, some of which are only looked up when they are asked for."""

    def __init__(self, names: set[str], *, released: set[str], also: Callable[[str], bool]) -> None:
        self._names = names
        self._also = also
        self.released = released - names

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._names or name in self.released or self._also(name))

    def add(self, name: str) -> None:
        self._names.add(name)


def _decided(owner: NodeSet, nodes: Iterable[Node], taken: _Taken) -> Iterator[tuple[str, str]]:
    """The names of Nodes that were claimed by somebody who died right after it: their Pods may be on the way."""
    prefix = owner.spec.pod_name_prefix or owner.metadata.name
    for node in nodes:
        name = node.metadata.labels.get(POD, "")
        if claim_of(node) == owner.metadata.uid and name.startswith(f"{prefix}-") and name not in taken:
            taken.add(name)
            yield node.metadata.name, name


def _names(owner: NodeSet, *, taken: _Taken) -> Callable[[Node], str]:
    """Give each Node a name that is not taken, or refuse one that has none."""
    prefix = owner.spec.pod_name_prefix or owner.metadata.name
    ordinals = ordinal_names(prefix, taken)

    def by_address(node: Node) -> str:
        name = address_name(prefix, node)
        if name in taken.released:
            raise NameRefused(_NOT_YET)
        if name in taken:
            raise NameRefused(f"the name {name} is in use: set another podNamePrefix, or naming: ordinal")
        taken.add(name)
        return name

    return by_address if owner.spec.naming == "address" else lambda _: next(ordinals)


def _released(slices: Iterable[NodeSlice]) -> set[str]:
    return {name for one in slices for name in one.status.released}


def _entries(slices: Iterable[NodeSlice], pods: Mapping[str, Pod]) -> Iterator[Entry]:
    """Who is a member, each once: an entry on its way from one slice to another is in both for a moment."""
    entries: dict[str, Entry] = {}
    for shard in shards(slices):
        for entry in shard.entries:
            entries.setdefault(entry.name, entry)
    yield from entries.values()
    # A Pod without an entry was made by somebody who died before he could write it down.
    for name, pod in pods.items():
        if name not in entries and (node := node_of(pod)):
            yield Entry(name=name, node=node)


@lru_cache(maxsize=1 << 16)
def _natural(name: str) -> tuple[tuple[str, int], ...]:
    """Sort node-2 before node-10."""
    return tuple((text, int(digits or 0)) for text, digits in _PIECES.findall(name))
