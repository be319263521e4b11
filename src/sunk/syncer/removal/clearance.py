"""Clear to delete: the word upon which the NodeSet controller deletes a Pod that has to go, and its revocation.

A Pod may go when its node takes no new jobs and has none. Both have to be so in one read of Slurm that was begun for this
question and is whole: one made earlier may have missed a resume and the job that followed. The clearance names the
drain that it stands on. If that drain is another one by now, or anything else of it is no longer so, the clearance is
taken back; it and the deletion both carry the version of the Pod that they saw, so only one of them can succeed.

It also carries the date of that read, since we may die and take nothing back any more
(`sunk.model.contract.clearance`). One that got too old is taken off by the NodeSet controller, which is how it asks for
another; so nothing is written while nobody is there to act upon it.

A node that Slurm does not know has no job. But a slurmd that has just begun may register at any moment, and be given one
at once; so that has to be so for a while, and it is not believed at all while most of the Pods are unknown to Slurm.
"""

import logging
import math
from datetime import datetime
from typing import Final

from msgspec import Struct

from sunk.kube.control.controller import Controller, Effort, Requeue, Source
from sunk.kube.resource import Key
from sunk.model import loopclock, names
from sunk.model.contract import clearance as dated, drains
from sunk.model.contract.report import Report
from sunk.slurm.mirror.confidence import Known, Stale, State
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase
from sunk.syncer.context import Context
from sunk.syncer.drains.snapshot import standing
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.pods import ComputePod, condition, terminating
from sunk.syncer.removal.guard import Guard
from sunk.syncer.removal.unregistered import SETTLED, RegistrationCounter

log = logging.getLogger(__name__)

AGAIN: Final = 2.0
OLD: Final = 10.0
"""Seconds since the last read of Slurm after which clearances are taken back: one that hangs may take twice as long."""
WORKERS: Final = 64
"""All who wait for a read share one, so this many are cleared by each."""


def cleared_drain(node: Node | None, *, held: bool) -> str | None:
    """The drain upon which a Pod may go, as its clearance names it, by what Slurm says of its node; None if it may not."""
    if held:
        return None
    if node is None:
        return "0:Slurm does not know it"
    # Somebody who set a node down has taken it out of service already, and that reason is not to be written over.
    personal = node.state.base is NodeBase.DOWN and not node.state.busy and drains.is_personal(standing(node))
    if node.state.drained or personal:
        return f"{node.reason_time}:{node.reason}"
    return None


class ClearanceFacts(Struct, frozen=True):
    """What is known when it is decided whether a Pod may go."""

    node: Node | None
    """None if Slurm has no such node."""
    held: bool = False
    """A job holds it, by the jobs' own word."""
    trusted: bool = True
    """Slurm answers, and what it says is believed."""
    unknown_long: bool = False
    """Slurm has not known the Pod for long enough, and knows most of the others."""


def wanted_clearance(pod: ComputePod, facts: ClearanceFacts) -> str | None:
    """The clearance that a Pod should have; None if it may not go, or need not."""
    if names.PENDING_DELETION not in pod.metadata.annotations or not facts.trusted:
        return None
    if facts.node is None and not facts.unknown_long:
        return None
    return cleared_drain(facts.node, held=facts.held)


def settled(pod: ComputePod, *, known_for: float, now: datetime) -> bool:
    """Whether Slurm answers for long enough, and has not known this very Pod for as long, as the Pod itself says."""
    written = condition(pod, names.SLURM_RUNNING)
    if known_for < SETTLED or written is None or written.status != "Unknown" or written.last_transition_time is None:
        return False
    return (now - written.last_transition_time).total_seconds() >= SETTLED


