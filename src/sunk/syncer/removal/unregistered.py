"""Pods that Slurm does not know, though their slurmd runs: they are replaced, one at a time.

A slurmd registers when it starts and never again by itself. If its record is deleted under it, nobody tells it; nor if
slurmctld keeps calling an address that was another Pod's. Both look well from inside, and never get a job. A restart
mends either.

But a slurmctld that lost its state knows none of them, and their jobs may run on, for somebody to bring the state back.
So if most of the Pods that should be registered are not, none is touched, and the report says so. `RegistrationCounter`
keeps that number, also for clearances.

Only the NodeSet controller deletes compute Pods. The syncer may not: a right to delete one Pod of a namespace is a right
to delete any. The guard writes an annotation through the status of the Pod, and the NodeSet controller heeds it while it
is young and the Pod's conditions still say that Slurm does not know it.
"""

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final, Protocol

from sunk.kube.api.limits import Bucket
from sunk.kube.cache.store import Store
from sunk.kube.control.events import about
from sunk.kube.resource import Key
from sunk.model import loopclock, names
from sunk.model.backoff import BackOff
from sunk.model.contract import drains
from sunk.model.contract.report import Report
from sunk.model.wording import verb
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.context import Context
from sunk.syncer.members import Member, Members
from sunk.syncer.pods import ComputePod, condition, ready
from sunk.syncer.removal.guard import Guard
from sunk.syncer.work import PeriodicWork

log = logging.getLogger(__name__)

PERIOD: Final = 5.0
LONGEST: Final = 3600.0
SETTLED: Final = 15.0
"""Seconds for which Slurm has to answer before it counts whom it does not know: a slurmd looks for slurmctld once in ten.
A clearance waits as long for the Pod itself too."""
_NOT_RESPONDING: Final = NodeFlag.NOT_RESPONDING.value


class KnownNames(Protocol):
    def __contains__(self, name: str, /) -> bool: ...


def lost(pods: Iterable[ComputePod], known: KnownNames) -> str:
    """Say so if Slurm does not know most of the Pods that are ready; empty if it knows enough of them."""
    ready_pods = [pod.metadata.name for pod in pods if ready(pod)]
    return _lost([name for name in ready_pods if name not in known], of=len(ready_pods))


def _lost(unknown: Collection[str], *, of: int) -> str:
    if 2 * len(unknown) <= of:
        return ""
    return (
        f"{len(unknown)} of {of} ready Pods {verb(len(unknown))} not registered in Slurm, for example {min(unknown)}. "
        "If slurmctld lost its state, restore it. If you reset it on purpose, delete these Pods"
    )


def is_unregistered(pod: ComputePod, node: Node | None) -> bool:
    """Whether slurmctld and this slurmd will not find each other by themselves."""
    if node is None:
        return True
    elsewhere = node.address not in {pod.status.pod_ip, "", node.name}
    return is_not_responding(node) and bool(pod.status.pod_ip) and elsewhere


def is_not_responding(node: Node) -> bool:
    """Whether slurmctld has lost it."""
    given_up = node.state.base is NodeBase.DOWN and node.reason == drains.NOT_RESPONDING
    return given_up or bool(node.state_bits & _NOT_RESPONDING)


def unregistered_since(pod: ComputePod, node: Node | None) -> datetime | None:
    """Since when it is unregistered, by what we have written on the Pod; None if it does not say so yet.

    Every copy reads the same there: a copy that leads again has not watched meanwhile, and one that leads for the first
    time need not begin to count.
    """
    kind, status = (names.SLURM_RUNNING, "Unknown") if node is None else (names.SLURM_NOT_RESPONDING, "True")
    written, ready_condition = condition(pod, kind), condition(pod, "Ready")
    if written is None or written.status != status or written.last_transition_time is None:
        return None
    # A Pod that is not ready does not count, so it counts from when it was both.
    ready_since = ready_condition.last_transition_time if ready_condition is not None else None
    return max(time for time in (written.last_transition_time, ready_since) if time is not None)


def should_be_registered(pod: ComputePod, member: Member | None) -> bool:
    leaving = member is None or member.entry.state != "joined"
    return ready(pod) and not leaving and names.PENDING_DELETION not in pod.metadata.annotations


def restart_reason(pod: ComputePod, node: Node | None, *, member: Member | None) -> str:
    """Why a Pod has to be restarted; empty if it need not be."""
    if not should_be_registered(pod, member) or not is_unregistered(pod, node):
        return ""
    return "Slurm has no node of this name" if node is None else f"slurmctld cannot reach it at {node.address}"


def why_held(unregistered: Collection[str], *, of: Collection[ComputePod], known: KnownNames) -> str:
    """Why none of them is restarted: they are too many of those that should be registered for the fault to be theirs."""
    if 2 * len(unregistered) <= len(of):
        return ""
    silent = f"slurmctld cannot reach {len(unregistered)} of {len(of)} ready Pods: check the network"
    return lost(of, known) or silent


def registrations_settled(*, known_for: float, held_before: float, wait: float) -> bool:
    """Whether those that are unregistered now will not register by themselves.

    A slurmd looks for a slurmctld that was away once in ten seconds. And where most were unknown a moment ago, the others
    may be about to register as well. Both are in seconds: since Slurm answers, and since most were unknown.
    """
    return known_for >= min(SETTLED, wait) and held_before >= wait


