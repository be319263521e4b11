"""The members of a NodeSet in their order, and those of them that stand out.

A member is an entry in a slice, and what is there of it. Of thousands of members a handful at most matters at any
reconcile: who leaves, who does not fit, whose Pod needs something. They are sought group by group, and a group in which
nothing has changed is the same object as in the last snapshot and knows its answers. So a decision takes as long as what
it is about, and not as long as the list of members.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import chain
from operator import is_
from typing import Final

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.model.names import FEATURES, RESTART
from sunk.model.nodeslice import Entry
from sunk.objects.computepods import drained, finished, pending_deletion, ready, revision, start_failure, terminating


class Member(Struct, frozen=True, dict=True):
    """An entry, what is there, and why its Node does not fit: empty if it does, or if nobody knows.

    The same object is given out as long as nothing about it changes, so what it says is worked out once.
    """

    entry: Entry
    pod: Pod | None = None
    unfit: str = ""
    released: bool = False
    claimed: bool = True
    """Its Node carries the claim of the set, as far as that can be."""
    features: str | None = None
    """The Slurm features that its Pod shall carry; none if nobody knows, since its Node is not there."""
    absent: bool = False
    """Its Node is missing."""

    @cached_property
    def leaving(self) -> bool:
        return self.entry.state == "leaving"

    @cached_property
    def staying(self) -> bool:
        return self.entry.state == "joined"

    @cached_property
    def absence_recorded(self) -> bool:
        """Its entry says since when its Node is missing, if and only if it is."""
        return self.absent is (self.entry.absent_since is not None)

    @cached_property
    def alive(self) -> bool:
        return self.pod is not None and not terminating(self.pod)

    @cached_property
    def ready(self) -> bool:
        return self.pod is not None and ready(self.pod)

    @cached_property
    def drained(self) -> bool:
        return self.pod is not None and drained(self.pod)

    @cached_property
    def available(self) -> bool:
        """Jobs can be run there, now and later."""
        return self.ready and not self.pending_deletion

    @cached_property
    def pending_deletion(self) -> bool:
        """Its Pod carries the mark that it has to go."""
        return self.pod is not None and pending_deletion(self.pod) is not None

    @cached_property
    def revision(self) -> str:
        """The template that its Pod was made from; empty if there is none."""
        return "" if self.pod is None else revision(self.pod)

    @cached_property
    def features_current(self) -> bool:
        """Its Pod carries the features that it shall."""
        return self.pod is None or self.features in {None, self.pod.metadata.annotations.get(FEATURES, "")}

    @cached_property
    def ended(self) -> bool:
        return self.pod is not None and finished(self.pod)

    @cached_property
    def restart_requested(self) -> bool:
        """The syncer has asked for a new Pod in its place, be it lately or long ago."""
        return self.pod is not None and RESTART in self.pod.metadata.annotations

    @cached_property
    def start_failure(self) -> str:
        """Why its slurmd is not started; empty if nothing is known to keep it."""
        return "" if self.pod is None else start_failure(self.pod)

    @cached_property
    def settled(self) -> bool:
        """It is to stay and has a Pod that runs: unless the template is another by now, nothing has to be done."""
        return (
            self.staying and self.alive and not self.pending_deletion and not self.ended and not self.restart_requested
        )


class SetDifference:
    """What is in one set and not in another, sought again only when one of them is another object."""

    def __init__(self) -> None:
        self._sides: tuple[frozenset[str], frozenset[str]] | None = None
        self._found: frozenset[str] = frozenset()

    def between(self, one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
        if self._sides is None or self._sides[0] is not one or self._sides[1] is not other:
            self._sides, self._found = (one, other), one - other
        return self._found


class MemberCounts(Struct, frozen=True):
    """How many members are what. The mappings count those that have a Pod, by the revision it was made from."""

    with_pod: int = 0
    available: int = 0
    """Jobs can be run there, and they are not about to leave."""
    ready: int = 0
    drained: int = 0
    unfit: int = 0
    leaving: int = 0
    terminating: int = 0
    """Have a Pod that is being deleted."""
    by_revision: Mapping[str, int] = {}
    staying_by_revision: Mapping[str, int] = {}
    """The same, without those that leave."""

    def outdated(self, revision: str) -> int:
        """Those that stay with a Pod of another revision."""
        return sum(count for other, count in self.staying_by_revision.items() if other != revision)


_NUMBERS: Final = ("with_pod", "available", "ready", "drained", "unfit", "leaving", "terminating")


def _counted(members: Iterable[Member]) -> MemberCounts:
    everyone = list(members)
    with_pod = [member for member in everyone if member.pod is not None]
    return MemberCounts(
        with_pod=len(with_pod),
        available=sum(member.available and not member.leaving for member in with_pod),
        ready=sum(member.ready for member in with_pod),
        drained=sum(member.drained for member in with_pod),
        unfit=sum(bool(member.unfit) for member in everyone),
        leaving=sum(member.leaving for member in everyone),
        terminating=sum(not member.alive for member in with_pod),
        by_revision=Counter(member.revision for member in with_pod),
        staying_by_revision=Counter(member.revision for member in with_pod if not member.leaving),
    )


def _summed(counts: list[MemberCounts]) -> MemberCounts:
    all_of, staying = Counter[str](), Counter[str]()
    for part in counts:
        all_of.update(part.by_revision)
        staying.update(part.staying_by_revision)
    numbers = {name: sum(getattr(part, name) for part in counts) for name in _NUMBERS}
    return MemberCounts(**numbers, by_revision=all_of, staying_by_revision=staying)


class MemberGroup(tuple[Member, ...]):  # noqa: SLOT001 - what it knows has to stand somewhere
    """Some members, mostly those of member slice. What is said of them is worked out once."""

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(member.entry.name for member in self)

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset(member.entry.node for member in self)

    @cached_property
    def leaving(self) -> tuple[Member, ...]:
        return tuple(member for member in self if member.leaving)

    @cached_property
    def unfit(self) -> tuple[Member, ...]:
        return tuple(member for member in self if member.unfit)

    @cached_property
    def unclaimed(self) -> tuple[Member, ...]:
        return tuple(member for member in self if not member.claimed)

    @cached_property
    def absence_unrecorded(self) -> tuple[Member, ...]:
        return tuple(member for member in self if not member.absence_recorded)

    @cached_property
    def unsettled(self) -> tuple[Member, ...]:
        """Those whose Pods have to be seen to, whatever the template is."""
        return tuple(member for member in self if not (member.settled and member.features_current))

    @cached_property
    def start_failures(self) -> tuple[tuple[str, str], ...]:
        """Pods whose slurmd is not started, and why."""
        return tuple((member.entry.name, member.start_failure) for member in self if member.start_failure)

    @cached_property
    def unavailable(self) -> int:
        """How many of those that stay cannot run jobs."""
        return sum(not member.available for member in self if member.staying)

    @cached_property
    def counts(self) -> MemberCounts:
        return _counted(self)

    @cached_property
    def revisions(self) -> frozenset[str]:
        """The templates that the Pods were made from."""
        return frozenset(member.revision for member in self if member.pod is not None)


class MemberList(tuple[Member, ...]):  # noqa: SLOT001 - as above
    """All members, as one sequence."""

    groups: tuple[MemberGroup, ...]

    @classmethod
    def of(cls, groups: Iterable[MemberGroup], *, before: "MemberList | None" = None) -> "MemberList":
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
    def absence_unrecorded(self) -> tuple[Member, ...]:
        """Those whose entries say otherwise than is so about whether their Nodes are missing."""
        return self._all(lambda group: group.absence_unrecorded)

    @cached_property
    def unsettled(self) -> tuple[Member, ...]:
        return self._all(lambda group: group.unsettled)

    @cached_property
    def start_failures(self) -> tuple[tuple[str, str], ...]:
        return tuple(chain.from_iterable(group.start_failures for group in self.groups))

    @cached_property
    def unavailable(self) -> int:
        return sum(group.unavailable for group in self.groups)

    @cached_property
    def counts(self) -> MemberCounts:
        return _summed([group.counts for group in self.groups])

    @cached_property
    def _without_place(self) -> SetDifference:
        return SetDifference()

    def without_place(self, nodes: frozenset[str]) -> frozenset[str]:
        """Those of the Nodes that are no member's."""
        return self._without_place.between(nodes, self.nodes)

    def not_of(self, revision: str) -> tuple[Member, ...]:
        """Those that have a Pod of another template."""
        others = (group for group in self.groups if group.revisions - {revision})
        return tuple(one for group in others for one in group if one.pod is not None and one.revision != revision)

    def changed(self, changes: Mapping[str, Member | None]) -> "MemberList":
        """The same with some of them, by name, otherwise; or left out, where there is none instead."""
        if not changes:
            return self
        return MemberList.of(_changed(group, changes) for group in self.groups)

    def _all(self, which: Callable[[MemberGroup], tuple[Member, ...]]) -> tuple[Member, ...]:
        return tuple(chain.from_iterable(which(group) for group in self.groups))


_OF_NODES: Final = ("nodes", "_without_place")
"""What is known of a list and follows from the Nodes of its members alone."""


def _same_nodes(some: tuple[MemberGroup, ...], others: tuple[MemberGroup, ...]) -> bool:
    if len(some) != len(others):
        return False
    return all(one is other or one.nodes == other.nodes for one, other in zip(some, others, strict=True))


def member_list(members: Iterable[Member]) -> MemberList:
    """Members that were not sought out by anybody yet."""
    return members if isinstance(members, MemberList) else MemberList.of((MemberGroup(members),))


def _changed(group: MemberGroup, changes: Mapping[str, Member | None]) -> MemberGroup:
    if group.names.isdisjoint(changes):
        return group
    meant = (changes.get(one.entry.name, one) for one in group)
    return MemberGroup(one for one in meant if one is not None)
