"""Who leads, on a real API server: rivals, a process that is stopped for a while, a server that is out of reach."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import groupby
from pathlib import Path

import pytest
from msgspec import json
from tests.cable import Cable
from tests.conftest import Kube
from tests.contender import ACTS, LEASE, Note, Part

from sunk.kube.api.client import Client, Deletion, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.auth import access
from sunk.kube.cache.view import Changed
from sunk.kube.cache.watch import watch
from sunk.kube.control.lease import LeaderElection, identity
from sunk.kube.control.term import LeaseLost, LeaseTerm, LeaseTiming
from sunk.kube.core import CONFIG_MAPS, LEASES, ConfigMap
from sunk.kube.resource import Key

QUICK = LeaseTiming(duration=2, margin=0.6, interval=0.2)
"""To be lost on purpose."""
STEADY = LeaseTiming(duration=20, margin=10, interval=0.3)
"""Renewed in time also where processes stand still for seconds."""
LASTING = LeaseTiming(duration=600, margin=60, interval=0.3)
"""Never runs out in a test."""
PATIENCE = 90.0


class Fighter:
    """A contender's process, as seen from outside."""

    def __init__(self, process: "subprocess.Popen[bytes]", notes: Path) -> None:
        self.process = process
        self._notes = notes

    @property
    def notes(self) -> list[Note]:
        return [json.decode(line, type=Note) for line in self._notes.read_text().splitlines()]


class Ring:
    """The place where contenders fight, and what a bystander saw: who acted, in the order of the server."""

    def __init__(self, kube: Kube, folder: Path) -> None:
        self._kube = kube
        self._folder = folder
        self.seen: list[tuple[str, float]] = []
        self.holders: list[str] = []
        """Whoever the lease named, one after the other; empty is nobody, which it names when it is given back."""

    @property
    def spells(self) -> list[str]:
        return [by for by, _ in groupby(by for by, _ in self.seen)]

    @contextmanager
    def fighter(self, name: str) -> Iterator[Fighter]:
        notes = self._folder / f"{name}.notes"
        part = Part(name, str(self._kube.kubeconfig), self._kube.namespace, str(notes), STEADY)
        command = [sys.executable, "-m", "tests.contender", json.encode(part).decode()]
        notes.touch()
        process = subprocess.Popen(command)
        try:
            yield Fighter(process, notes)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(timeout=PATIENCE)

    async def look_on(self) -> None:
        scope = Scope(namespace=self._kube.namespace, fields=f"metadata.name={ACTS}")
        async with watch(self._kube.client, CONFIG_MAPS, scope) as events:
            async for event in events:
                if isinstance(event, Changed):
                    self._note(event.object)

    async def look_at_lease(self) -> None:
        scope = Scope(namespace=self._kube.namespace, fields=f"metadata.name={LEASE}")
        async with watch(self._kube.client, LEASES, scope) as events:
            async for event in events:
                if isinstance(event, Changed) and self.holders[-1:] != [event.object.spec.holder_identity]:
                    self.holders.append(event.object.spec.holder_identity)

    def _note(self, acts: ConfigMap) -> None:
        if acts.data:
            self.seen.append((acts.data["by"], time.monotonic()))

    async def first_to_act(self) -> str:
        async with asyncio.timeout(PATIENCE):
            while not self.seen:
                await asyncio.sleep(0.01)
        return self.seen[0][0]

    async def until_acting(self, name: str) -> float:
        """Wait for the next act of a contender; returns after how many seconds it came."""
        began, known = time.monotonic(), len(self.seen)
        async with asyncio.timeout(PATIENCE):
            while name not in [by for by, _ in self.seen[known:]]:
                await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def until_held(self, *names: str) -> None:
        """Wait until exactly these have been seen to hold the lease."""
        async with asyncio.timeout(PATIENCE):
            while self.holders != [*names]:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def ring(kube: Kube, folder: Path) -> AsyncIterator[Ring]:
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": ACTS}}, namespace=kube.namespace)
    made = Ring(kube, folder)
    looking = [asyncio.create_task(look, name="bystander") for look in (made.look_on(), made.look_at_lease())]
    yield made
    for each in looking:
        each.cancel()
    await asyncio.wait(looking)


async def test_a_leader_that_was_stopped_for_too_long_acts_no_more(kube: Kube, tmp_path: Path) -> None:
    async with ring(kube, tmp_path) as place:
        with place.fighter("a") as a, place.fighter("b") as b:
            names = "ab" if await place.first_to_act() == "a" else "ba"
            first, second = (a, b) if names == "ab" else (b, a)
            first.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            taken_over = await place.until_acting(names[1])
            first.process.send_signal(signal.SIGCONT)
            woken = time.monotonic()
            await asyncio.sleep(1)
            second.process.terminate()
            handed_over = await place.until_acting(names[0])
            await place.until_held(*names, "", names[0])  # given back, not run out
    assert place.spells == [*names, names[0]], "never two in turns"
    assert taken_over > STEADY.reach, "not before the first one had to stop"
    for note in a.notes + b.notes:
        assert not note.sent or note.at < note.deadline, "acts within its own deadline only"
    assert not [note for note in first.notes if note.sent and stopped + 0.1 < note.at < woken + 1]
    print(f"taken over after {taken_over:.2f} s, handed over in {handed_over:.2f} s, {len(place.seen)} acts")  # noqa: T201 - for whoever asks