class RegistrationCounter:
    """How many of the Pods that are ready Slurm knows. Followed for as long as the store of Pods and the mirror are.

    It is asked for every Pod that has to go. To walk through all Pods each time would make a thousand of them cost a
    million comparisons.
    """

    def __init__(self, pods: Store[ComputePod], nodes: Rows[str, Node]) -> None:
        self._nodes = nodes
        self._ready: set[str] = set()
        self._unknown: set[str] = set()
        for pod in pods.all():
            self._on_pod(pod.key, None, pod)
        pods.subscribe(self._on_pod)
        nodes.subscribe(lambda name, _, after: self._note(name, known=after is not None))

    def lost(self) -> str:
        """Say so if Slurm does not know most of the Pods that are ready; empty if it knows enough of them."""
        return _lost(self._unknown, of=len(self._ready))

    def _on_pod(self, key: Key, _: ComputePod | None, after: ComputePod | None) -> None:
        is_ready = after is not None and ready(after)
        (self._ready.add if is_ready else self._ready.discard)(key.name)
        self._note(key.name, known=key.name in self._nodes)

    def _note(self, name: str, *, known: bool) -> None:
        (self._unknown.add if name in self._ready and not known else self._unknown.discard)(name)


class RestartBackOff:
    """How long each Pod has to be unregistered before a restart: longer each time. Those tried last come last."""

    def __init__(self, first: float) -> None:
        self._back_off = BackOff(first, longest=max(first, LONGEST))
        self._restarts: dict[str, int] = {}
        self._tried: dict[str, int] = {}
        self._tries = 0

    def due(self, ages: Mapping[str, float]) -> list[str]:
        """Take all that are unregistered now, and for how many seconds. Return those whose time has come, in turn."""
        self._tried = {name: at for name, at in self._tried.items() if name in ages}
        due = [name for name, age in ages.items() if age >= self.wait(name)]
        return sorted(due, key=lambda name: (self._tried.get(name, 0), name))

    def try_next(self, name: str) -> None:
        """Note that this one is tried. Whatever comes of it, the others are next."""
        self._tries += 1
        self._tried[name] = self._tries

    def wait(self, name: str) -> float:
        return self._back_off.delay(self._restarts.get(name, 0) + 1)

    def restarted(self, name: str) -> None:
        self._restarts[name] = self._restarts.get(name, 0) + 1

    def forget(self, name: str) -> None:
        """Note that a node is well: the next time starts from the first wait."""
        self._restarts.pop(name, None)

    @property
    def restarted_names(self) -> tuple[str, ...]:
        return tuple(self._restarts)


class UnregisteredPods:
    """Asks for restarts of Pods, which the NodeSet controller carries out."""

    def __init__(self, context: Context, members: Members, guard: Guard, *, restarts: Bucket) -> None:
        self._context = context
        self._members = members
        self._guard = guard
        self._restarts = restarts
        self._back_off = RestartBackOff(context.settings.restart_unknown_after)
        self._held = ""
        self._held_until = -math.inf
        self.work: Final = PeriodicWork(
            "unregistered",
            self.resync,
            follows=(context.pods, context.slices),
            period=min(PERIOD, context.settings.restart_unknown_after / 2),
        )

    def report(self) -> Report:
        return Report(held=self._held)

    async def resync(self) -> None:
        state = self._context.mirror.state
        if not isinstance(state, Known):
            return
        unregistered = self._unregistered()
        for name in self._back_off.restarted_names:
            if name not in unregistered and name in self._context.mirror.nodes:
                self._back_off.forget(name)
        due = self._back_off.due({name: self._age(pod) for name, pod in unregistered.items()})
        now, wait = loopclock.now(), self._context.settings.restart_unknown_after
        self._held = self._why_held(unregistered) if due else ""
        if self._held:
            self._held_until = now
        if not registrations_settled(known_for=now - state.since, held_before=now - self._held_until, wait=wait):
            return
        if due and not self._held and not self._context.mirror.suspicious and self._restarts.try_take():
            self._back_off.try_next(due[0])
            await self._restart(unregistered[due[0]])

    def _age(self, pod: ComputePod) -> float:
        """For how many seconds a Pod has been unregistered, by the clock that all copies of us share."""
        since = unregistered_since(pod, self._context.mirror.nodes.get(pod.metadata.name))
        return 0.0 if since is None else (self._context.client.clock.now() - since).total_seconds()

    def _unregistered(self) -> dict[str, ComputePod]:
        """Hardly any Pod is unregistered, and that is checked first: there may be thousands of Pods."""
        rows, pods = self._context.mirror.nodes, self._context.pods.store.all()
        unregistered = (pod for pod in pods if is_unregistered(pod, rows.get(pod.metadata.name)))
        return {pod.metadata.name: pod for pod in unregistered if self._should_be_registered(pod)}

    def _why_held(self, unregistered: Collection[str]) -> str:
        pods = [pod for pod in self._context.pods.store.all() if self._should_be_registered(pod)]
        return why_held(unregistered, of=pods, known=self._context.mirror.nodes)

    def _should_be_registered(self, pod: ComputePod) -> bool:
        return should_be_registered(pod, self._members.get(pod.metadata.name))

    async def _restart(self, seen: ComputePod) -> None:
        def reason(pod: ComputePod, node: Node | None) -> str:
            return restart_reason(pod, node, member=self._members.get(pod.metadata.name))

        permit = await self._guard.permit()
        restart = await permit.restart(seen, reason=reason)
        if restart is None:
            return  # it is well, or has changed and is looked at again
        pod, why = restart.pod, restart.why
        self._back_off.restarted(pod.metadata.name)
        log.warning("replacing Pod %s: it is ready, but %s", pod.key, why)
        note = "replacing this Pod: slurmd is running, but {why}"
        self._context.recorder.warn(about(pod, kind="Pod"), "UnknownToSlurm", note, action="Restart", why=why)
