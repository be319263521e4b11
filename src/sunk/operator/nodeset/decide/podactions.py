"""What has to be done to the Pods of the members: created, marked, unmarked, deleted, and replaced in a rollout.

Which Pods of an older template may be replaced now? Unavailable are members without a Pod, with one that is not ready, or
with one that has to go. A ready Pod is taken only while there are fewer of those than the budget allows, so a replacement
that never gets ready stops the rollout. A Pod that is not ready already costs nothing more, but only within the budget:
in an outage all are not ready, and all would be drained when it ends. One in which nothing can run, say because its image
does not exist, is replaced in any case; otherwise a broken template could never be mended.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from math import ceil

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.model.nodeset import UpdateStrategy
from sunk.model.nodeslice import Entry
from sunk.objects.computepods import (
    clearance_fault,
    cleared,
    finished,
    has_run,
    may_hold_job,
    pending_deletion,
    restart_asked,
    running,
)
from sunk.operator.nodeset.decide.membership import first_to_go
from sunk.operator.nodeset.observe.members import Member, member_list

UPDATE = "its template was changed"


class Moment(Struct, frozen=True):
    """When something is decided, by the API server's clock, and since when we lead: it bounds what may be acted upon."""

    now: datetime
    since: datetime

    def clearance_fault(self, pod: Pod) -> str:
        """Why the clearance of a Pod may not be acted upon now; empty if it may, or if there is none."""
        return clearance_fault(pod, now=self.now, since=self.since)

    def may_recreate(self, pod: Pod) -> bool:
        """Whether a Pod that is to stay may be replaced now: it has ended, or the syncer asks for it."""
        return finished(pod) or bool(restart_asked(pod, now=self.now))


class DeletionMark(Struct, frozen=True):
    """A Pod, and the reason that it shall carry for having to go; none takes the mark off."""

    pod: Pod
    reason: str | None


class FeatureChange(Struct, frozen=True):
    """A Pod, and the features that it shall carry from now on: labels of its Node or the set's spec have changed."""

    pod: Pod
    features: str


class PodRemoval(Struct, frozen=True):
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


class PodActions(Struct, frozen=True):
    """What has to be done to Pods."""

    create: tuple[Entry, ...] = ()
    mark: tuple[DeletionMark, ...] = ()
    remove: tuple[PodRemoval, ...] = ()
    recreate: tuple[Pod, ...] = ()
    """Pods that ended by themselves, or that the syncer asks to have recreated: deleted so that new ones can be created, at
    a bounded rate."""
    update_features: tuple[FeatureChange, ...] = ()
    renew: tuple[Pod, ...] = ()
    """Pods whose clearance is too old: it is taken off, so that the syncer looks again."""


class RemovalRules(Struct, frozen=True):
    """What a Pod that has to go needs for it: nothing by force, and Slurm's word where there is a Slurm to ask."""

    moment: Moment
    forced: bool = False
    slurm: bool = True

    def removal(self, pod: Pod) -> PodRemoval | None:
        """How it may be deleted now; None if it may not."""
        held = may_hold_job(pod) if self.slurm else has_run(pod)
        word = cleared(pod) and not self.moment.clearance_fault(pod)
        if not (self.forced or word or not held):
            return None
        return PodRemoval(pod, forced=self.forced and held and not word, upon_clearance=held and not self.forced)


def pod_actions(members: Iterable[Member], *, outdated: Collection[str], rules: RemovalRules) -> PodActions:
    create: list[Entry] = []
    acts: list[DeletionMark | PodRemoval | _Recreate | _Renew] = []
    changed: list[FeatureChange] = []
    everyone = member_list(members)
    for member in everyone if outdated else everyone.unsettled:
        if not member.features_current and member.alive and member.pod is not None and member.features is not None:
            changed.append(FeatureChange(member.pod, member.features))
        if member.settled and member.entry.name not in outdated:
            continue
        if member.pod is None:
            if member.staying:
                create.append(member.entry)
        elif member.alive and (act := _act(member, member.pod, _reason(member, outdated=outdated), rules)):
            acts.append(act)
    return PodActions(
        create=tuple(create),
        mark=tuple(one for one in acts if isinstance(one, DeletionMark)),
        remove=tuple(one for one in acts if isinstance(one, PodRemoval)),
        recreate=tuple(one.pod for one in acts if isinstance(one, _Recreate)),
        update_features=tuple(changed),
        renew=tuple(one.pod for one in acts if isinstance(one, _Renew)),
    )


class _Recreate(Struct, frozen=True):
    pod: Pod


class _Renew(Struct, frozen=True):
    pod: Pod


def _act(
    member: Member, pod: Pod, wanted: str | None, rules: RemovalRules
) -> DeletionMark | PodRemoval | _Recreate | _Renew | None:
    if wanted is None and (member.ended or (member.restart_requested and rules.moment.may_recreate(pod))):
        return _Recreate(pod)
    if wanted is not None and (removal := rules.removal(pod)) is not None:
        return removal
    if wanted != pending_deletion(pod):
        return DeletionMark(pod, wanted)
    return _Renew(pod) if rules.moment.clearance_fault(pod) else None


def _reason(member: Member, *, outdated: Collection[str]) -> str | None:
    """Why a member's Pod has to go, if it has to."""
    match member.entry.state:
        case "leaving":
            return member.entry.reason or "leaving"
        case "parked":
            return "parked"
    return UPDATE if member.entry.name in outdated else None


def budget(strategy: UpdateStrategy, *, desired: int) -> int:
    allowed = strategy.rolling_update.max_unavailable
    if isinstance(allowed, str):
        return max(1, ceil(desired * int(allowed.removesuffix("%")) / 100))
    return allowed


def outdated(members: Iterable[Member], *, wanted: str, strategy: UpdateStrategy, desired: int) -> tuple[Member, ...]:
    """Choose the members whose Pods have to go for another revision: those on their way already, and the next."""
    if strategy.type == "OnDelete":
        return ()
    everyone = member_list(members)
    room = budget(strategy, desired=desired) - everyone.unavailable
    old = [member for member in everyone.not_of(wanted) if member.staying and member.alive]
    chosen = []
    for member in first_to_go(old):
        costs = member.available
        if member.pending_deletion or _is_empty(member) or (room > 0 if costs else room >= 0):
            chosen.append(member)
            room -= costs
    return tuple(chosen)


def _is_empty(member: Member) -> bool:
    return member.pod is not None and not has_run(member.pod)
