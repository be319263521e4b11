"""What has to be done to the Pods of the members: made, marked, unmarked, deleted."""

from collections.abc import Collection, Iterable

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.model.nodeslice import Entry
from sunk.objects.standing import cleared, may_hold_job, pending_deletion, running
from sunk.operator.nodeset.company import company
from sunk.operator.nodeset.member import Member

UPDATE = "its template was changed"


class Mark(Struct, frozen=True):
    """A Pod, and the reason that it shall carry for having to go; none takes the mark off."""

    pod: Pod
    reason: str | None


class Description(Struct, frozen=True):
    """A Pod, and the features that it shall carry from now on: labels of its Node or the set's spec have changed."""

    pod: Pod
    features: str


class Removal(Struct, frozen=True):
    """A Pod that may be deleted as it was read; `forced` if it may hold a job, which then dies."""

    pod: Pod
    forced: bool = False

    @property
    def kills(self) -> bool:
        """Whether Slurm was last seen to run something there."""
        return self.forced and running(self.pod)


class Upkeep(Struct, frozen=True):
    create: tuple[Entry, ...] = ()
    mark: tuple[Mark, ...] = ()
    remove: tuple[Removal, ...] = ()
    heal: tuple[Pod, ...] = ()
    """Pods that ended by themselves: deleted so that new ones can be made, at a bounded rate."""
    describe: tuple[Description, ...] = ()


def upkeep(members: Iterable[Member], *, outdated: Collection[str], forced: bool) -> Upkeep:
    create: list[Entry] = []
    marks: list[Mark] = []
    removals: list[Removal] = []
    heal: list[Pod] = []
    changed: list[Description] = []
    everyone = company(members)
    for member in everyone if outdated else everyone.restless:
        if not member.described and member.alive and member.pod is not None and member.features is not None:
            changed.append(Description(member.pod, member.features))
        if member.calm and member.entry.name not in outdated:
            continue
        pod = member.pod
        if pod is None:
            if member.staying:
                create.append(member.entry)
            continue
        if not member.alive:
            continue
        wanted = _reason(member, outdated=outdated)
        if wanted is None and member.ended:
            heal.append(pod)
        elif wanted is not None and _removable(pod, forced=forced):
            removals.append(Removal(pod, forced=forced and may_hold_job(pod) and not cleared(pod)))
        elif wanted != pending_deletion(pod):
            marks.append(Mark(pod, wanted))
    return Upkeep(tuple(create), tuple(marks), tuple(removals), tuple(heal), tuple(changed))


def _reason(member: Member, *, outdated: Collection[str]) -> str | None:
    """Why a member's Pod has to go, if it has to."""
    match member.entry.state:
        case "leaving":
            return member.entry.reason or "leaving"
        case "parked":
            return "parked"
    return UPDATE if member.entry.name in outdated else None


def _removable(pod: Pod, *, forced: bool) -> bool:
    return forced or cleared(pod) or not may_hold_job(pod)
