"""Who is a member of a NodeSet: who stays, who leaves, who comes back, who joins.

A member is an entry in a slice, and stays one while its Pod restarts, its kubelet is silent or its Node is cordoned.
It leaves in two steps: `leaving` takes new jobs away from it, and only when its Pod is gone and Slurm has forgotten it
(`released`) does the entry go. As long as its Pod is alive a leaving member may turn round; once it is not, the name
belongs to the syncer until it is released, lest a late delete hits a new node of that name.

A scale-in is somebody's wish. Nodes that no longer fit, many at once and without a change of the spec, are rather a
mistake: a label removed from all, a view that is not whole. Nobody leaves then until it is over or accepted.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.model.nodeslice import Entry
from sunk.objects.computepods import removal_order
from sunk.operator.nodeset.observe.members import Member, MemberList, member_list
from sunk.operator.nodeset.observe.snapshot import Candidate

FEW: Final = 3
"""So many members may always be lost."""


class Intent(Struct, frozen=True):
    """What is asked of a set, and when; `accepted` is how great a loss of members a person has agreed to."""

    replicas: int | None = None
    deleted: bool = False
    forced: bool = False
    changed: bool = False
    """The spec is not the one that was acted upon last."""
    accepted: int = 0
    now: datetime | None = None


class Membership(Struct, frozen=True):
    """Who is to be a member: present ones in their order, without those that are gone, and new ones."""

    members: MemberList
    joins: tuple[Candidate, ...]
    dropped: tuple[Entry, ...]
    desired: int
    feasible: int
    held: int = 0
    """How many no longer fit, where those are too many for anybody to leave."""


def decide_membership(members: Iterable[Member], candidates: Sequence[Candidate], intent: Intent) -> Membership:
    everyone = member_list(members)
    gone = [member for member in everyone.leaving if _is_gone(member, intent)]
    dropped = tuple(member.entry for member in gone)
    present = everyone.changed(dict.fromkeys(_names(gone)))
    present = present.changed({one.entry.name: _with_absence(one, intent.now) for one in present.absence_unrecorded})
    fitting = len(present) - len(present.unfit) + len(candidates)
    if intent.deleted:
        present = _left(present, present, "the NodeSet is deleted")
        return Membership(present, joins=(), dropped=dropped, desired=0, feasible=fitting)
    held = _held(present, intent)
    if not held:
        present = _left(present, present.unfit)
    # Who is held stays meant: or else a set without a number would be scaled in to those that fit.
    kept = sum(not one.leaving for one in present.unfit) if held else 0
    desired = fitting + kept if intent.replicas is None else intent.replicas
    present, joins = _to_number(present, candidates, desired)
    return Membership(present, joins=joins, dropped=dropped, desired=desired, feasible=fitting, held=held)


def _is_gone(member: Member, intent: Intent) -> bool:
    """Whether a leaving member may be crossed out: its Pod has to be gone first, and Slurm has to have forgotten it."""
    return member.pod is None and (member.released or intent.forced)


def _left(present: MemberList, some: Iterable[Member], reason: str = "") -> MemberList:
    """Let some leave who do not yet; without a reason, for what makes each of them unfit."""
    return present.changed({one.entry.name: _leave(one, reason or one.unfit) for one in some if not one.leaving})


def _with_absence(member: Member, now: datetime | None) -> Member:
    """Write down since when its Node is missing, or that it is there again."""
    return replace(member, entry=replace(member.entry, absent_since=now if member.absent else None))


def _leave(member: Member, reason: str) -> Member:
    return replace(member, entry=replace(member.entry, state="leaving", reason=reason))


def _return(member: Member) -> Member:
    return replace(member, entry=replace(member.entry, state="joined", reason=""))


def _held(present: MemberList, intent: Intent) -> int:
    """Those on their way out count as well: a label that is taken from one Node after the other is the same mistake."""
    lost, news = len(present.unfit), any(not member.leaving for member in present.unfit)
    much = lost > FEW and lost * 2 > len(present)
    return lost if news and much and not intent.changed and lost > intent.accepted else 0


def _to_number(
    present: MemberList, candidates: Sequence[Candidate], desired: int
) -> tuple[MemberList, tuple[Candidate, ...]]:
    """Let some leave, or let some come: first those who were about to leave, then new ones."""
    missing = desired - (len(present) - len(present.leaving))
    if missing < 0:
        active = [member for member in present if not member.leaving]
        return _left(present, first_to_go(active)[:-missing], "scaled in"), ()
    able = [member for member in present.leaving if _may_return(member)]
    back = first_to_go(able)[::-1][:missing]
    present = present.changed({one.entry.name: _return(one) for one in back})
    return present, tuple(candidates[: missing - len(back)])


def _may_return(member: Member) -> bool:
    return member.alive and not member.unfit and not member.released


def first_to_go(members: Iterable[Member]) -> list[Member]:
    """Sort by who is missed least. Of those made in the same second the last by name goes first: it came last."""
    by_name = sorted(members, key=lambda member: member.entry.name, reverse=True)
    return sorted(by_name, key=lambda member: removal_order(member.pod))


def _names(members: Iterable[Member]) -> set[str]:
    return {member.entry.name for member in members}
