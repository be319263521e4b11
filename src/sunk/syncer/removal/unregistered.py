"""Pods that Slurm does not know, though their slurmd runs: they are started anew, one at a time.

A slurmd registers when it starts and never again by itself. If its record is deleted under it, nobody tells it; nor if
slurmctld keeps calling an address that was another Pod's. Both look well from inside, and get no job for ever. A new
start mends either.

But a slurmctld that lost its state knows none of them, and their jobs may run on, for somebody to bring the state back.
So if most of the Pods that should be known are not, none is touched, and that is said.
"""

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from sunk.kube.api.limits import Bucket
from sunk.kube.control.events import about
from sunk.model import loopclock, names
from sunk.model.contract import drains
from sunk.model.contract.report import Report
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.context import Ground
from sunk.syncer.members import Members
from sunk.syncer.pods import ComputePod, condition, ready
from sunk.syncer.removal import restarting
from sunk.syncer.removal.holders import Holders
from sunk.syncer.rounds import Rounds

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
PAUSE: Final = 10.0
"""Seconds between two restarts, over all Pods."""
LONGEST: Final = 3600.0
FRESH: Final = 5.0
SETTLED: Final = 15.0
"""Seconds for which Slurm has to answer: a slurmd looks for slurmctld once in ten."""
_SILENT: Final = NodeFlag.NOT_RESPONDING.value


class Names(Protocol):
    def __contains__(self, name: str, /) -> bool: ...


def lost(pods: Iterable[ComputePod], known: Names) -> str:
    """Say so if Slurm does not know most of the Pods that are ready; empty if it knows enough of them."""
    ready_ones = [pod.metadata.name for pod in pods if ready(pod)]
    return told_lost([name for name in ready_ones if name not in known], of=len(ready_ones))


def told_lost(unknown: Collection[str], *, of: int) -> str:
    if 2 * len(unknown) <= of:
        return ""
    return (
        f"Slurm does not know {len(unknown)} of the {of} Pods that are ready, {min(unknown)} among them: if "
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


def since(pod: ComputePod, node: Node | None) -> datetime | None:
    """Since when it is one, by what we have written on the Pod; None if it does not say so yet.

    Every copy reads the same there: one that leads again has not watched meanwhile, and one that leads for the first
    time need not begin to count.
    """
    kind, status = (names.SLURM_RUNNING, "Unknown") if node is None else (names.SLURM_NOT_RESPONDING, "True")
    told, begun = condition(pod, kind), condition(pod, "Ready")
    if told is None or told.status != status or told.last_transition_time is None:
        return None
    # Who is not ready is no stranger, so it counts from when it was both.
    times = [told.last_transition_time, begun.last_transition_time if begun is not None else None]
    return max(time for time in times if time is not None)


class Waits:
    """How long each has to be a stranger to be started anew: longer each time. Who was tried last comes last."""

    def __init__(self, first: float) -> None:
        self._first = first
        self._waits: dict[str, float] = {}
        self._tried: dict[str, int] = {}
        self._tries = 0

    def due(self, ages: Mapping[str, float]) -> list[str]:
        """Hear who is a stranger now, all of them, and for how many seconds. Give those for whom it is time, in turn."""
        self._tried = {name: at for name, at in self._tried.items() if name in ages}
        able = [name for name, age in ages.items() if age >= self.wait(name)]
        return sorted(able, key=lambda name: (self._tried.get(name, 0), name))

    def tries(self, name: str) -> None:
        """Hear that one is tried. Whatever comes of it, the others are next."""
        self._tries += 1
        self._tried[name] = self._tries

    def wait(self, name: str) -> float:
        return self._waits.get(name, self._first)

    def restarted(self, name: str) -> None:
        self._waits[name] = min(2 * self.wait(name), LONGEST)

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
        self._held_until = -math.inf
        self.work: Final = Rounds(
            "strangers",
            self.look,
            follows=(ground.pods, ground.slices),
            period=min(PERIOD, ground.manner.restart_unknown_after / 2),
        )

    def report(self) -> Report:
        return Report(held=self._held)

    async def look(self) -> None:
        state = self._ground.mirror.state
        if not isinstance(state, Known):
            return
        strangers = self._strangers()
        for name in self._waits.tried:
            if name not in strangers and name in self._ground.mirror.nodes:
                self._waits.known(name)
        due = self._waits.due({name: self._age(pod) for name, pod in strangers.items()})
        self._held = self._lost(strangers) if due else ""
        if self._held:
            self._held_until = loopclock.now()
        # A slurmd looks for a slurmctld that was away once in ten seconds. And where most were unknown a moment ago, the
        # others may be about to register as well.
        patience = self._ground.manner.restart_unknown_after
        if loopclock.now() - state.since < min(SETTLED, patience) or loopclock.now() - self._held_until < patience:
            return
        if due and not self._held and not self._ground.mirror.suspicious and self._restarts.try_take():
            self._waits.tries(due[0])
            await self._restart(strangers[due[0]])

    def _age(self, pod: ComputePod) -> float:
        """For how many seconds a Pod has been a stranger, by the clock that all copies of us hear of."""
        begun = since(pod, self._ground.mirror.nodes.get(pod.metadata.name))
        return 0.0 if begun is None else (self._ground.client.clock.now() - begun).total_seconds()

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
        if not await restarting.ask(ground, found, why=why):
            return  # it is another by now, and looked at again
        self._waits.restarted(name)
        log.warning("Pod %s is started anew: it is ready, but %s", found.key, why)
        note = "to be replaced: its slurmd runs, but {why}"
        ground.recorder.warn(about(found, kind="Pod"), "UnknownToSlurm", note, action="Restart", why=why)
