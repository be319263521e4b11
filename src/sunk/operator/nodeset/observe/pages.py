"""The members of one NodeSet as they were read last, slice by slice.

A survey comes at every change, and a change mostly concerns one member of thousands. So what was read of a slice is
kept together with the very record that it was read from, and is dropped when a store tells of another Node or Pod that
it speaks of. What depends on anything else, such as the time or whether another set exists, is never kept.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import starmap, zip_longest

from msgspec import Struct, field

from sunk.kube.core import Node
from sunk.model.nodeslice import Entry
from sunk.objects.members import NodeSlice
from sunk.operator.nodeset.observe.member import Member
from sunk.operator.nodeset.observe.members import Group


class Known(Struct, frozen=True, gc=False):
    """A member, and the Node that it was made from."""

    node: Node
    member: Member


class Page(Struct, dict=True):
    """What one slice says, and what was found of it."""

    source: NodeSlice
    entries: tuple[Entry, ...]
    """Those of the slice that stand in no earlier one."""
    known: Mapping[str, Known] = field(default_factory=dict)
    """Members that can be given out again as long as the same records are there of them."""
    group: Group | None = None
    """All of them, as long as nobody has told of a change."""

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries)

    @property
    def whole(self) -> bool:
        return len(self.entries) == len(self.source.spec.entries)

    def read(self, group: Group, known: Mapping[str, Known]) -> None:
        self.known = known
        self.group = group if len(known) == len(group) else None


class Pages:
    def __init__(self) -> None:
        self._pages: dict[str, Page] = {}
        self._released: frozenset[str] = frozenset()
        self._opened: tuple[Page, ...] = ()
        self.names: frozenset[str] = frozenset()
        """All that stand in the slices that were opened last."""

    def node_changed(self, name: str) -> None:
        for page in self._pages.values():
            if page.group is not None and name in page.group.nodes:
                page.group = None

    def pod_changed(self, name: str) -> None:
        for page in self._pages.values():
            if name in page.names:
                page.group = None

    def opened(self, slices: Iterable[NodeSlice], *, released: frozenset[str]) -> tuple[Page, ...]:
        """Open the slices, which come in their order; those without a group are to be read."""
        if released == self._released and all(starmap(_is_as_read, zip_longest(self._opened, slices))):
            return self._opened
        before, self._pages = self._pages, {}
        seen: set[str] = set()
        for one in slices:
            page = _opened(one, before.get(one.metadata.name), seen)
            if released != self._released:
                page.group = None
            seen |= page.names
            self._pages[one.metadata.name] = page
        self._released, self._opened, self.names = released, tuple(self._pages.values()), frozenset(seen)
        return self._opened


def _is_as_read(page: Page | None, one: NodeSlice | None) -> bool:
    return page is not None and page.source is one


def _opened(one: NodeSlice, before: Page | None, seen: set[str]) -> Page:
    if before is not None and before.source is one and before.whole and seen.isdisjoint(before.names):
        return before
    # An entry on its way from one slice to another is in both for a moment: the earlier one counts.
    entries: dict[str, Entry] = {}
    for entry in one.spec.entries:
        if entry.name not in seen:
            entries.setdefault(entry.name, entry)
    return Page(one, tuple(entries.values()), known={} if before is None else before.known)