async def _stay(lease: LeaderElection, started: asyncio.Event, *, ended: Callable[[], object] = lambda: None) -> None:
    async with lease.held():
        started.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended()


async def _follow(lease: LeaderElection, *, began: Callable[[], object]) -> bool:
    """Wait for the lease; returns whether it holds."""
    async with held(lease) as term:
        began()
        return term.holds()


@pytest.mark.parametrize("failure", ["cut", "stall"])
async def test_a_leader_that_cannot_reach_the_server_steps_down_in_time(kube: Kube, failure: str) -> None:
    cable, started = Cable(), asyncio.Event()
    order: list[str] = []
    async with cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through, Client(through) as far:
        losing = LeaderElection(far, Key(kube.namespace, "l"), timing=QUICK)
        waiting = LeaderElection(kube.client, Key(kube.namespace, "l"), timing=STEADY)
        leading = asyncio.create_task(_stay(losing, started, ended=lambda: order.append("ended")), name="leader")
        await started.wait()
        await asyncio.sleep(QUICK.interval * 2)
        following = asyncio.create_task(_follow(waiting, began=lambda: order.append("followed")), name="follower")
        getattr(cable, failure)()
        with pytest.raises(LeaseLost, match="not renewed in time"):
            await leading
        assert await following
        assert order == ["ended", "followed"], "stopped before anybody else could lead"
        assert not losing.statistics().leading


@asynccontextmanager
async def held(lease: LeaderElection) -> AsyncIterator[LeaseTerm]:
    async with asyncio.timeout(PATIENCE), lease.held() as term:
        yield term


async def test_a_lease_is_renewed_for_as_long_as_the_block_lasts(kube: Kube) -> None:
    lease = LeaderElection(kube.client, Key(kube.namespace, "l"), timing=STEADY)
    async with held(lease) as term:
        end_of_the_first = term.deadline
        while asyncio.get_running_loop().time() <= end_of_the_first or lease.statistics().renewals <= 5:
            await asyncio.sleep(0.1)
        assert term.holds()
        record = await kube.client.get(LEASES, "l", namespace=kube.namespace)
        assert record.spec.holder_identity == lease.name
    record = await kube.client.get(LEASES, "l", namespace=kube.namespace)
    assert record.spec.holder_identity == ""
    assert lease.statistics().terms == 1


async def test_a_lease_that_was_given_back_is_taken_at_once(kube: Kube) -> None:
    key = Key(kube.namespace, "l")
    async with held(LeaderElection(kube.client, key, timing=LASTING)):
        pass
    async with held(LeaderElection(kube.client, key, timing=LASTING)):
        pass  # long before it would have run out
    assert (await kube.client.get(LEASES, "l", namespace=kube.namespace)).spec.lease_transitions == 1


async def test_a_lease_taken_by_force_ends_the_block_at_the_next_renewal(kube: Kube) -> None:
    lease, started = LeaderElection(kube.client, Key(kube.namespace, "l"), timing=LASTING), asyncio.Event()
    leading = asyncio.create_task(_stay(lease, started), name="leader")
    await started.wait()
    patch = Merge({"spec": {"holderIdentity": "somebody"}})
    await kube.client.patch(LEASES, "l", patch, namespace=kube.namespace)
    with pytest.raises(LeaseLost, match="held by somebody"):
        await leading


async def test_a_deleted_lease_is_a_lost_one(kube: Kube) -> None:
    lease, started = LeaderElection(kube.client, Key(kube.namespace, "l"), timing=LASTING), asyncio.Event()
    leading = asyncio.create_task(_stay(lease, started), name="leader")
    await started.wait()
    await kube.client.delete(LEASES, "l", Deletion(), namespace=kube.namespace)
    with pytest.raises(LeaseLost, match="deleted"):
        await leading


async def test_somebody_who_annotates_the_lease_takes_nothing_away(kube: Kube) -> None:
    lease = LeaderElection(kube.client, Key(kube.namespace, "l"), timing=LASTING)
    async with held(lease) as term:
        for number in range(10):
            patch = Merge({"metadata": {"annotations": {"number": str(number)}}})
            await kube.client.patch(LEASES, "l", patch, namespace=kube.namespace)
            known = lease.statistics().renewals
            while lease.statistics().renewals < known + 2:  # one of them was sent after that
                await asyncio.sleep(0.02)
        assert term.holds()


def test_two_processes_never_have_the_same_identity() -> None:
    assert identity() != identity()
