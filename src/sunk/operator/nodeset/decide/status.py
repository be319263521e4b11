"""What people see of a NodeSet: numbers and conditions."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.model.contract.conditions import HELD, NAMES_UNIQUE, NODES_MISSING, PROGRESSING, READY, TEMPLATE_VALID
from sunk.model.nodeset import Condition, NodeSetStatus
from sunk.operator.nodeset.decide.membership import Roster

_LONGEST: Final = 1000
_SHOWN: Final = 5


class Findings(Struct, frozen=True):
    """What a look at a NodeSet came to, besides its members."""

    revision: str
    problem: str = ""
    """Why no Pod can be made from its template."""
    refused: Sequence[tuple[str, str]] = ()
    """Nodes that fit and cannot be named, and why."""
    unreadable: Sequence[tuple[str, str]] = ()
    """Nodes that do not fit because something about them cannot be read, and what."""
    blocked: Sequence[tuple[str, str]] = ()
    """Members that Slurm does not let go, and why."""
    claimed_by: Sequence[str] = ()
    """Other NodeSets that have the Nodes which would fit."""
    slices: int = 0
    done: bool = True
    """Who is a member is written down: only then has this generation of the spec been acted upon."""
    trouble: str = ""
    """What the API server refused, where only a person can do something about it."""


def status(meta: Metadata, *, before: NodeSetStatus, roster: Roster, findings: Findings) -> NodeSetStatus:
    tally = roster.members.tally
    updated = tally.of.get(findings.revision, 0)
    settled = 0 < tally.there == updated or not before.current_revision
    return NodeSetStatus(
        observed_generation=meta.generation if findings.done else before.observed_generation,
        replicas=tally.there,
        selector=f"{names.COMPONENT}={names.COMPUTE},{names.NODESET}={meta.name}",
        desired_number_scheduled=roster.desired,
        number_feasible=roster.feasible,
        current_number_scheduled=tally.there,
        number_ready=tally.ready,
        number_drain=tally.drained,
        number_misscheduled=tally.unfit,
        number_unavailable=max(0, roster.desired - tally.available),
        updated_number_scheduled=updated,
        members=len(roster.members),
        slices=findings.slices,
        nodes_claimed_by=tuple(findings.claimed_by[:_SHOWN]),
        current_revision=findings.revision if settled else before.current_revision,
        update_revision=findings.revision,
        conditions=tuple(_conditions(meta, before=before, roster=roster, findings=findings, available=tally.available)),
    )


def _conditions(
    meta: Metadata, *, before: NodeSetStatus, roster: Roster, findings: Findings, available: int
) -> Iterable[Condition]:
    now = datetime.now(UTC).replace(microsecond=0)
    for kind, holds, reason, message in _said(roster, findings, available=available):
        told: Literal["True", "False"] = "True" if holds else "False"
        old = next((one for one in before.conditions if one.type == kind), None)
        since = old.last_transition_time if old is not None and old.status == told else now
        yield Condition(kind, told, since, reason, message[:_LONGEST], meta.generation)


def _said(roster: Roster, findings: Findings, *, available: int) -> Iterable[tuple[str, bool, str, str]]:
    lacking = roster.desired - available
    yield (
        (READY, True, "AllReady", f"{available} of {roster.desired} nodes are ready")
        if lacking <= 0
        else (READY, False, NODES_MISSING, _lacking(roster, findings, available=available))
    )
    yield _progress(roster, findings)
    yield (
        (TEMPLATE_VALID, False, "Refused", findings.problem)
        if findings.problem
        else (TEMPLATE_VALID, True, "Accepted", "Pods can be made from it")
    )
    yield (
        (NAMES_UNIQUE, False, "Refused", listed(findings.refused))
        if findings.refused
        else (NAMES_UNIQUE, True, "Unique", "every Node that fits has a name of its own")
    )
    yield (
        (HELD, True, "TooManyLost", _held(roster))
        if roster.held
        else (HELD, False, "Few", "no more members were lost at once than may be")
    )


def _lacking(roster: Roster, findings: Findings, *, available: int) -> str:
    told = f"{available} of {roster.desired} nodes are ready"
    if roster.feasible < roster.desired:
        told += f"; only {roster.feasible} Nodes fit: look at required node affinity, taints and requests"
    return f"{told}; {listed(findings.unreadable)}" if findings.unreadable else told


def _progress(roster: Roster, findings: Findings) -> tuple[str, bool, str, str]:
    tally = roster.members.tally
    old = tally.old(findings.revision)
    told = f"{len(roster.joins)} joining, {tally.leaving} leaving, {old} with an older template"
    if findings.trouble:
        return PROGRESSING, True, "Troubled", f"{told}; {findings.trouble}"
    if findings.blocked:
        return PROGRESSING, True, "Blocked", f"{told}; Slurm does not let go: {listed(findings.blocked)}"
    moving = bool(roster.joins or tally.leaving or old or tally.ending)
    return PROGRESSING, moving, "Changing" if moving else "Settled", told if moving else "nothing is under way"


def _held(roster: Roster) -> str:
    return (
        f"{roster.held} of {len(roster.members)} members no longer fit, and the spec was not changed: nobody leaves. If "
        f"it is meant, annotate the NodeSet with {names.ACCEPT_LOSS}={roster.held}"
    )


def listed(found: Sequence[tuple[str, str]]) -> str:
    told = "; ".join(f"{name}: {why}" for name, why in found[:_SHOWN])
    return f"{told}; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else told
