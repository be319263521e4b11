"""The members of a NodeSet in their order, and those of them that stand out.

Of thousands of members a handful at most is of interest at any look: who leaves, who does not fit, whose Pod has to be
seen to. They are sought group by group, and a group in which nothing has changed is the same object as at the last look
and knows its answers. So a decision takes as long as what it is about, and not as long as the list of members.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import chain
from operator import is_
from typing import Final

from msgspec import Struct

from sunk.operator.nodeset.observe.difference import Difference
from sunk.operator.nodeset.observe.member import Member


class Tally(Struct, frozen=True):
    """How many members are what. `of` and `old` count those that have a Pod, by the template it was made from."""

    there: int = 0
    """Have a Pod."""
    available: int = 0
    """Jobs can be run there, and they are not about to leave."""
    ready: int = 0
    drained: int = 0
    unfit: int = 0
    leaving: int = 0
    ending: int = 0
    """Have a Pod that is being deleted."""
    of: Mapping[str, int] = {}
    staying_of: Mapping[str, int] = {}
    """The same, without those that leave."""

    def old(self, revision: str) -> int:
        """Those that stay with a Pod of another template."""
        return sum(count for found, count in self.staying_of.items() if found != revision)


_NUMBERS: Final = ("there", "available", "ready", "drained", "unfit", "leaving", "ending")


def _tally(members: Iterable[Member]) -> Tally:
    everyone = list(members)
    there = [one for one in everyone if one.pod is not None]
    return Tally(
        there=len(there),
        available=sum(one.available and not one.leaving for one in there),
        ready=sum(one.ready for one in there),
        drained=sum(one.drained for one in there),
        unfit=sum(bool(one.unfit) for one in everyone),
        leaving=sum(one.leaving for one in everyone),
        ending=sum(not one.alive for one in there),
        of=Counter(one.revision for one in there),
        staying_of=Counter(one.revision for one in there if not one.leaving),
    )


def _summed(tallies: list[Tally]) -> Tally:
    of, staying = Counter[str](), Counter[str]()
    for one in tallies:
        of.update(one.of)
        staying.update(one.staying_of)
    numbers = {name: sum(getattr(one, name) for one in tallies) for name in _NUMBERS}
    return Tally(**numbers, of=of, staying_of=staying)


class Group(tuple[Member, ...]):  # noqa: SLOT001 - what it knows has to stand somewhere
    """Some members, mostly those of one slice. What is said of them is worked out once."""

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(one.entry.name for one in self)

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset(one.entry.node for one in self)

    @cached_property
    def leaving(self) -> tuple[Member, ...]:
        return tuple(one for one in self if one.leaving)

    @cached_property
    def unfit(self) -> tuple[Member, ...]:
        return tuple(one for one in self if one.unfit)

    @cached_property
    def unclaimed(self) -> tuple[Member, ...]:
        return tuple(one for one in self if not one.claimed)

    @cached_property
    def undated(self) -> tuple[Member, ...]:
        return tuple(one for one in self if not one.dated)

    @cached_property
    def restless(self) -> tuple[Member, ...]:
        """Those whose Pods have to be seen to, whatever the template is."""
        return tuple(one for one in self if not (one.calm and one.described))

    @cached_property
    def lacking(self) -> int:
        """How many of those that stay cannot run jobs."""
        return sum(not one.available for one in self if one.staying)

    @cached_property
    def tally(self) -> Tally:
        return _tally(self)

    @cached_property
    def revisions(self) -> frozenset[str]:
        """The templates that the Pods were made from."""
        return frozenset(one.revision for one in self if one.pod is not None)


class Company(tuple[Member, ...]):  # noqa: SLOT001 - as above
    """All members, as one sequence."""

    groups: tuple[Group, ...]

    @classmethod
    def of(cls, groups: Iterable[Group], *, before: "Company | None" = None) -> "Company":
        """Put groups together; where they are the same as `before`, that is given out again, and all it knows."""
        parts = tuple(group for group in groups if group)
        if before is not None and len(parts) == len(before.groups) and all(map(is_, parts, before.groups)):
            return before
        found = cls(chain.from_iterable(parts))
        found.groups = parts
        if before is not None and _same_nodes(parts, before.groups):
            # Another Pod is no other member: what was found by comparing Nodes holds as long as this is the same set.
            found.__dict__ |= {key: before.__dict__[key] for key in _OF_NODES if key in before.__dict__}
        return found

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset().union(*(group.nodes for group in self.groups))

    @cached_property
    def leaving(self) -> tuple[Member, ...]:
        return self._all(lambda group: group.leaving)

    @cached_property
    def unfit(self) -> tuple[Member, ...]:
        return self._all(lambda group: group.unfit)

    @cached_property
    def unclaimed(self) -> tuple[Member, ...]:
        return self._all(lambda group: group.unclaimed)

    @cached_property
    def undated(self) -> tuple[Member, ...]:
        """Those whose entries say otherwise than is so about whether their Nodes are missing."""
        return self._all(lambda group: group.undated)

    @cached_property
    def restless(self) -> tuple[Member, ...]:
        return self._all(lambda group: group.restless)

    @cached_property
    def lacking(self) -> int:
        return sum(group.lacking for group in self.groups)

    @cached_property
    def tally(self) -> Tally:
        return _summed([group.tally for group in self.groups])

    @cached_property
    def _without_place(self) -> Difference:
        return Difference()

    def without_place(self, nodes: frozenset[str]) -> frozenset[str]:
        """Those of the Nodes that are no member's."""
        return self._without_place.between(nodes, self.nodes)

    def not_of(self, revision: str) -> tuple[Member, ...]:
        """Those that have a Pod of another template."""
        others = (group for group in self.groups if group.revisions - {revision})
        return tuple(one for group in others for one in group if one.pod is not None and one.revision != revision)

    def changed(self, changes: Mapping[str, Member | None]) -> "Company":
        """The same with some of them, by name, otherwise; or left out, where there is none instead."""
        if not changes:
            return self
        return Company.of(_changed(group, changes) for group in self.groups)

    def _all(self, which: Callable[[Group], tuple[Member, ...]]) -> tuple[Member, ...]:
        return tuple(chain.from_iterable(which(group) for group in self.groups))


_OF_NODES: Final = ("nodes", "_without_place")
"""What is known of a company and follows from the Nodes of its members alone."""


def _same_nodes(some: tuple[Group, ...], others: tuple[Group, ...]) -> bool:
    if len(some) != len(others):
        return False
    return all(one is other or one.nodes == other.nodes for one, other in zip(some, others, strict=True))


def company(members: Iterable[Member]) -> Company:
    """Members that were not sought out by anybody yet."""
    return members if isinstance(members, Company) else Company.of((Group(members),))


def _changed(group: Group, changes: Mapping[str, Member | None]) -> Group:
    if group.names.isdisjoint(changes):
        return group
    meant = (changes.get(one.entry.name, one) for one in group)
    return Group(one for one in meant if one is not None)