class ClearanceController:
    """Decides on the annotation `clear-to-delete` of Pods; the NodeSet controller takes it off together with its own."""

    def __init__(self, context: Context, jobs_by_node: JobsByNode, guard: Guard) -> None:
        self._context = context
        self._jobs_by_node = jobs_by_node
        self._guard = guard
        self._registration = RegistrationCounter(context.pods.store, context.mirror.nodes)
        self._trusted = False
        effort = Effort(workers=WORKERS)
        source = Source(context.pods.store, _concerned)
        self.controller: Final[Controller[Key]] = Controller(
            "clearance", self._reconcile, sources=[source], effort=effort
        )
        context.mirror.nodes.subscribe(lambda name, *_: self._enqueue(name))
        context.mirror.subscribe(self._on_read)
        jobs_by_node.subscribe(self._enqueue)

    def report(self) -> Report:
        """Say why Pods that Slurm does not know are not cleared."""
        lost = self._registration.lost()
        waits = lost and any(self._waits_for_slurm(pod) for pod in self._context.pods.store.all())
        return Report(held=lost if waits else "")

    def _enqueue(self, name: str) -> None:
        pod = self._context.pod(name)
        if pod is not None and _concerned(pod):
            self.controller.enqueue(pod.key)

    def _on_read(self, state: State) -> None:
        """When Slurm is lost, or no longer believed, all clearances are taken back."""
        trusted = isinstance(state, Known) and not self._context.mirror.suspicious
        if trusted != self._trusted:
            self._trusted = trusted
            for pod in self._context.pods.store.all():
                for key in _concerned(pod):
                    self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> Requeue | None:
        pod = self._context.pods.store.get(key)
        if pod is None or terminating(pod):
            return None
        wanted = self._decide(pod)
        if wanted == _current(pod):
            return self._later(pod)
        if wanted is None:
            await self._revoke(pod)
            return self._later(pod)
        try:
            await self._clear(key)
        except Stale as unsure:
            log.info("%s is not cleared: %s", key, unsure)
            return Requeue(after=AGAIN)
        return self._later(pod)

    async def _clear(self, key: Key) -> None:
        """Decide once more, by a read that begins now."""
        permit = await self._guard.permit()
        pod = self._context.pods.store.get(key)
        wanted = None if pod is None else self._decide(pod)
        if pod is None or wanted == _current(pod):
            return
        if wanted is None:
            await self._revoke(pod)
        elif await permit.clear(pod, drain=wanted):
            log.info("%s is cleared to be deleted: %s", key, wanted)

    async def _revoke(self, pod: ComputePod) -> None:
        if await self._guard.revoke(pod):
            log.info("%s is no longer cleared", pod.key)

    def _later(self, pod: ComputePod) -> Requeue | None:
        """A node that Slurm does not know is waited for, and no row will tell; nor will any of a read that hangs."""
        cleared = _current(pod) is not None
        waits = names.PENDING_DELETION in pod.metadata.annotations and not cleared
        unknown = pod.metadata.name not in self._context.mirror.nodes
        return Requeue(after=AGAIN) if cleared or (waits and unknown) else None

    def _decide(self, pod: ComputePod) -> str | None:
        """The clearance a Pod should have, by what is known now."""
        mirror, name = self._context.mirror, pod.metadata.name
        node = mirror.nodes.get(name)
        facts = ClearanceFacts(
            node=node,
            held=self._jobs_by_node.has_jobs(name),
            trusted=isinstance(mirror.state, Known) and not mirror.suspicious and mirror.age <= OLD,
            unknown_long=node is None and self._settled(pod) and not self._registration.lost(),
        )
        return wanted_clearance(pod, facts)

    def _settled(self, pod: ComputePod) -> bool:
        state, now = self._context.mirror.state, self._context.client.clock.now()
        known_for = loopclock.now() - state.since if isinstance(state, Known) else -math.inf
        return settled(pod, known_for=known_for, now=now)

    def _waits_for_slurm(self, pod: ComputePod) -> bool:
        unknown = (
            names.PENDING_DELETION in pod.metadata.annotations and pod.metadata.name not in self._context.mirror.nodes
        )
        return unknown and not terminating(pod) and self._settled(pod)


def _current(pod: ComputePod) -> str | None:
    """The drain that its clearance stands on; empty if it cannot be read, which is another than any."""
    text = pod.metadata.annotations.get(names.CLEAR_TO_DELETE)
    if text is None:
        return None
    current = dated.read(text)
    return "" if current is None else current.drain


def _concerned(pod: ComputePod) -> tuple[Key, ...]:
    """Only Pods that have to go, or had to, are of any concern here."""
    marks = pod.metadata.annotations
    return (pod.key,) if names.PENDING_DELETION in marks or names.CLEAR_TO_DELETE in marks else ()
