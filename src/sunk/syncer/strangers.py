"""Pods that Slurm does not know, though their slurmd runs: they are started anew, one at a time.

A slurmd registers when it starts and never again by itself. If its record is deleted under it, nobody tells it; nor if
slurmctld keeps calling an address that was another Pod's. Both look well from inside, and get no job for ever. A new
start mends either.

But a slurmctld that lost its state knows none of them, and their jobs may run on, for somebody to bring the state back.
So if most of the Pods that should be known are not, none is touched, and that is said.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from sunk.kube.client import Deletion, Preconditions
from sunk.kube.errors import Conflict, NotFound
from sunk.kube.events import about
from sunk.kube.limits import Bucket
from sunk.model import drains, names
from sunk.model.report import Report
from sunk.slurm.belief import Known
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.ground import Ground
from sunk.syncer.holders import Holders
from sunk.syncer.members import Members
from sunk.syncer.pods import ComputePod, ready
from sunk.syncer.rounds import Rounds

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
PAUSE: Final = 10.0
"""Seconds between two restarts, over all Pods."""
LONGEST: Final = 3600.0
FRESH: Final = 5.0
_SILENT: Final = NodeFlag.NOT_RESPONDING.value


class Names(Protocol):
    def __contains__(self, name: str, /) -> bool: ...


def lost(pods: Iterable[ComputePod], known: Names) -> str:
    """Say so if Slurm does not know most of the Pods that are ready; empty if it knows enough of them."""
    ready_ones = [pod.metadata.name for pod in pods if ready(pod)]
    unknown = [name for name in ready_ones if name not in known]
    if 2 * len(unknown) <= len(ready_ones):
        return ""
    return (
        f"Slurm does not know {len(unknown)} of the {len(ready_ones)} Pods that are ready, {min(unknown)} among them: if "
        "slurmctld lost its state, bring it back; if it is meant to begin anew, delete these Pods"
    )


def is_stranger(pod: ComputePod, node: Node | None) -> bool:
    """Whether slurmctld and this slurmd will not find each other by themselves."""
    if node is None:
        return True
    return is_silent(node) and bool(pod.status.pod_ip) and node.address not in {pod.status.pod_ip, "", node.name}


def is_silent(node: Node) -> bool:
    """Whether slurmctld has lost it."""
    given_up = node.state.base is NodeBase.DOWN and node.reason == drains.NOT_RESPONDING
    return given_up or bool(node.state_bits & _SILENT)


class Waits:
    """For how long each has been a stranger, and how long it has to be one to be started anew: longer each time."""

    def __init__(self, first: float) -> None:
        self._first = first
        self._since: dict[str, tuple[str, float]] = {}
        self._waits: dict[str, float] = {}

    def due(self, strangers: Mapping[str, str], *, now: float) -> list[str]:
        """Hear who is a stranger now, all of them, each with the uid of its Pod. Give those for whom it is time."""
        old = self._since
        self._since = {
            name: old[name] if name in old and old[name][0] == uid else (uid, now) for name, uid in strangers.items()
        }
        return [name for name, (_, since) in self._since.items() if now - since >= self.wait(name)]

    def wait(self, name: str) -> float:
        return self._waits.get(name, self._first)

    def restarted(self, name: str) -> None:
        self._waits[name] = min(2 * self.wait(name), LONGEST)
        self._since.pop(name, None)

    def known(self, name: str) -> None:
        """Hear that a node is well: the next time begins anew."""
        self._waits.pop(name, None)

    @property
    def tried(self) -> tuple[str, ...]:
        return tuple(self._waits)


class Strangers:
    """Deletes Pods, so that the NodeSet controller makes them anew."""

    def __init__(self, ground: Ground, members: Members, holders: Holders, *, restarts: Bucket) -> None:
        self._ground = ground
        self._members = members
        self._holders = holders
        self._restarts = restarts
        self._waits = Waits(ground.manner.restart_unknown_after)
        self._held = ""
        self.work: Final = Rounds(
            "strangers",
            self.look,
            follows=(ground.pods, ground.slices),
            period=min(PERIOD, ground.manner.restart_unknown_after / 2),
        )

    def report(self) -> Report:
        return Report(held=self._held)

    async def look(self) -> None:
        if not isinstance(self._ground.mirror.state, Known):
            self._waits.due({}, now=_now())  # nobody knows for how long they have been known or not
            return
        strangers = self._strangers()
        for name in self._waits.tried:
            if name not in strangers and name in self._ground.mirror.nodes:
                self._waits.known(name)
        due = self._waits.due({name: pod.metadata.uid for name, pod in strangers.items()}, now=_now())
        self._held = self._lost(strangers) if due else ""
        if due and not self._held and not self._ground.mirror.suspicious and self._restarts.try_take():
            await self._restart(strangers[due[0]])

    def _strangers(self) -> dict[str, ComputePod]:
        """Hardly any Pod is one, and that is looked at first: there may be thousands."""
        rows, pods = self._ground.mirror.nodes, self._ground.pods.store.all()
        found = (pod for pod in pods if is_stranger(pod, rows.get(pod.metadata.name)))
        return {pod.metadata.name: pod for pod in found if self._is_meant(pod)}

    def _lost(self, strangers: Collection[str]) -> str:
        """Why none of them is started anew: they are too many for the fault to be theirs."""
        pods = [pod for pod in self._ground.pods.store.all() if self._is_meant(pod)]
        if 2 * len(strangers) <= len(pods):
            return ""
        silent = (
            f"slurmctld does not reach {len(strangers)} of the {len(pods)} Pods that are ready: look at the network"
        )
        return lost(pods, self._ground.mirror.nodes) or silent

    def _is_meant(self, pod: ComputePod) -> bool:
        member = self._members.get(pod.metadata.name)
        leaving = member is None or member.entry.state != "joined"
        return ready(pod) and not leaving and names.PENDING_DELETION not in pod.metadata.annotations

    async def _restart(self, pod: ComputePod) -> None:
        ground, name = self._ground, pod.metadata.name
        await ground.mirror.read_after(whole=True)
        ground.mirror.require_fresh(within=FRESH)
        found = await ground.pods.confirm(pod.key)
        node = ground.mirror.nodes.get(name)
        same = found is not None and found.metadata.uid == pod.metadata.uid and self._is_meant(found)
        if found is None or not same or not is_stranger(found, node) or self._holders.holds(name):
            return
        why = "Slurm has no node of this name" if node is None else f"slurmctld calls it at {node.address}, in vain"
        if not ground.may_write():
            return
        at = Preconditions(uid=found.metadata.uid, resource_version=found.metadata.resource_version)
        try:
            await ground.pods.delete(found.key, Deletion(preconditions=at))
        except (Conflict, NotFound):
            return  # it is another by now, and looked at again
        self._waits.restarted(name)
        log.warning("Pod %s is started anew: it is ready, but %s", found.key, why)
        note = "deleted to be made anew: its slurmd runs, but {why}"
        ground.recorder.warn(about(found, kind="Pod"), "UnknownToSlurm", note, action="Restart", why=why)


def _now() -> float:
    return asyncio.get_running_loop().time()
