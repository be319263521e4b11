"""What people see of a NodeSet: numbers and conditions."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.model.contract import conditions
from sunk.model.nodeset import Condition, NodeSetStatus
from sunk.operator.nodeset.decide.membership import Membership

READY: Final = "Ready"
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
            _conditions(meta, before=before, membership=membership, findings=findings, available=counts.available)
        ),
    )


def _conditions(
    meta: Metadata, *, before: NodeSetStatus, membership: Membership, findings: Findings, available: int
) -> Iterable[Condition]:
    now = datetime.now(UTC).replace(microsecond=0)
    for kind, holds, reason, message in _said(membership, findings, available=available):
        told: Literal["True", "False"] = "True" if holds else "False"
        old = next((one for one in before.conditions if one.type == kind), None)
        since = old.last_transition_time if old is not None and old.status == told else now
        yield Condition(kind, told, since, reason, message[:_LONGEST], meta.generation)


def _said(membership: Membership, findings: Findings, *, available: int) -> Iterable[tuple[str, bool, str, str]]:
    missing = membership.desired - available
    yield (
        (READY, True, "AllReady", f"{available} of {membership.desired} nodes are ready")
        if missing <= 0
        else (READY, False, conditions.NODES_MISSING, _missing(membership, findings, available=available))
    )
    yield _progress(membership, findings)
    yield (
        (conditions.TEMPLATE_VALID, False, "Refused", findings.problem)
        if findings.problem
        else (conditions.TEMPLATE_VALID, True, "Accepted", "Pods can be made from it")
    )
    yield (
        (conditions.NAMES_UNIQUE, False, "Refused", listed(findings.refused))
        if findings.refused
        else (conditions.NAMES_UNIQUE, True, "Unique", "every Node that fits has a name of its own")
    )
    yield (
        (conditions.HELD, True, "TooManyLost", _held(membership))
        if membership.held
        else (conditions.HELD, False, "Few", "no more members were lost at once than may be")
    )


def _missing(membership: Membership, findings: Findings, *, available: int) -> str:
    told = f"{available} of {membership.desired} nodes are ready"
    if membership.feasible < membership.desired:
        told += f"; only {membership.feasible} Nodes fit: look at required node affinity, taints and requests"
    return f"{told}; {listed(findings.unreadable)}" if findings.unreadable else told


def _progress(membership: Membership, findings: Findings) -> tuple[str, bool, str, str]:
    counts = membership.members.counts
    old = counts.outdated(findings.revision)
    told = f"{len(membership.joins)} joining, {counts.leaving} leaving, {old} with an older template"
    if findings.trouble:
        return conditions.PROGRESSING, True, "Troubled", f"{told}; {findings.trouble}"
    if findings.blocked:
        return conditions.PROGRESSING, True, "Blocked", f"{told}; Slurm does not let go: {listed(findings.blocked)}"
    moving = bool(membership.joins or counts.leaving or old or counts.terminating)
    return (
        conditions.PROGRESSING,
        moving,
        "Changing" if moving else "Settled",
        told if moving else "nothing is under way",
    )


def _held(membership: Membership) -> str:
    return (
        f"{membership.held} of {len(membership.members)} members no longer fit, and the spec was not changed: nobody leaves. If "
        f"it is meant, annotate the NodeSet with {names.ACCEPT_LOSS}={membership.held}"
    )


def listed(found: Sequence[tuple[str, str]]) -> str:
    told = "; ".join(f"{name}: {why}" for name, why in found[:_SHOWN])
    return f"{told}; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else told
