"""The members of one NodeSet, read slice by slice: the Pod of each, whether its Node still fits, and how long it is missing.

A snapshot comes at every change, and a change mostly concerns one member of thousands. So what was read of a slice is
kept together with the very record that it was read from, and is dropped when a store tells of another Node or Pod that
it speaks of. What depends on anything else, such as the time or whether another set exists, is never kept.

A Node that registers again is gone for a moment, and its member must not leave for that. Since when it is missing is
written in its entry, so that a new leader goes on counting; otherwise leaders that keep dying would put it off for ever.
A Node that was there in between begins to be missing from zero: whoever leads takes the date off, and what this process
has seen itself counts too, since the Node may have been there while nobody led.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from itertools import starmap, zip_longest
from typing import Final

from msgspec import Struct, field

from sunk.kube.cache.store import Store
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NodeSet, NodeSlice, claim_of, claimed_for
from sunk.operator.nodeset.observe.fit import FitCache
from sunk.operator.nodeset.observe.members import Member, MemberGroup


class KnownMember(Struct, frozen=True, gc=False):
    """A member, and the Node that it was made from."""

    node: Node
    member: Member


class SliceView(Struct, dict=True):
    """What one slice says, and what was found of it."""

    source: NodeSlice
    entries: tuple[Entry, ...]
    """Those of the slice that stand in no earlier one."""
    known: Mapping[str, KnownMember] = field(default_factory=dict)
    """Members that can be given out again as long as the same records are there of them."""
    group: MemberGroup | None = None
    """All of them, as long as nobody has told of a change."""

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries)

    @property
    def whole(self) -> bool:
        return len(self.entries) == len(self.source.spec.entries)

    def read(self, group: MemberGroup, known: Mapping[str, KnownMember]) -> None:
        self.known = known
        self.group = group if len(known) == len(group) else None


class SliceCache:
    def __init__(self) -> None:
        self._views: dict[str, SliceView] = {}
        self._released: frozenset[str] = frozenset()
        self._opened: tuple[SliceView, ...] = ()
        self.names: frozenset[str] = frozenset()
        """All that stand in the slices that were opened last."""

    def node_changed(self, name: str) -> None:
        for view in self._views.values():
            if view.group is not None and name in view.group.nodes:
                view.group = None

    def pod_changed(self, name: str) -> None:
        for view in self._views.values():
            if name in view.names:
                view.group = None

    def opened(self, slices: Iterable[NodeSlice], *, released: frozenset[str]) -> tuple[SliceView, ...]:
        """Open the slices, which come in their order; those without a group are to be read."""
        if released == self._released and all(starmap(_is_as_read, zip_longest(self._opened, slices))):
            return self._opened
        before, self._views = self._views, {}
        seen: set[str] = set()
        for one in slices:
            view = _opened(one, before.get(one.metadata.name), seen)
            if released != self._released:
                view.group = None
            seen |= view.names
            self._views[one.metadata.name] = view
        self._released, self._opened, self.names = released, tuple(self._views.values()), frozenset(seen)
        return self._opened


def _is_as_read(view: SliceView | None, one: NodeSlice | None) -> bool:
    return view is not None and view.source is one


def _opened(one: NodeSlice, before: SliceView | None, seen: set[str]) -> SliceView:
    if before is not None and before.source is one and before.whole and seen.isdisjoint(before.names):
        return before
    # An entry on its way from one slice to another is in both for a moment: the earlier one counts.
    entries: dict[str, Entry] = {}
    for entry in one.spec.entries:
        if entry.name not in seen:
            entries.setdefault(entry.name, entry)
    return SliceView(one, tuple(entries.values()), known={} if before is None else before.known)


GRACE: Final = 60.0
"""Seconds for which a Node may be missing before its member leaves."""


class MissingNodes:
    def __init__(self, nodes: Store[Node], *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._went: dict[str, float] = {}
        """When we saw a Node go, by the loop's clock; a while ago they are of no interest any more."""
        nodes.subscribe(self._hear)

    def left(self, missing: Iterable[Entry]) -> Mapping[str, float]:
        """How many seconds the Nodes of these entries may still be missing, by Node; less than none if it is over."""
        now = self._now()
        self._forget()
        return {entry.node: GRACE - self._absent(entry, now) for entry in missing}

    def _absent(self, entry: Entry, now: datetime) -> float:
        """For how many seconds a Node has been missing. A date that is ahead of us is no more than now."""
        if entry.absent_since is None:
            return 0.0
        told = max((now - entry.absent_since) / timedelta(seconds=1), 0.0)
        seen = self._went.get(entry.node)
        return told if seen is None else min(told, _loop() - seen)

    def _hear(self, key: Key, before: Node | None, after: Node | None) -> None:
        if after is None and before is not None:
            self._went[key.name] = _loop()
        else:
            self._went.pop(key.name, None)

    def _forget(self) -> None:
        old = _loop() - 2 * GRACE
        self._went = {node: at for node, at in self._went.items() if at > old}


def _loop() -> float:
    return loopclock.now()


class MemberReader:
    """Makes members of entries; those about whom nothing has changed are the same objects as before."""

    def __init__(  # noqa: PLR0913 - one for each thing that a member is made of
        self,
        owner: NodeSet,
        fit_cache: FitCache,
        *,
        nodes: Store[Node],
        is_free: Callable[[Node], bool],
        pods: Mapping[str, Pod],
        released: Container[str],
        left: Mapping[str, float],
    ) -> None:
        self._owner = owner
        self._fit_cache = fit_cache
        self._nodes = nodes
        self._is_free = is_free
        self._pods = pods
        self._released = released
        self._left = left

    def group(self, view: SliceView) -> MemberGroup:
        if view.group is not None:
            return view.group
        known: dict[str, KnownMember] = {}
        found = MemberGroup([self._member(entry, view.known.get(entry.name), known) for entry in view.entries])
        view.read(found, known)
        return found

    def unrecorded(self, entries: Iterable[Entry]) -> MemberGroup:
        return MemberGroup([self._member(entry, None, {}) for entry in entries])

    def _member(self, entry: Entry, before: KnownMember | None, known: dict[str, KnownMember]) -> Member:
        node = self._nodes.get(Key("", entry.node))
        pod, free = self._pods.get(entry.name), entry.name in self._released
        if before is not None and before.node is node:
            member = before.member
            if member.entry is entry and member.pod is pod and member.released is free:
                known[entry.name] = before
                return member
        claimed = node is None or self._is_claimed(node, entry.name)
        traits = None if node is None else self._fit_cache.features(node)
        member = Member(entry, pod, self._why(entry, node), free, claimed, traits, absent=node is None)
        # What is not in these records cannot be remembered with them: the time, and whether another set exists.
        if node is not None and claim_of(node) in {"", self._fit_cache.uid}:
            known[entry.name] = KnownMember(node, member)
        return member

    def _is_claimed(self, node: Node, name: str) -> bool:
        """The Node is marked as ours, or belongs to another set and cannot be."""
        return claimed_for(node, self._owner, name) or not self._is_ours_or_free(node)

    def _is_ours_or_free(self, node: Node) -> bool:
        return claim_of(node) == self._fit_cache.uid or self._is_free(node)

    def _why(self, entry: Entry, node: Node | None) -> str:
        """Why the Node of a member does not fit."""
        if node is None:
            return "" if self._left[entry.node] > 0 else "its Node is gone"
        if not self._is_ours_or_free(node):
            return "its Node belongs to another NodeSet"
        if self._fit_cache.demand is None and entry.state == "leaving":
            return entry.reason or "leaving"
        return self._fit_cache.why_not(node)
