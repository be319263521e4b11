"""Who is a member of a NodeSet: who stays, who leaves, who comes back, who joins.

A member is an entry in a slice, and stays one while its Pod restarts, its kubelet is silent or its Node is cordoned.
It leaves in two steps: `leaving` takes new jobs away from it, and only when its Pod is gone and Slurm has forgotten it
(`released`) does the entry go. As long as its Pod is alive a leaving member may turn round; once it is not, the name
belongs to the syncer until it is released, lest a late delete hits a new node of that name.

A scale-in is somebody's wish. Nodes that no longer fit, many at once and without a change of the spec, are rather a
mistake: a label removed from all, a view that is not whole. Nobody leaves then until it is over or accepted.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.core import Pod
from sunk.model.names import FEATURES
from sunk.model.nodeslice import Entry
from sunk.operator.nodeset.standing import (
    drained,
    finished,
    pending_deletion,
    ready,
    removal_order,
    revision,
    terminating,
)

FEW: Final = 3
"""So many members may always be lost."""


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

    @cached_property
    def leaving(self) -> bool:
        return self.entry.state == "leaving"

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
        return self.ready and not self.going

    @cached_property
    def going(self) -> bool:
        """Its Pod carries the mark that it has to go."""
        return self.pod is not None and pending_deletion(self.pod) is not None

    @cached_property
    def revision(self) -> str:
        """The template that its Pod was made from; empty if there is none."""
        return "" if self.pod is None else revision(self.pod)

    @cached_property
    def described(self) -> bool:
        """Its Pod carries the features that it shall."""
        return self.pod is None or self.features in {None, self.pod.metadata.annotations.get(FEATURES, "")}

    @cached_property
    def ended(self) -> bool:
        return self.pod is not None and finished(self.pod)

    @cached_property
    def calm(self) -> bool:
        """It is to stay and has a Pod that runs: unless the template is another by now, nothing has to be done."""
        return self.entry.state == "joined" and self.alive and not self.going and not self.ended


class Candidate(Struct, frozen=True, gc=False):
    """A Node that could join, and what it would be called."""

    node: str
    name: str


class Wish(Struct, frozen=True):
    """What is asked of a set; `accepted` is how great a loss of members a person has agreed to."""

    replicas: int | None = None
    deleted: bool = False
    forced: bool = False
    changed: bool = False
    """The spec is not the one that was acted upon last."""
    accepted: int = 0


class Roster(Struct, frozen=True):
    """Who is to be a member: present ones in their order, without those that are gone, and new ones."""

    members: tuple[Member, ...]
    joins: tuple[Candidate, ...]
    dropped: tuple[Entry, ...]
    desired: int
    feasible: int
    held: int = 0
    """How many no longer fit, where those are too many for anybody to leave."""


def roster(members: Sequence[Member], candidates: Sequence[Candidate], wish: Wish) -> Roster:
    gone = {member.entry.name for member in members if member.leaving and _is_gone(member, wish)}
    dropped = tuple(member.entry for member in members if member.entry.name in gone)
    present = [member for member in members if member.entry.name not in gone] if gone else list(members)
    fitting = sum(not member.unfit for member in present) + len(candidates)
    if wish.deleted:
        everyone = tuple(_leave(member, "the NodeSet is deleted") for member in present)
        return Roster(everyone, joins=(), dropped=dropped, desired=0, feasible=fitting)
    held = _held(present, wish)
    if not held:
        present = [_leave(one, one.unfit) if one.unfit else one for one in present]
    # Who is held stays meant: or else a set without a number would be scaled in to those that fit.
    kept = sum(bool(one.unfit) and not one.leaving for one in present) if held else 0
    desired = fitting + kept if wish.replicas is None else wish.replicas
    present, joins = _to_number(present, candidates, desired)
    return Roster(tuple(present), joins=joins, dropped=dropped, desired=desired, feasible=fitting, held=held)


def _is_gone(member: Member, wish: Wish) -> bool:
    """Whether a leaving member may be crossed out: its Pod has to be gone first, and Slurm has to have forgotten it."""
    return member.pod is None and (member.released or wish.forced)


def _leave(member: Member, reason: str) -> Member:
    if member.leaving:
        return member
    return replace(member, entry=replace(member.entry, state="leaving", reason=reason))


def _return(member: Member) -> Member:
    return replace(member, entry=replace(member.entry, state="joined", reason=""))


def _held(present: Sequence[Member], wish: Wish) -> int:
    """Those on their way out count as well: a label that is taken from one Node after the other is the same mistake."""
    unfit = [member for member in present if member.unfit]
    lost, news = len(unfit), any(not member.leaving for member in unfit)
    much = lost > FEW and lost * 2 > len(present)
    return lost if news and much and not wish.changed and lost > wish.accepted else 0


def _to_number(
    present: Sequence[Member], candidates: Sequence[Candidate], desired: int
) -> tuple[list[Member], tuple[Candidate, ...]]:
    """Let some leave, or let some come: first those who were about to leave, then new ones."""
    active = [member for member in present if not member.leaving]
    lacking = desired - len(active)
    if lacking < 0:
        out = _names(first_to_go(active)[:-lacking])
        return [_leave(one, "scaled in") if one.entry.name in out else one for one in present], ()
    able = [member for member in present if member.leaving and _may_return(member)]
    back = _names(first_to_go(able)[::-1][:lacking])
    if back:
        present = [_return(one) if one.entry.name in back else one for one in present]
    return list(present), tuple(candidates[: lacking - len(back)])


def _may_return(member: Member) -> bool:
    return member.alive and not member.unfit and not member.released


def first_to_go(members: Iterable[Member]) -> list[Member]:
    """Sort by who is missed least. Of those made in the same second the last by name goes first: it came last."""
    by_name = sorted(members, key=lambda member: member.entry.name, reverse=True)
    return sorted(by_name, key=lambda member: removal_order(member.pod))


def _names(members: Iterable[Member]) -> set[str]:
    return {member.entry.name for member in members}
