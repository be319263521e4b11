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
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from sunk.kube.api.limits import Bucket
from sunk.kube.control.controller import Controller, Effort, Requeue, Source
from sunk.kube.control.events import about
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.contract.report import Report
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.records import Node, Reservation
from sunk.syncer.context import Context
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.members import Member, Members
from sunk.syncer.pods import ComputePod, finished, terminating
from sunk.syncer.removal.blockers import blocker, down_blocker, has_personal_drain
from sunk.syncer.removal.guard import Guard, Permit

log = logging.getLogger(__name__)

AGAIN: Final = 5.0
TRIES: Final = 10
_NO_HELP: Final = "Recreating the Slurm node did not help: compare its definition with slurm.conf and gres.conf"
_DETAIL: Final = re.compile(r"\([^)]*\)")
"""What Slurm adds to GRES: sockets, indices."""


def differences(shape: str, node: Node) -> list[str]:
    """What a Pod says of its node and Slurm has otherwise, such as `CPUs=8 (Slurm has 4)`."""
    actual = {"CPUs": str(node.cpus), "RealMemory": str(node.memory), "Gres": _DETAIL.sub("", node.gres)}
    wanted = dict(word.partition("=")[::2] for word in shape.split())
    return [
        f"{key}={wanted[key] or 'none'} (Slurm has {value or 'none'})"
        for key, value in actual.items()
        if key in wanted and _sorted(wanted[key]) != _sorted(value)
    ]


def _sorted(text: str) -> list[str]:
    return sorted(text.split(","))


class ShapeSnapshot(Struct, frozen=True):
    """What a Pod says of its size, and what Slurm says of its node."""

    shape: str
    node: Node
    tried: str | None = None
    """The shape for which its record was last recreated."""
    jobs: tuple[int, ...] = ()
    """Those that hold it, by their own word."""
    reservations: tuple[Reservation, ...] = ()


class SameShape(Struct, frozen=True):
    """The record has what the Pod says."""


class OtherShape(Struct, frozen=True):
    """The record differs, and may be deleted."""


class KeptShape(Struct, frozen=True):
    """The record differs, and has to stay."""

    stuck: str = ""
    """What a person should know; empty if it will pass by itself."""


def compare(snapshot: ShapeSnapshot) -> SameShape | OtherShape | KeptShape:
    """Whether a record has to be recreated. A job ends by itself; a drain and a reservation are a person's."""
    node, different = snapshot.node, differences(snapshot.shape, snapshot.node)
    if not different:
        return SameShape()
    message = _message(node, different)
    if snapshot.tried == snapshot.shape:
        return KeptShape(f"{message}. {_NO_HELP}")
    if has_personal_drain(node):
        return KeptShape(f"{message}. Its Slurm node will be updated after the drain is lifted ({node.reason})")
    if why := blocker(node, jobs=snapshot.jobs, reservations=snapshot.reservations):
        return KeptShape("" if snapshot.jobs else _not_yet(node, different, why=why))
    return OtherShape()


def _message(node: Node, different: Iterable[str]) -> str:
    return f"the Pod of {node.name} has {' and '.join(different)}"


def _not_yet(node: Node, different: Iterable[str], *, why: str) -> str:
    return f"{_message(node, different)}. Its Slurm node cannot be updated yet: {why}"


def may_reshape(pod: ComputePod, member: Member | None) -> bool:
    """Whether the size of its record matters: the Pod is to stay."""
    joined = member is not None and member.entry.state == "joined"
    going = terminating(pod) or finished(pod) or names.PENDING_DELETION in pod.metadata.annotations
    return joined and not going


def restart_reason(_: ComputePod, node: Node | None) -> str:
    """Why a Pod has to be restarted whose record was deleted; empty if Slurm knows it again."""
    return "its size changed, and its Slurm node was deleted" if node is None else ""


class ReshapeController:
    """Has records deleted that differ from their Pods, and such Pods restarted as may have registered with them."""

    def __init__(
        self, context: Context, members: Members, jobs_by_node: JobsByNode, guard: Guard, *, restarts: Bucket
    ) -> None:
        self._context = context
        self._members = members
        self._jobs_by_node = jobs_by_node
        self._guard = guard
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
        if pod is None or self._due(pod) is None:
            return None
        try:
            return await self._reconcile_on_fresh_read(key)
        except (Stale, SlurmError) as unsure:
            log.info("%s: not recreating the Slurm node yet: %s", key, unsure)
            return Requeue(after=AGAIN)

    async def _reconcile_on_fresh_read(self, key: Key) -> Requeue | None:
        """Go by reads of both sides that begin now."""
        permit = await self._guard.permit()
        pod = await permit.confirm(key)
        node = None if pod is None else self._due(pod)
        # The guard checks leadership too, before it writes. Here it keeps a restart from being taken for nothing.
        if pod is None or node is None or not self._context.may_write():
            return None
        started = _has_started(pod)
        if started and (self._is_on_trial(pod) or not self._restarts.try_take()):
            return Requeue(after=AGAIN)
        return await self._recreate(pod, node, permit=permit, restart=started)

    def _due(self, pod: ComputePod) -> Node | None:
        """The row of its record, if that differs and may go."""
        name, shape, mirror = pod.metadata.name, _shape(pod), self._context.mirror
        node = mirror.nodes.get(name)
        if node is None or not isinstance(mirror.state, Known) or not may_reshape(pod, self._members.get(name)):
            return None
        jobs, reservations = self._jobs_by_node.ids(name), mirror.reservations.all()
        compared = compare(ShapeSnapshot(shape, node, self._tried.get(name), jobs=jobs, reservations=reservations))
        if isinstance(compared, SameShape):
            self._tried.pop(name, None)
            self._proven.add(shape)
        elif isinstance(compared, KeptShape) and compared.stuck:
            self._stuck[name] = compared.stuck
        return node if isinstance(compared, OtherShape) else None

    def _is_on_trial(self, pod: ComputePod) -> bool:
        """Whether another Pod was restarted for the same shape, and has not shown yet that Slurm takes it."""
        shape = _shape(pod)
        trials = (name for name, tried in self._tried.items() if tried == shape and name in self._members)
        return shape not in self._proven and any(trials)

    async def _recreate(self, pod: ComputePod, node: Node, *, permit: Permit, restart: bool) -> Requeue | None:
        """The record first: Slurm refuses if a job has just come, and once it is gone none can come."""
        context, name = self._context, pod.metadata.name
        deleted = await permit.delete_records({name: node}, drain_blocker=down_blocker)
        if name not in deleted.done:
            if why := deleted.refused.get(name):
                self._stuck[name] = _not_yet(node, differences(_shape(pod), node), why=why)
            return Requeue(after=AGAIN)
        self._tried[name] = _shape(pod)
        log.warning("deleted Slurm node %s: its Pod has a different size now", name)
        note = "Pod size changed: recreating its Slurm node"
        context.recorder.tell(about(pod, kind="Pod"), "Reshaped", note, action="DeleteRecord")
        await context.mirror.read_after()
        if restart:
            # By what it is now, and more than once: that its node is gone is just being written to it.
            await permit.restart(pod, reason=restart_reason, tries=TRIES)
        return None


def _shape(pod: ComputePod) -> str:
    return pod.metadata.annotations.get(names.SHAPE, "")


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
