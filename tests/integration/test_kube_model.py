"""Whatever happens to the server and to the way there: in the end every store is true and every key was looked at.

A random history of writes, by us through the kit and by strangers beside it, runs while the API server and etcd are
killed and started again, old versions are compacted away and the connection is cut or stalls. This needs an API server
that no other test uses.
"""

import asyncio
import logging
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec import Struct
from tests.cable import Cable

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.api.retry import Retry
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Stale, number
from sunk.kube.cache.watch import WatchPace
from sunk.kube.control.controller import Controller, Effort, Source, itself
from sunk.kube.core import CONFIG_MAPS, NAMESPACES, ConfigMap
from sunk.kube.errors import KubeError
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.controlplane import ETCD, ControlPlane
from sunk.local.kubernetes.process import Daemon, running as daemons, start
from sunk.local.kubernetes.spec import ClusterSpec
from sunk.local.shell import run
from sunk.model.backoff import BackOff

PREFIX = "test-frail-"
PATIENCE = 90.0
HASTY = WatchPace(silence=2.0, first_delay=0.02, longest_delay=0.3)

COMPACT = f"""
import json, urllib.request
def post(path, body):
    return json.load(urllib.request.urlopen("{ETCD}" + path, data=json.dumps(body).encode()))
now = post("/v3/kv/range", {{"key": "AA=="}})["header"]["revision"]
post("/v3/kv/compaction", {{"revision": now, "physical": True}})
"""


@pytest.fixture(scope="module")
def frail() -> Iterator[LocalCluster]:
    """An API server to be mistreated. The ones of test runs that were killed are cleared away."""
    for name in clusters.names():
        if name.startswith(PREFIX) and not Path("/proc", name.removeprefix(PREFIX)).exists():
            clusters.remove(name)
    made = clusters.up(ClusterSpec(name=f"{PREFIX}{os.getpid()}", nodes=()), assets=assets.fill(images=False))
    yield made
    clusters.remove(made.name)


class Write(Struct, frozen=True):
    """One step of the history: a name is written into the selection or out of it, deleted, or recreated."""

    name: str
    act: str
    ours: bool


class World:
    """One namespace, two collections of its ConfigMaps behind one cable, and what two controllers have seen there."""

    def __init__(  # noqa: PLR0913 - one keyword per way to the server
        self, cluster: LocalCluster, namespace: str, *, near: Client, calm: Client, far: Client, cable: Cable
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.near = near
        self.calm = calm
        """Is in no hurry: what it asks is no part of the history, and has to be answered."""
        self.far = far
        self.cable = cable
        scopes = {"all": Scope(namespace=namespace), "chosen": Scope(namespace=namespace, labels="place=in")}
        self.collections = {
            name: Collection(far, CONFIG_MAPS, scope, indexes={"color": color}, pace=HASTY)
            for name, scope in scopes.items()
        }
        self.seen: dict[str, dict[Key, str]] = {name: {} for name in scopes}

    def controller(self, name: str) -> Controller[Key]:
        store, seen = self.collections[name].store, self.seen[name]

        async def reconcile(key: Key) -> None:
            await asyncio.sleep(0)
            held = store.get(key)
            seen[key] = held.metadata.resource_version if held else ""

        effort = Effort(back_off=BackOff(first=0.01, longest=0.1))
        return Controller(name, reconcile, sources=[Source(store, itself)], effort=effort)

    @asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        duties = {f"follow {name}": each.run() for name, each in self.collections.items()}
        async with running(duties | {f"reconcile {name}": self.controller(name).run() for name in self.collections}):
            for each in self.collections.values():
                await each.store.complete()
            yield

    async def write(self, one: Write) -> None:
        """Carry out a step. That it may come to nothing, or nobody may know, is part of the history."""
        key = Key(self.namespace, one.name)
        with suppress(KubeError):
            if one.act in ("delete", "renew"):
                await self._delete(key, ours=one.ours)
            if one.act != "delete":
                await self._put(key, place="out" if one.act == "out" else "in", ours=one.ours)

    async def _delete(self, key: Key, *, ours: bool) -> None:
        if not ours:
            await self.near.delete(CONFIG_MAPS, key.name, namespace=key.namespace)
            return
        everything = self.collections["all"]
        before = everything.store.get(key)
        await everything.delete(key)
        after = everything.store.get(key)
        assert after is None or before is None or after.metadata.uid != before.metadata.uid

    async def _put(self, key: Key, *, place: str, ours: bool) -> None:
        body = {"metadata": {"name": key.name, "labels": {"place": place}}, "data": {"color": place, "by": str(ours)}}
        everything = self.collections["all"]
        exists, where, patch = key in everything.store, key.namespace, Merge(body)
        if not ours:
            if exists:
                await self.near.patch(CONFIG_MAPS, key.name, patch, namespace=where)
            else:
                await self.near.create(CONFIG_MAPS, body, namespace=where)
            return
        answer = await (everything.patch(key, patch) if exists else everything.create(key, body))
        held = everything.store.get(key)
        assert held is not None, "our own write is not there"
        assert number(held) >= number(answer), "our own write was taken back"

    async def is_true(self) -> None:
        """The watch alone makes every store equal to a new list, and every key was looked at in its last state."""
        async with asyncio.timeout(PATIENCE):
            for name, each in self.collections.items():
                await each.store.certain()
                truth = await self.truth(name)
                while not (self.known(name) == truth and self.reconciled(name)):
                    await asyncio.sleep(0.05)
                    truth = await self.truth(name)  # a write that nobody waits for any longer may still be carried out
                painted = {one.key for one in truth.values() if one.data.get("color") == "in"}
                assert {one.key for one in each.store.by("color", "in")} == painted
                await self.caught_up(each)
                assert self.known(name) == truth

    async def caught_up(self, collection: Collection[ConfigMap]) -> None:
        """Ask for proof until the server has given it: its answer is waited for as briefly as everything else."""
        while True:
            with suppress(Stale):
                return await collection.catch_up()
            await asyncio.sleep(0.1)

    async def truth(self, name: str) -> dict[Key, ConfigMap]:
        scope = Scope(namespace=self.namespace, labels="place=in" if name == "chosen" else "")
        return {one.key: one for one in (await self.calm.list(CONFIG_MAPS, scope)).items}

    def known(self, name: str) -> dict[Key, ConfigMap]:
        return {one.key: one for one in self.collections[name].store.all()}

    def reconciled(self, name: str) -> bool:
        last = {key: one.metadata.resource_version for key, one in self.known(name).items()}
        seen = self.seen[name]
        return last.keys() <= seen.keys() and all(version == last.get(key, "") for key, version in seen.items())

    # What is done to it

    async def cut(self) -> None:
        self.cable.cut()
        await asyncio.sleep(0.3)
        self.cable.mend()

    async def stall(self) -> None:
        self.cable.stall()
        await asyncio.sleep(HASTY.silence + 0.5)
        self.cable.mend()

    async def kill_api(self) -> None:
        await self._kill("kube-apiserver", lambda plane: plane.api_server())

    async def kill_etcd(self) -> None:
        await self._kill("etcd", lambda plane: plane.etcd())

    async def forget(self) -> None:
        """Drop all history while nobody is connected: no watch can be resumed, each has to list again."""
        inside = ["ip", "netns", "exec", self.cluster.network.namespace]
        self.cable.cut()
        for _ in range(3):
            await self.calm.create(CONFIG_MAPS, {"metadata": {"generateName": "x-"}}, namespace=self.namespace)
        await asyncio.to_thread(run, [*inside, sys.executable, "-c", COMPACT])
        await self.kill_api()
        self.cable.mend()

    async def _kill(self, name: str, daemon: Callable[[ControlPlane], Daemon]) -> None:
        home = self.cluster.home
        os.kill(daemons(home)[name], signal.SIGKILL)
        while name in daemons(home):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        parts = assets.fill(images=False).parts
        start(daemon(ControlPlane(parts=parts, folder=self.cluster.folder, network=self.cluster.network)), home=home)
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(ready, self.cluster):
                await asyncio.sleep(0.1)


def color(one: ConfigMap) -> tuple[str, ...]:
    return (one.data["color"],) if "color" in one.data else ()


def ready(cluster: LocalCluster) -> bool:
    trust = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "authority.crt"))
    try:
        with urlopen(f"{cluster.server}/readyz", context=trust, timeout=2):
            return True
    except OSError:
        return False


