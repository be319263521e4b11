"""Streams of a real API server under floods and on bad connections, and what is left of a client when it is closed."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, closing, suppress
from typing import cast
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace
from tests.cable import Cable
from tests.conftest import Kube

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.auth import access
from sunk.kube.auth.access import Access
from sunk.kube.cache.view import Changed, Synced
from sunk.kube.cache.watch import USUAL, Watch, WatchPace
from sunk.kube.core import CONFIG_MAPS, NODES, ConfigMap

PATIENCE = 60.0


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not check():
            await asyncio.sleep(0.01)


class Follower:
    """The version of every ConfigMap as a watch has said it, read by somebody who takes his time."""

    def __init__(self, client: Client, scope: Scope, *, pace: WatchPace = USUAL) -> None:
        self.watch = Watch(client, CONFIG_MAPS, scope, pace=pace)
        self.versions: dict[str, int] = {}
        self.synced = False

    async def run(self, *, rest: float = 0.0) -> None:
        async with aclosing(self.watch.events()) as events:
            async for event in events:
                match event:
                    case Changed(one):
                        version = int(one.metadata.resource_version)
                        assert version >= self.versions.get(one.metadata.name, 0), "an older picture"
                        self.versions[one.metadata.name] = version
                    case Synced():
                        self.synced = True
                await asyncio.sleep(rest)


@asynccontextmanager
async def following(follower: Follower, *, rest: float = 0.0) -> AsyncIterator[None]:
    task = asyncio.create_task(follower.run(rest=rest), name="follow")
    await until(lambda: follower.synced)
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


class Writer:
    """Changes some ConfigMaps as fast as may be."""

    NAMES = tuple(f"m-{number}" for number in range(8))

    def __init__(self, kube: Kube) -> None:
        self._client = kube.client
        self._namespace = kube.namespace
        self.scope = Scope(namespace=kube.namespace, labels="test=yes")
        self.versions: dict[str, int] = {}

    async def fill(self) -> None:
        for name in self.NAMES:
            body = {"metadata": {"name": name, "labels": {"test": "yes"}}}
            self._note(await self._client.create(CONFIG_MAPS, body, namespace=self._namespace))

    async def flood(self, *, rounds: int) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self.NAMES:
                group.create_task(self._change(name, rounds), name=f"write {name}")

    async def _change(self, name: str, rounds: int) -> None:
        for number in range(rounds):
            patch = Merge({"data": {"count": f"{number} of {rounds}"}})
            self._note(await self._client.patch(CONFIG_MAPS, name, patch, namespace=self._namespace))

    def _note(self, found: ConfigMap) -> None:
        self.versions[found.metadata.name] = int(found.metadata.resource_version)


@pytest.mark.parametrize("rest", [0.0, 0.02], ids=["quick", "slow"])
async def test_a_flood_comes_through_as_a_whole_however_slow_its_reader(kube: Kube, rest: float) -> None:
    writer = Writer(kube)
    await writer.fill()
    follower = Follower(kube.client, writer.scope)
    async with following(follower, rest=rest):
        known = follower.watch.statistics().events
        await writer.flood(rounds=20)
        await until(lambda: follower.versions == writer.versions)
        assert follower.watch.statistics().events - known >= 20 * len(Writer.NAMES), "each change by itself"
        assert follower.watch.statistics().streams == 1


@asynccontextmanager
async def wired(kube: Kube) -> AsyncIterator[tuple[Cable, Client]]:
    cable = Cable()
    async with cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through, Client(through) as client:
        yield cable, client


async def test_a_connection_that_falls_silent_in_a_flood_is_noticed(kube: Kube) -> None:
    writer = Writer(kube)
    await writer.fill()
    pace = WatchPace(silence=3.0, first_delay=0.02, longest_delay=0.1)
    async with wired(kube) as (cable, client):
        follower = Follower(client, writer.scope, pace=pace)
        async with following(follower):
            await writer.flood(rounds=5)
            before = follower.watch.statistics().streams
            cable.stall()
            await writer.flood(rounds=1)
            await until(lambda: follower.watch.statistics().silence > 2 * pace.silence)
            cable.mend()
            await until(lambda: follower.versions == writer.versions)
            # A server that has nothing to say for so long looks the same, so there may have been more.
            assert follower.watch.statistics().streams > before


# A gateway in between


@asynccontextmanager
async def gateway(found: Access) -> AsyncIterator[Access]:
    """Lay a way to the API server through one of those gateways that answer 426 to HTTP/1.0."""
    goal, tasks = urlsplit(found.server), asyncio.TaskGroup()
    serving: list[asyncio.Task[None]] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(tasks.create_task(serve(reader, writer), name="serve"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
            asked = await reader.readuntil(b"\r\n\r\n")
            if b" HTTP/1.0\r\n" in asked:
                writer.write(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            far, beyond = await asyncio.open_connection(goal.hostname, goal.port, ssl=found.tls)
            with closing(beyond):
                beyond.write(asked)
                while chunk := await far.read(65536):
                    writer.write(chunk)
                    await writer.drain()

    async with tasks:
        server = await asyncio.start_server(begin, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield replace(found, server=f"http://127.0.0.1:{port}", tls=None)
        finally:
            server.close()
            for one in serving:  # the API server has nothing more to say to them for a minute
                one.cancel()


async def test_a_gateway_that_refuses_old_http_is_spoken_to_in_the_new_one(
    kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    writer = Writer(kube)
    await writer.fill()
    async with gateway(access.from_kubeconfig(kube.kubeconfig)) as through, Client(through) as client:
        follower = Follower(client, writer.scope)
        async with following(follower):
            await writer.flood(rounds=2)
            await until(lambda: follower.versions == writer.versions)
            shown = follower.watch.statistics()
    assert (shown.failures, shown.streams) == (1, 1)
    assert sum("426" in line for line in caplog.messages) == 1


# What is left of a client


def connected(server: str) -> list[socket.socket]:
    """Every socket of this process that leads to an address."""
    parts = urlsplit(server)
    goal = parts.hostname, parts.port

    def leads_there(one: object) -> bool:
        with suppress(OSError):  # it is closed, or connected to nothing
            # By its true type: a proxy for what is gone cannot say what it is.
            return issubclass(type(one), socket.socket) and cast("socket.socket", one).getpeername() == goal
        return False

    return [one for one in gc.get_objects() if leads_there(one)]


async def broken_off(client: Client, cable: Cable) -> None:
    """Leave a stream in the middle, of a server that will never answer our farewell."""
    async with client.stream(NODES.path(), {"watch": "1"}):
        cable.stall()


async def cancelled(client: Client, cable: Cable) -> None:
    """Stop waiting for a server that has not said a word."""
    cable.stall()
    request = asyncio.create_task(client.list(NODES), name="list")
    await asyncio.sleep(0.1)
    request.cancel()
    await asyncio.wait((request,))


@pytest.mark.parametrize("leave", [broken_off, cancelled])
async def test_a_closed_client_has_no_connection_left(
    kube: Kube, leave: Callable[[Client, Cable], Awaitable[None]]
) -> None:
    cable = Cable()
    async with cable.laid(access.from_kubeconfig(kube.kubeconfig)) as through:
        client = Client(through)
        await client.list(NODES)
        found = connected(through.server)
        assert found
        await leave(client, cable)
        found += connected(through.server)
        await client.close()
        assert [one for one in found if one.fileno() >= 0] == []
