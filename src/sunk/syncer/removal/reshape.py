"""Nodes whose Pod was recreated with another size or other GPUs: Slurm's record has to be recreated too.

A slurmd says how large its node is when it first registers, and Slurm keeps that for as long as it has the record: later
a larger size or other GPUs are ignored, and a smaller one drains the node as invalid. So the record of the old Pod has
to go before the slurmd of the new one registers. Nobody can promise that it does; but what a Pod says of itself can be
compared with what Slurm has, at any time. Hence the rule, which needs no memory and no particular moment:

    A record that differs from its Pod is deleted as soon as no job is on it. If the slurmd of the Pod may have
    registered by then, it is restarted, since nobody tells it that its record is gone.

In an update this meets a record that is drained and idle, since the old Pod was cleared, and a slurmd that has not yet
begun: the new Pod is seen the moment it is created. Wherever we die in between, the next reconcile finds a difference,
or a slurmd that Slurm does not know (`unregistered`).

Left as they are: a node that somebody has drained or reserved, for their drain would go with the record; and a record
that differs again after it was recreated, since then it is Slurm that reads the Pod otherwise. The report names both.
Lest all Pods of a definition that Slurm reads otherwise are restarted for nothing, the first one has to prove it. What a
Pod leaves open, because its size comes from its Node, is not compared.
"""

import logging
import re
from typing import Final

from sunk.kube.api.limits import Bucket
from sunk.kube.control.controller import Controller, Effort, Requeue, Source
from sunk.kube.control.events import about
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.contract.report import Report
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.records import Node
from sunk.syncer.context import Context
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.members import Members
from sunk.syncer.pods import ComputePod, finished, terminating
from sunk.syncer.removal.blockers import blocker, has_personal_drain
from sunk.syncer.removal.unregistered import request_restart

log = logging.getLogger(__name__)

FRESH: Final = 5.0
AGAIN: Final = 5.0
TRIES: Final = 10
_DETAIL: Final = re.compile(r"\([^)]*\)")
"""What Slurm adds to GRES: sockets, indices."""


def differences(shape: str, node: Node) -> list[str]:
    """What a Pod says of its node and Slurm has otherwise, such as `CPUs=8 where Slurm has 4`."""
    actual = {"CPUs": str(node.cpus), "RealMemory": str(node.memory), "Gres": _DETAIL.sub("", node.gres)}
    wanted = dict(word.partition("=")[::2] for word in shape.split())
    return [
        f"{key}={wanted[key]} where Slurm has {value or 'none'}"
        for key, value in actual.items()
        if key in wanted and _sorted(wanted[key]) != _sorted(value)
    ]


def _sorted(text: str) -> list[str]:
    return sorted(text.split(","))