@asynccontextmanager
async def world_on(cluster: LocalCluster, *, namespace: str) -> AsyncIterator[World]:
    direct, cable = access.from_kubeconfig(cluster.kubeconfig), Cable()
    async with (
        Client(direct, retry=Retry(within=PATIENCE)) as calm,
        Client(direct, timeout=2.0) as near,
        cable.laid(direct) as through,
        Client(through, timeout=2.0) as far,
    ):
        await calm.create(NAMESPACES, {"metadata": {"name": namespace}})
        world = World(cluster, namespace, near=near, calm=calm, far=far, cable=cable)
        async with world.live():
            yield world


MANY = 25  # different writes: the simplest example of all, with which hypothesis begins, is a waste of time here
FAULTS = ("cut", "stall", "kill_api", "kill_etcd", "forget")
WRITES = st.builds(
    Write,
    name=st.sampled_from([f"m-{number}" for number in range(5)]),
    act=st.sampled_from(["in", "in", "out", "delete", "renew"]),
    ours=st.booleans(),
)
HISTORIES = st.tuples(
    st.permutations(FAULTS), st.lists(st.lists(WRITES, min_size=15, max_size=40), min_size=6, max_size=6)
).filter(lambda history: len({write for writes in history[1] for write in writes}) > MANY)
SERIAL = iter(range(1000))


@given(history=HISTORIES)
@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],  # a smaller history is of no use: the next run meets the server in another state
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.timeout(900)
async def test_after_a_random_history_every_store_is_true_and_every_key_was_looked_at(
    frail: LocalCluster, caplog: pytest.LogCaptureFixture, history: tuple[list[str], list[list[Write]]]
) -> None:
    faults, writes = history
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="sunk.kube.cache.watch"):
        async with world_on(frail, namespace=f"model-{next(SERIAL)}") as world:
            for fault, meanwhile in zip(("quiet", *faults), writes, strict=True):
                await together(getattr(world, fault, quiet), world, meanwhile)
            await world.is_true()
    assert any("listing again" in line for line in caplog.messages), "the server has forgotten nothing (no 410)"


async def together(fault: Callable[[], Awaitable[None]], world: World, writes: list[Write]) -> None:
    """Let the writes go on before, during and after the fault."""

    async def write() -> None:
        for one in writes:
            await world.write(one)

    async with asyncio.TaskGroup() as group:
        group.create_task(write(), name="writes")
        await asyncio.sleep(0.02)
        await fault()


async def quiet() -> None:
    return
