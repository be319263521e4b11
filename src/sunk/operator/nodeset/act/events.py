"""Events of a NodeSet: what its controller has decided, where people look first (`kubectl describe nodeset`)."""

from collections.abc import Iterable, Sequence
from typing import Final

from sunk.kube.control.events import Recorder, about
from sunk.model.contract import conditions
from sunk.model.hostlist import shown
from sunk.model.nodeset import NODESET
from sunk.model.wording import counted, verb
from sunk.objects.nodesets import NodeSet
from sunk.operator.nodeset.decide.membership import Membership
from sunk.operator.nodeset.decide.podactions import PodRemoval
from sunk.operator.nodeset.decide.status import Findings, listed
from sunk.operator.nodeset.observe.members import Member

_LONGEST: Final = 600


class NodeSetEvents:
    """Who is named is part of what is said, so that two of them are not taken for the same thing said twice."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def joined(self, owner: NodeSet, found: Sequence[str]) -> None:
        if found:
            self._tell(owner, "Joined", f"{counted(len(found), 'node')} joined: {_short(found)}", action="Join")

    def left(self, owner: NodeSet, found: Sequence[str]) -> None:
        if found:
            self._tell(owner, "Left", f"{counted(len(found), 'node')} left: {_short(found)}", action="Leave")

    def leaving(self, owner: NodeSet, members: Iterable[Member]) -> None:
        """Say who has to leave, once for each reason."""
        by_reason: dict[str, list[str]] = {}
        for member in members:
            by_reason.setdefault(member.entry.reason, []).append(member.entry.name)
        for reason, found in by_reason.items():
            self._tell(
                owner,
                "Leaving",
                f"{counted(len(found), 'node')} {verb(len(found))} leaving: {_short(found)}: {{why}}",
                action="Leave",
                why=reason,
            )

    def updating(self, owner: NodeSet, found: Sequence[str]) -> None:
        if found:
            self._tell(
                owner, "Updating", f"{counted(len(found), 'Pod')} will be replaced: {_short(found)}", action="Update"
            )

    def forced(self, owner: NodeSet, removal: PodRemoval) -> None:
        state = "Slurm was running jobs there" if removal.kills else "no running jobs known"
        note = f"Pod {removal.pod.metadata.name} was force-deleted: {state}"
        self._warn(owner, "Forced", note, action="Delete")

    def asked_again(self, owner: NodeSet, pod: str, why: str) -> None:
        """Say that a clearance was too old to delete a Pod upon it."""
        note = (
            f"Pod {pod} not deleted: its clear-to-delete annotation is no longer valid ({{cause}}); asking Slurm again"
        )
        self._tell(owner, "AskedAgain", note, action="Delete", cause=why)

    def recreated(self, owner: NodeSet, pod: str, why: str) -> None:
        self._warn(owner, "Replaced", f"Pod {pod} ended and is recreated: {{cause}}", action="Replace", cause=why)

    def findings(self, owner: NodeSet, membership: Membership, found: Findings) -> None:
        """Say what stands in the way; the recorder makes one Event of many sayings."""
        if found.problem:
            self._warn(owner, "TemplateRefused", "{problem}", action="Create", problem=found.problem)
        if found.refused:
            self._warn(owner, "NameRefused", "{told}", action="Join", told=listed(found.refused))
        if found.unreadable:
            self._warn(owner, "Unreadable", "{told}", action="Join", told=listed(found.unreadable))
        if found.trouble:
            self._warn(owner, "Troubled", "{trouble}", action="Create", trouble=found.trouble)
        if membership.held:
            note = "{count} members no longer fit, too many at once: all of them stay until they fit again or the loss is accepted"
            self._warn(owner, conditions.HELD, note, action="Leave", count=membership.held)

    def _tell(self, owner: NodeSet, reason: str, note: str, *, action: str, **values: object) -> None:
        regarding = about(owner, kind=NODESET.name, api_version=NODESET.api_version)
        self._recorder.tell(regarding, reason, note, action=action, **values)

    def _warn(self, owner: NodeSet, reason: str, note: str, *, action: str, **values: object) -> None:
        regarding = about(owner, kind=NODESET.name, api_version=NODESET.api_version)
        self._recorder.warn(regarding, reason, note, action=action, **values)


def _short(found: Sequence[str]) -> str:
    told = shown(found)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
