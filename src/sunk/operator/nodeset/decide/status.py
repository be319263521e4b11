"""What people see of a NodeSet: numbers and conditions."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.model.contract import conditions
from sunk.model.nodeset import NodeSetStatus
from sunk.model.wording import counted
from sunk.operator.conditions import DraftCondition, dated
from sunk.operator.nodeset.decide.membership import Membership

READY: Final = "Ready"
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


def status(meta: Metadata, *, before: NodeSetStatus, membership: Membership, findings: Findings) -> NodeSetStatus:
    counts = membership.members.counts
    updated = counts.by_revision.get(findings.revision, 0)
    settled = 0 < counts.with_pod == updated or not before.current_revision
    return NodeSetStatus(
        observed_generation=meta.generation if findings.done else before.observed_generation,
        replicas=counts.with_pod,
        selector=f"{names.COMPONENT}={names.COMPUTE},{names.NODESET}={meta.name}",
        desired_number_scheduled=membership.desired,
        number_feasible=membership.feasible,
        current_number_scheduled=counts.with_pod,
        number_ready=counts.ready,
        number_drain=counts.drained,
        number_misscheduled=counts.unfit,
        number_unavailable=max(0, membership.desired - counts.available),
        updated_number_scheduled=updated,
        members=len(membership.members),
        slices=findings.slices,
        nodes_claimed_by=tuple(findings.claimed_by[:_SHOWN]),
        current_revision=findings.revision if settled else before.current_revision,
        update_revision=findings.revision,
        conditions=tuple(
            dated(
                _draft_conditions(membership, findings, available=counts.available),
                before=before.conditions,
                generation=meta.generation,
            )
        ),
    )


def _draft_conditions(membership: Membership, findings: Findings, *, available: int) -> Iterable[DraftCondition]:
    missing = membership.desired - available
    yield (
        (READY, True, "AllReady", f"{available} of {membership.desired} nodes ready")
        if missing <= 0
        else (READY, False, conditions.NODES_MISSING, _missing(membership, findings, available=available))
    )
    yield _progress(membership, findings)
    yield (
        (conditions.TEMPLATE_VALID, False, "Refused", findings.problem)
        if findings.problem
        else (conditions.TEMPLATE_VALID, True, "Accepted", "Pods can be created from the template")
    )
    yield (
        (conditions.NAMES_UNIQUE, False, "Refused", listed(findings.refused))
        if findings.refused
        else (conditions.NAMES_UNIQUE, True, "Unique", "every Node that fits has a unique name")
    )
    yield (
        (conditions.HELD, True, "TooManyLost", _held(membership))
        if membership.held
        else (conditions.HELD, False, "Few", "no more members were lost at once than allowed")
    )


def _missing(membership: Membership, findings: Findings, *, available: int) -> str:
    told = f"{available} of {membership.desired} nodes ready"
    if membership.feasible < membership.desired:
        fitting = f"{counted(membership.feasible, 'Node')} {'fits' if membership.feasible == 1 else 'fit'}"
        told += f"; only {fitting}: check required node affinity, taints and requests"
    if failures := membership.members.start_failures:
        told += f"; {listed(failures)}"
    return f"{told}; {listed(findings.unreadable)}" if findings.unreadable else told


def _progress(membership: Membership, findings: Findings) -> DraftCondition:
    counts = membership.members.counts
    old = counts.outdated(findings.revision)
    told = f"{len(membership.joins)} joining, {counts.leaving} leaving, {old} with an older template"
    if findings.trouble:
        return conditions.PROGRESSING, True, "Troubled", f"{told}; {findings.trouble}"
    if findings.blocked:
        return conditions.PROGRESSING, True, "Blocked", f"{told}; Slurm cannot release: {listed(findings.blocked)}"
    moving = bool(membership.joins or counts.leaving or old or counts.terminating)
    return (
        conditions.PROGRESSING,
        moving,
        "Changing" if moving else "Settled",
        told if moving else "no changes in progress",
    )


def _held(membership: Membership) -> str:
    return (
        f"{membership.held} of {len(membership.members)} members no longer fit, though the spec did not change: all of them stay. "
        f"To let them leave, annotate the NodeSet with {names.ACCEPT_LOSS}={membership.held}"
    )


def listed(found: Sequence[tuple[str, str]]) -> str:
    told = "; ".join(f"{name}: {why}" for name, why in found[:_SHOWN])
    return f"{told}; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else told
