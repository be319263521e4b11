"""Whose names are ours: the entries of all NodeSlices of this cluster, by name.

Slices hold up to a hundred entries each, and most questions are about one name. So the entries are kept by name as the
slices change, and subscribers are called with names, each only if its own entry differs.

An entry that moves from one slice to another is added there before it is removed here, so for a moment two slices hold
the name. While they disagree, the one that is not leaving counts: upon the other, a record of Slurm would be deleted.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from sunk.kube.cache.store import Store
from sunk.kube.resource import Key
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NodeSlice

Subscriber = Callable[[str], None]


class Member(Struct, frozen=True, gc=False):
    """An entry, and where it stands."""

    entry: Entry
    slice: Key
    node_set: str
    node_set_uid: str

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def leaving(self) -> bool:
        return self.entry.state == "leaving"


class Members:
    """The members of one cluster, followed for as long as the store of slices is."""

    def __init__(self, slices: Store[NodeSlice], *, cluster: str) -> None:
        self._cluster: Final = cluster
        self._held: dict[str, Member] = {}
        self._contested: dict[str, dict[Key, Member]] = {}
        """Only names that more than one slice holds."""
        self._leaving: dict[str, None] = {}
        self._subscribers: list[Subscriber] = []
        for node_slice in slices.all():
            self._on_slice(node_slice.key, None, node_slice)
        slices.subscribe(self._on_slice)

    def get(self, name: str) -> Member | None:
        return self._held.get(name)

    def all(self) -> tuple[Member, ...]:
        return tuple(self._held.values())

    def leaving(self) -> tuple[Member, ...]:
        """Those on their way out, in time that depends on their number only."""
        return tuple(self._held[name] for name in self._leaving)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call it with each name whose member changed, came or went. Returns how to unsubscribe."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    # What the slices say

    def _on_slice(self, key: Key, before: NodeSlice | None, after: NodeSlice | None) -> None:
        old, new = self._members_of(key, before), self._members_of(key, after)
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        for name in changed:
            self._put(name, key, new.get(name))
        for name in changed:  # once the whole slice is in place
            for subscriber in tuple(self._subscribers):
                subscriber(name)

    def _members_of(self, key: Key, node_slice: NodeSlice | None) -> dict[str, Member]:
        if node_slice is None or node_slice.spec.cluster != self._cluster:
            return {}
        owner, uid = node_slice.spec.node_set, node_slice.spec.node_set_uid
        return {entry.name: Member(entry, key, owner, uid) for entry in node_slice.spec.entries}

    def _put(self, name: str, key: Key, member: Member | None) -> None:
        claims = self._claims(name)
        if member is None:
            claims.pop(key, None)
        else:
            claims[key] = member
        if len(claims) > 1:
            self._contested[name] = claims
        else:
            self._contested.pop(name, None)
        self._choose(name, claims)

    def _claims(self, name: str) -> dict[Key, Member]:
        """The slices that hold a name; a dict for each of thousands would be held for hardly any."""
        if name in self._contested:
            return self._contested[name]
        held = self._held.get(name)
        return {} if held is None else {held.slice: held}

    def _choose(self, name: str, claims: dict[Key, Member]) -> None:
        self._leaving.pop(name, None)
        if not claims:
            self._held.pop(name, None)
            return
        chosen = min(claims.values(), key=lambda member: (member.leaving, member.slice))
        self._held[name] = chosen
        if chosen.leaving:
            self._leaving[name] = None
