"""What has to be done to the Pods of the members: made, marked, unmarked, deleted."""

from collections.abc import Collection, Iterable
from datetime import datetime

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.model.nodeslice import Entry
from sunk.objects.standing import (
    cleared,
    finished,
    has_run,
    may_hold_job,
    outlived,
    pending_deletion,
    restart_asked,
    running,
)
from sunk.operator.nodeset.observe.member import Member
from sunk.operator.nodeset.observe.members import company

UPDATE = "its template was changed"


class Moment(Struct, frozen=True):
    """When something is decided, by the API server's clock, and since when we lead: it bounds what may be acted upon."""

    now: datetime
    since: datetime

    def doubts(self, pod: Pod) -> str:
        """Why the clearance of a Pod may not be acted upon now; empty if it may, or if there is none."""
        return outlived(pod, now=self.now, since=self.since)

    def heals(self, pod: Pod) -> bool:
        """Whether a Pod that is to stay may be replaced now: it has ended, or the syncer asks for it."""
        return finished(pod) or bool(restart_asked(pod, now=self.now))


class Mark(Struct, frozen=True):
    """A Pod, and the reason that it shall carry for having to go; none takes the mark off."""

    pod: Pod
    reason: str | None


class Description(Struct, frozen=True):
    """A Pod, and the features that it shall carry from now on: labels of its Node or the set's spec have changed."""

    pod: Pod
    features: str


class Removal(Struct, frozen=True):
    """A Pod that may be deleted as it was read; `forced` if it may hold a job, which then dies.

    One that goes upon its clearance may go only while that is young, which is looked at again right before.
    """

    pod: Pod
    forced: bool = False
    upon_clearance: bool = False

    @property
    def kills(self) -> bool:
        """Whether Slurm was last seen to run something there."""
        return self.forced and running(self.pod)


class Upkeep(Struct, frozen=True):
    create: tuple[Entry, ...] = ()
    mark: tuple[Mark, ...] = ()
    remove: tuple[Removal, ...] = ()
    heal: tuple[Pod, ...] = ()
    """Pods that ended by themselves, or that the syncer asks to have made anew: deleted so that new ones can be made, at a
    bounded rate."""
    describe: tuple[Description, ...] = ()
    ask: tuple[Pod, ...] = ()
    """Pods whose clearance is too old: it is taken off, so that the syncer looks again."""


class Rules(Struct, frozen=True):
    """What a Pod that has to go needs for it: nothing by force, and Slurm's word where there is a Slurm to ask."""

    moment: Moment
    forced: bool = False
    slurm: bool = True

    def removal(self, pod: Pod) -> Removal | None:
        """How it may be deleted now; None if it may not."""
        held = may_hold_job(pod) if self.slurm else has_run(pod)
        word = cleared(pod) and not self.moment.doubts(pod)
        if not (self.forced or word or not held):
            return None
        return Removal(pod, forced=self.forced and held and not word, upon_clearance=held and not self.forced)


def upkeep(members: Iterable[Member], *, outdated: Collection[str], rules: Rules) -> Upkeep:
    create: list[Entry] = []
    acts: list[Mark | Removal | _Heal | _Ask] = []
    changed: list[Description] = []
    everyone = company(members)
    for member in everyone if outdated else everyone.restless:
        if not member.described and member.alive and member.pod is not None and member.features is not None:
            changed.append(Description(member.pod, member.features))
        if member.calm and member.entry.name not in outdated:
            continue
        if member.pod is None:
            if member.staying:
                create.append(member.entry)
        elif member.alive and (act := _act(member, member.pod, _reason(member, outdated=outdated), rules)):
            acts.append(act)
    return Upkeep(
        create=tuple(create),
        mark=tuple(one for one in acts if isinstance(one, Mark)),
        remove=tuple(one for one in acts if isinstance(one, Removal)),
        heal=tuple(one.pod for one in acts if isinstance(one, _Heal)),
        describe=tuple(changed),
        ask=tuple(one.pod for one in acts if isinstance(one, _Ask)),
    )


class _Heal(Struct, frozen=True):
    pod: Pod


class _Ask(Struct, frozen=True):
    pod: Pod


def _act(member: Member, pod: Pod, wanted: str | None, rules: Rules) -> Mark | Removal | _Heal | _Ask | None:
    if wanted is None and (member.ended or (member.to_restart and rules.moment.heals(pod))):
        return _Heal(pod)
    if wanted is not None and (removal := rules.removal(pod)) is not None:
        return removal
    if wanted != pending_deletion(pod):
        return Mark(pod, wanted)
    return _Ask(pod) if rules.moment.doubts(pod) else None


def _reason(member: Member, *, outdated: Collection[str]) -> str | None:
    """Why a member's Pod has to go, if it has to."""
    match member.entry.state:
        case "leaving":
            return member.entry.reason or "leaving"
        case "parked":
            return "parked"
    return UPDATE if member.entry.name in outdated else None
