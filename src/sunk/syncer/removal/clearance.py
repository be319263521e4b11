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
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from sunk.kube.api.patch import Merge
from sunk.kube.control.controller import Controller, Effort, Requeue, Source
from sunk.kube.errors import NotFound
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
from sunk.syncer.removal.unregistered import RegistrationCounter

log = logging.getLogger(__name__)

FRESH: Final = 5.0
"""Seconds since the begin of the read that a clearance stands on."""
SETTLED: Final = 15.0
"""Seconds for which a node has to be unknown to Slurm: a slurmd looks for slurmctld once in ten."""
AGAIN: Final = 2.0
WORKERS: Final = 64
"""All who wait for a read share one, so this many are cleared by each."""


def clearance(node: Node | None, *, held: bool) -> str | None:
    """The text that clears a Pod, by what Slurm says of its node; None if it may not go."""
    if held:
        return None
    if node is None:
        return "0:Slurm does not know it"
    # Somebody who set a node down has taken it out of service already, and that reason is not to be written over.
    personal = node.state.base is NodeBase.DOWN and not node.state.busy and drains.is_personal(standing(node))
    if node.state.drained or personal:
        return f"{node.reason_time}:{node.reason}"
    return None


class ClearanceController:
    """Writes the annotation `clear-to-delete` of Pods; but for the NodeSet controller, which takes it off with its own."""

    def __init__(self, context: Context, jobs_by_node: JobsByNode) -> None:
        self._context = context
        self._jobs_by_node = jobs_by_node
        self._registration = RegistrationCounter(context.pods.store, context.mirror.nodes)
        self._settling = min(SETTLED, context.settings.restart_unknown_after)
        self._trusted = False
        effort = Effort(workers=WORKERS)
        source = Source(context.pods.store, _concerned)
        self.controller: Final[Controller[Key]] = Controller(
            "clearing", self._reconcile, sources=[source], effort=effort
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
        if wanted is not None:
            try:
                wanted = await self._decide_on_fresh_read(key)
            except Stale as unsure:
                log.info("%s is not cleared: %s", key, unsure)
                return Requeue(after=AGAIN)
        await self._write(key, wanted)
        return self._later(pod)

    def _later(self, pod: ComputePod) -> Requeue | None:
        """A node that Slurm does not know is waited for, and no row will tell."""
        waits = names.PENDING_DELETION in pod.metadata.annotations and _current(pod) is None
        return Requeue(after=AGAIN) if waits and pod.metadata.name not in self._context.mirror.nodes else None

    def _decide(self, pod: ComputePod) -> str | None:
        """The clearance a Pod should have, by what is known now."""
        mirror = self._context.mirror
        if names.PENDING_DELETION not in pod.metadata.annotations:
            return None
        if not isinstance(mirror.state, Known) or mirror.suspicious:
            return None
        node = mirror.nodes.get(pod.metadata.name)
        if node is None and (not self._settled(pod) or self._registration.lost()):
            return None
        return clearance(node, held=self._jobs_by_node.has_jobs(pod.metadata.name))

    def _settled(self, pod: ComputePod) -> bool:
        """Whether Slurm answers for long enough, and has not known this very Pod for as long, as the Pod itself says."""
        state, written = self._context.mirror.state, condition(pod, names.SLURM_RUNNING)
        if not isinstance(state, Known) or loopclock.now() - state.since < self._settling:
            return False
        if written is None or written.status != "Unknown" or written.last_transition_time is None:
            return False
        return (self._context.client.clock.now() - written.last_transition_time).total_seconds() >= self._settling

    def _waits_for_slurm(self, pod: ComputePod) -> bool:
        unknown = (
            names.PENDING_DELETION in pod.metadata.annotations and pod.metadata.name not in self._context.mirror.nodes
        )
        return unknown and not terminating(pod) and self._settled(pod)

    async def _decide_on_fresh_read(self, key: Key) -> str | None:
        """The same, by a read that begins now."""
        await self._context.mirror.read_after(whole=True)
        self._context.mirror.require_fresh(within=FRESH)
        pod = self._context.pods.store.get(key)
        return None if pod is None else self._decide(pod)

    def _read_at(self) -> datetime:
        """When the last read of Slurm began, by the API server's clock."""
        return self._context.client.clock.now() - timedelta(seconds=self._context.mirror.age)

    async def _write(self, key: Key, wanted: str | None) -> None:
        pod = self._context.pods.store.get(key)
        if pod is None or _current(pod) == wanted or not self._context.may_write():
            return
        at = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        text = None if wanted is None else dated.write(wanted, read=self._read_at())
        change = Merge({"metadata": at | {"annotations": {names.CLEAR_TO_DELETE: text}}})
        with suppress(NotFound):
            await self._context.pods.patch(key, change, status=True)
        log.info("%s is %s", key, "no longer cleared" if wanted is None else f"cleared to be deleted: {wanted}")


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
