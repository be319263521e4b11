"""Nodes whose Pod was made anew with another size or other GPUs: Slurm's record has to be made anew too.

A slurmd says how large its node is when it first registers, and Slurm keeps that for as long as it has the record: later
a larger size or other GPUs are ignored, and a smaller one drains the node as invalid. So the record of the old Pod has
to go before the slurmd of the new one registers. Nobody can promise that it does; but what a Pod says of itself can be
compared with what Slurm has, at any time. Hence the rule, which needs no memory and no particular moment:

    A record that differs from its Pod is deleted as soon as no job is on it. If the slurmd of the Pod may have
    registered by then, it is started anew, since nobody tells it that its record is gone.

In an update this meets a record that is drained and idle, since the old Pod was cleared, and a slurmd that has not yet
begun: the new Pod is seen the moment it is made. Wherever we die in between, the next look finds a difference, or a
slurmd that Slurm does not know (`strangers`).

Left as they are: a node that somebody has drained or reserved, for his drain would go with the record; and a record that
differs again after it was made anew, since then it is Slurm that reads the Pod otherwise. Both are said. Lest all Pods
of a definition that Slurm reads otherwise are started anew for nothing, the first one has to prove it. What a Pod leaves
open, because its size comes from its Node, is not compared.
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
from sunk.syncer.context import Ground
from sunk.syncer.members import Members
from sunk.syncer.pods import ComputePod, finished, terminating
from sunk.syncer.removal import restarting
from sunk.syncer.removal.blockers import hindrance, is_kept
from sunk.syncer.removal.holders import Holders

log = logging.getLogger(__name__)

FRESH: Final = 5.0
AGAIN: Final = 5.0
TRIES: Final = 10
_DETAIL: Final = re.compile(r"\([^)]*\)")
"""What Slurm adds to GRES: sockets, indices."""


def differences(shape: str, node: Node) -> list[str]:
    """What a Pod says of its node and Slurm has otherwise, such as `CPUs=8 where Slurm has 4`."""
    found = {"CPUs": str(node.cpus), "RealMemory": str(node.memory), "Gres": _DETAIL.sub("", node.gres)}
    said = dict(each.partition("=")[::2] for each in shape.split())
    return [
        f"{key}={said[key]} where Slurm has {value or 'none'}"
        for key, value in found.items()
        if key in said and _sorted(said[key]) != _sorted(value)
    ]


def _sorted(text: str) -> list[str]:
    return sorted(text.split(","))


class Reshape:
    """Deletes records that differ from their Pods, and such Pods as may have registered with them."""

    def __init__(self, ground: Ground, members: Members, holders: Holders, *, restarts: Bucket) -> None:
        self._ground = ground
        self._members = members
        self._holders = holders
        self._restarts = restarts
        self._tried: dict[str, str] = {}
        """For which shape the record of a name was last made anew."""
        self._proven: set[str] = set()
        """Shapes that Slurm has taken as they were meant."""
        self._stuck: dict[str, str] = {}
        self.controller: Final[Controller[Key]] = Controller(
            "reshape", self._reconcile, sources=[Source(ground.pods.store, _shaped)], effort=Effort(workers=2)
        )
        ground.mirror.nodes.subscribe(self._node)
        holders.subscribe(self._look)
        members.subscribe(self._look)

    def report(self) -> Report:
        return Report(stuck=tuple(self._stuck.values()))

    def _node(self, name: str, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _fingerprint(before) != _fingerprint(after):
            self._look(name)

    def _look(self, name: str) -> None:
        pod = self._ground.pod(name)
        if pod is not None and _shaped(pod):
            self.controller.enqueue(pod.key)

    async def _reconcile(self, key: Key) -> Requeue | None:
        pod = self._ground.pods.store.get(key)
        self._stuck.pop(key.name, None)
        if pod is None or not self._is_due(pod):
            return None
        try:
            return await self._look_anew(key)
        except (Stale, SlurmError) as unsure:
            log.info("%s: its record is not made anew: %s", key, unsure)
            return Requeue(after=AGAIN)

    async def _look_anew(self, key: Key) -> Requeue | None:
        """Go by reads of both sides that begin now."""
        await self._ground.mirror.read_after(whole=True)
        self._ground.mirror.require_fresh(within=FRESH)
        pod = await self._ground.pods.confirm(key)
        if pod is None or not self._is_due(pod) or not self._ground.may_write():
            return None
        started = _has_started(pod)
        if started and (self._is_on_trial(pod) or not self._restarts.try_take()):
            return Requeue(after=AGAIN)
        return await self._make_anew(pod, restart=started)

    def _is_due(self, pod: ComputePod) -> bool:
        """Whether its record differs, and may go."""
        name, shape = pod.metadata.name, pod.metadata.annotations.get(names.SHAPE, "")
        node = self._ground.mirror.nodes.get(name)
        if node is None or not isinstance(self._ground.mirror.state, Known) or not self._is_meant(pod):
            return False
        found = differences(shape, node)
        if not found:
            self._tried.pop(name, None)
            self._proven.add(shape)
            return False
        said = f"{name} is made with {'; '.join(found)}"
        if self._tried.get(name) == shape:
            self._stuck[name] = f"{said}, also as a new node: compare its definition with slurm.conf and gres.conf"
        elif is_kept(node):
            self._stuck[name] = f"{said}: it is changed when nobody drains it any more ({node.reason})"
        elif why := self._hindrance(node):
            self._note(name, said, why)
        else:
            return True
        return False

    def _is_on_trial(self, pod: ComputePod) -> bool:
        """Whether another was started anew for the same shape, and has not shown yet that Slurm takes it."""
        shape = pod.metadata.annotations.get(names.SHAPE, "")
        trials = (name for name, tried in self._tried.items() if tried == shape and name in self._members)
        return shape not in self._proven and any(trials)

    def _is_meant(self, pod: ComputePod) -> bool:
        member = self._members.get(pod.metadata.name)
        joined = member is not None and member.entry.state == "joined"
        going = terminating(pod) or finished(pod) or names.PENDING_DELETION in pod.metadata.annotations
        return joined and not going

    def _hindrance(self, node: Node) -> str:
        reservations = self._ground.mirror.reservations.all()
        return hindrance(node, jobs=self._holders.of(node.name), reservations=reservations)

    def _note(self, name: str, said: str, why: str) -> None:
        """A job ends by itself; a reservation is a person's."""
        if not self._holders.holds(name):
            self._stuck[name] = f"{said}: it is changed when it can be: {why}"

    async def _make_anew(self, pod: ComputePod, *, restart: bool) -> Requeue | None:
        """The record first: Slurm refuses if a job has just come, and once it is gone none can come."""
        ground, name = self._ground, pod.metadata.name
        node = ground.mirror.nodes.get(name)
        outcome = await ground.orders.delete([name], seen={} if node is None else {name: node})
        if name not in outcome.done:
            return Requeue(after=AGAIN)
        self._tried[name] = pod.metadata.annotations.get(names.SHAPE, "")
        log.warning("the record of %s is deleted: its Pod is of another size now", name)
        note = "its size has changed, so Slurm's record of it was made anew"
        ground.recorder.tell(about(pod, kind="Pod"), "Reshaped", note, action="DeleteRecord")
        await ground.mirror.read_after()
        if restart:
            await self._restart(pod)
        return None

    async def _restart(self, pod: ComputePod) -> None:
        """Have the Pod made anew, by what it is now: that its node is gone is just being written to it."""
        ground = self._ground
        for _ in range(TRIES):
            found = await ground.pods.confirm(pod.key)
            known = pod.metadata.name in ground.mirror.nodes
            if found is None or found.metadata.uid != pod.metadata.uid or known or not ground.may_write():
                return
            if await restarting.ask(ground, found, why="its size has changed, and Slurm's record of it was deleted"):
                return


def _shaped(pod: ComputePod) -> tuple[Key, ...]:
    return (pod.key,) if names.SHAPE in pod.metadata.annotations else ()


def _fingerprint(node: Node) -> tuple[object, ...]:
    return node.state_bits, node.reason, node.cpus, node.memory, node.gres


def _has_started(pod: ComputePod) -> bool:
    """Whether its slurmd may have registered."""
    for one in pod.status.container_statuses:
        if one.name == names.SLURMD:
            return one.restart_count > 0 or one.state.running is not None or one.state.terminated is not None
    return False