class ReshapeController:
    """Deletes records that differ from their Pods, and such Pods as may have registered with them."""

    def __init__(self, context: Context, members: Members, jobs_by_node: JobsByNode, *, restarts: Bucket) -> None:
        self._context = context
        self._members = members
        self._jobs_by_node = jobs_by_node
        self._restarts = restarts
        self._tried: dict[str, str] = {}
        """For which shape the record of a name was last recreated."""
        self._proven: set[str] = set()
        """Shapes that Slurm has taken as they were meant."""
        self._stuck: dict[str, str] = {}
        self.controller: Final[Controller[Key]] = Controller(
            "reshape", self._reconcile, sources=[Source(context.pods.store, _shaped)], effort=Effort(workers=2)
        )
        context.mirror.nodes.subscribe(self._on_row)
        jobs_by_node.subscribe(self._enqueue)
        members.subscribe(self._enqueue)

    def report(self) -> Report:
        return Report(stuck=tuple(self._stuck.values()))

    def _on_row(self, name: str, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _fingerprint(before) != _fingerprint(after):
            self._enqueue(name)

    def _enqueue(self, name: str) -> None:
        pod = self._context.pod(name)
        if pod is not None and _shaped(pod):
            self.controller.enqueue(pod.key)

    async def _reconcile(self, key: Key) -> Requeue | None:
        pod = self._context.pods.store.get(key)
        self._stuck.pop(key.name, None)
        if pod is None or not self._is_due(pod):
            return None
        try:
            return await self._reconcile_on_fresh_read(key)
        except (Stale, SlurmError) as unsure:
            log.info("%s: its record is not made anew: %s", key, unsure)
            return Requeue(after=AGAIN)

    async def _reconcile_on_fresh_read(self, key: Key) -> Requeue | None:
        """Go by reads of both sides that begin now."""
        await self._context.mirror.read_after(whole=True)
        self._context.mirror.require_fresh(within=FRESH)
        pod = await self._context.pods.confirm(key)
        if pod is None or not self._is_due(pod) or not self._context.may_write():
            return None
        started = _has_started(pod)
        if started and (self._is_on_trial(pod) or not self._restarts.try_take()):
            return Requeue(after=AGAIN)
        return await self._recreate(pod, restart=started)

    def _is_due(self, pod: ComputePod) -> bool:
        """Whether its record differs, and may go."""
        name, shape = pod.metadata.name, pod.metadata.annotations.get(names.SHAPE, "")
        node = self._context.mirror.nodes.get(name)
        if node is None or not isinstance(self._context.mirror.state, Known) or not self._is_joined(pod):
            return False
        different = differences(shape, node)
        if not different:
            self._tried.pop(name, None)
            self._proven.add(shape)
            return False
        message = f"{name} is made with {'; '.join(different)}"
        if self._tried.get(name) == shape:
            self._stuck[name] = f"{message}, also as a new node: compare its definition with slurm.conf and gres.conf"
        elif has_personal_drain(node):
            self._stuck[name] = f"{message}: it is changed when nobody drains it any more ({node.reason})"
        elif why := self._blocker(node):
            self._note(name, message, why)
        else:
            return True
        return False

    def _is_on_trial(self, pod: ComputePod) -> bool:
        """Whether another Pod was restarted for the same shape, and has not shown yet that Slurm takes it."""
        shape = pod.metadata.annotations.get(names.SHAPE, "")
        trials = (name for name, tried in self._tried.items() if tried == shape and name in self._members)
        return shape not in self._proven and any(trials)

    def _is_joined(self, pod: ComputePod) -> bool:
        member = self._members.get(pod.metadata.name)
        joined = member is not None and member.entry.state == "joined"
        going = terminating(pod) or finished(pod) or names.PENDING_DELETION in pod.metadata.annotations
        return joined and not going

    def _blocker(self, node: Node) -> str:
        reservations = self._context.mirror.reservations.all()
        return blocker(node, jobs=self._jobs_by_node.ids(node.name), reservations=reservations)

    def _note(self, name: str, message: str, why: str) -> None:
        """A job ends by itself; a reservation is a person's."""
        if not self._jobs_by_node.has_jobs(name):
            self._stuck[name] = f"{message}: it is changed when it can be: {why}"

    async def _recreate(self, pod: ComputePod, *, restart: bool) -> Requeue | None:
        """The record first: Slurm refuses if a job has just come, and once it is gone none can come."""
        context, name = self._context, pod.metadata.name
        node = context.mirror.nodes.get(name)
        outcome = await context.orders.delete([name], seen={} if node is None else {name: node})
        if name not in outcome.done:
            return Requeue(after=AGAIN)
        self._tried[name] = pod.metadata.annotations.get(names.SHAPE, "")
        log.warning("the record of %s is deleted: its Pod is of another size now", name)
        note = "its size has changed, so Slurm's record of it was made anew"
        context.recorder.tell(about(pod, kind="Pod"), "Reshaped", note, action="DeleteRecord")
        await context.mirror.read_after()
        if restart:
            await self._restart(pod)
        return None

    async def _restart(self, pod: ComputePod) -> None:
        """Have the Pod replaced, by what it is now: that its node is gone is just being written to it."""
        context = self._context
        for _ in range(TRIES):
            current = await context.pods.confirm(pod.key)
            known = pod.metadata.name in context.mirror.nodes
            if current is None or current.metadata.uid != pod.metadata.uid or known or not context.may_write():
                return
            if await request_restart(
                context, current, why="its size has changed, and Slurm's record of it was deleted"
            ):
                return


def _shaped(pod: ComputePod) -> tuple[Key, ...]:
    return (pod.key,) if names.SHAPE in pod.metadata.annotations else ()


def _fingerprint(node: Node) -> tuple[object, ...]:
    return node.state_bits, node.reason, node.cpus, node.memory, node.gres


def _has_started(pod: ComputePod) -> bool:
    """Whether its slurmd may have registered."""
    for container in pod.status.container_statuses:
        if container.name == names.SLURMD:
            state = container.state
            return container.restart_count > 0 or state.running is not None or state.terminated is not None
    return False
