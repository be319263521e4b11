"""Reads what `release` decides upon, and writes.

A Node is written only as the version that was read before its Pods were: if the operator locks it for a new job in
between, the write is refused, and all is read and decided again.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from sunk.insight.node.release import (
    Situation,
    Surroundings,
    kept_drain,
    left,
    lock_patch,
    marks,
    marks_patch,
    objection,
)
from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Json, Strategic
from sunk.kube.core import LEASES, NODES, PODS, Lease, Node, Pod
from sunk.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from sunk.model import hostlist, names
from sunk.model.refusal import Refusal
from sunk.model.wording import counted
from sunk.objects.nodesets import NODESETS, NodeSet
from sunk.operator.commands import NAME

ATTEMPTS: Final = 5
AT_ONCE: Final = 16
LATELY: Final = timedelta(minutes=1)
"""An operator that has renewed its Lease since then runs, whatever its clock says."""
_COMPUTE: Final = f"{names.COMPONENT}={names.COMPUTE}"


class ReleaseOptions(Struct, frozen=True):
    all_marks: bool = False
    force: bool = False
    dry_run: bool = False


class ReleaseOutcome(Struct, frozen=True):
    """What became of one Node. `refused` if nothing was written because something speaks against it."""

    node: str
    words: str
    done: bool = False
    refused: bool = False
    idle: bool = False
    """There was nothing to take off."""


async def release(client: Client, chosen: Sequence[Node], options: ReleaseOptions) -> list[ReleaseOutcome]:
    """Release these Nodes, some at once. What goes wrong with one stops no other."""
    around = Surroundings(sets=await _sets(client), operator=await operator_runs(client))
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> ReleaseOutcome:
        async with turns:
            try:
                return await _release(client, name, around, options)
            except KubeError as error:
                return ReleaseOutcome(name, f"not released: {error}")

    return [*await asyncio.gather(*(one(node.metadata.name) for node in chosen))]


async def _release(client: Client, name: str, around: Surroundings, options: ReleaseOptions) -> ReleaseOutcome:
    refused = ""
    for _ in range(ATTEMPTS):
        try:
            node = await client.get(NODES, name)
            found = Situation(node, pods=await _compute_pods(client, name), around=around)
            if outcome := _without_writing(found, options):
                return outcome
            await _write(client, node, options)
            return ReleaseOutcome(name, _told(found, options), done=True)
        except (Conflict, Invalid) as error:
            refused = str(error)  # somebody has written meanwhile, or it is another Node of that name
        except NotFound:
            return ReleaseOutcome(name, "there is no such Node any more", idle=True)
    return ReleaseOutcome(name, f"not released after {ATTEMPTS} attempts: {refused}")


def _without_writing(found: Situation, options: ReleaseOptions) -> ReleaseOutcome | None:
    """What there is to say if nothing is to be written."""
    name, there = found.node.metadata.name, marks(found.node, all_marks=options.all_marks)
    if not there:
        others = left(found.node)
        more = f", but {counted(len(others), 'other mark')} of SUNK, which --all-marks takes off" if others else ""
        return ReleaseOutcome(name, f"has no lock{more}" if not options.all_marks else "carries nothing", idle=True)
    if (against := objection(found, all_marks=options.all_marks)) and not options.force:
        return ReleaseOutcome(name, against, refused=True)
    return ReleaseOutcome(name, _told(found, options), done=True) if options.dry_run else None


async def _write(client: Client, node: Node, options: ReleaseOptions) -> None:
    if (operations := lock_patch(node)) is not None:
        node = await client.patch(NODES, node.metadata.name, Json(operations))
    if options.all_marks and (body := marks_patch(node)) is not None:
        await client.patch(NODES, node.metadata.name, Strategic(body), subresource="status")


def _told(found: Situation, options: ReleaseOptions) -> str:
    gone = ", ".join(marks(found.node, all_marks=options.all_marks))
    text = f"{'would take off' if options.dry_run else 'took off'} {gone}"
    if options.all_marks and kept_drain(found.node):
        text += f". {names.KEPT_DRAIN} stays: someone has drained this machine"
    elif not options.all_marks and found.owner is None and (others := left(found.node)):
        text += f". {counted(len(others), 'other mark')} of SUNK would go with --all-marks"
    against = objection(found, all_marks=options.all_marks)
    return f"{text}. Forced, although {against}" if against else text


# Reading


async def chosen(client: Client, targets: Sequence[str], *, selector: str) -> tuple[Node, ...]:
    """The Nodes that are meant: by selector, by name, or by the name of their Slurm node."""
    if selector:
        return (await client.list(NODES, Scope(labels=selector))).items
    found = {node.metadata.name: node for target in targets for node in [await _node(client, target)]}
    return tuple(found.values())


def expanded(targets: Sequence[str]) -> tuple[str, ...]:
    """Names out of hostlists."""
    try:
        return tuple(dict.fromkeys(name for target in targets for name in hostlist.expand(target)))
    except ValueError as error:
        raise Refusal(f"{', '.join(targets)}: neither names nor hostlists: {error}") from error


async def _node(client: Client, name: str) -> Node:
    try:
        return await client.get(NODES, name)
    except NotFound:
        found = (await client.list(NODES, Scope(labels=f"{names.POD}={name}"))).items
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(sorted(node.metadata.name for node in found))
        raise Refusal(f"several Nodes have a Slurm node {name}: name one of {which}")
    raise Refusal(f"{name} is neither a Node nor a Slurm node that a Node is labelled with: see `kubectl get nodes`")


async def _compute_pods(client: Client, node: str) -> tuple[Pod, ...] | None:
    try:
        return (await client.list(PODS, Scope(labels=_COMPUTE, fields=f"spec.nodeName={node}"))).items
    except Forbidden:
        return None


async def _sets(client: Client) -> tuple[NodeSet, ...] | None:
    try:
        return (await client.list(NODESETS)).items
    except Forbidden:
        return None
    except NotFound:  # the CRDs are gone, and all NodeSets with them
        return ()


async def operator_runs(client: Client) -> bool | None:
    """Whether an operator leads anywhere; None if Leases may not be listed."""
    try:
        leases = (await client.list(LEASES, Scope(fields=f"metadata.name={NAME}"))).items
    except Forbidden:
        return None
    return any(is_held(lease, now=client.clock.now()) for lease in leases)


def is_held(lease: Lease, *, now: datetime) -> bool:
    """One that ends gives its Lease back; one that was killed leaves it, and renews it no more."""
    renewed = lease.spec.renew_time
    return bool(lease.spec.holder_identity) and renewed is not None and now - renewed < LATELY
