"""Runs beside the syncer and plays prologs for the bench: takes requests by lines of JSON, answers each with a line.

When a job gets its nodes its prologs call at once, mostly before the syncer has read of it: so does this. Each call has a connection of its own, as that of curl has, and what is no answer is repeated as in `prelock.sh`. All of
it costs CPU that is taken from what is measured, so HTTP is written by hand. Times are by the monotonic clock.
"""

import asyncio
import random
import select
import socket
import ssl
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from sunk.kube.process import loop
from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.wire import Wire
from sunk.slurm.states import JobBase

CONNECTING = 5.0
"""Seconds, TLS included, as the prolog gives it."""
PATIENCE = 290.0
KILL = 9
AT_A_TIME = 20
"""Calls that connect at the same time where only their waiting is of interest."""
STARTING = 60.0
THREADS = 4
OPENING = 120.0
"""Seconds for all connections that only open: a server that has enough of them may let each wait."""
RESULTS = frozenset({"locked", "not-needed", "timeout"})
TROUBLE = (OSError, EOFError, TimeoutError)
"""What a connection that fails can raise: errors of TLS are of the first kind."""


class Request(Struct, frozen=True):
    """Something to do."""

    what: str
    options: dict[str, Any] = {}


class Call(Struct, frozen=True):
    """A prolog that has ended: when it called first, when it was answered, and how often it had to repeat itself."""

    began: float
    ended: float
    result: str
    repeated: int = 0


class Calls(Struct, frozen=True):
    """Many prologs, and what they were answered, by how often."""

    began: float
    ended: float
    results: dict[str, int]
    repeated: int
    seconds: tuple[float, ...]


class Caller:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._tokens: dict[str, str] = {}
        self._server, self._address, self._port = "", "", 0
        self._tls = ssl.create_default_context()
        self._held: list[asyncio.Task[Call]] = []
        self._idle: list[socket.socket] = []

    async def begin(self, *, server: str, port: int, ca: str, tokens: dict[str, str]) -> None:
        """Hear where the syncer is, and the token of each node's Pod."""
        self._server, self._port, self._tokens = server, port, tokens
        self._address = socket.gethostbyname(server)
        self._tls = ssl.create_default_context(cadata=ca)

    async def hello(self, *, node: str) -> int:
        """Give the status that a Pod is answered with; 0 if there is no answer."""
        try:
            status, _ = await self._exchange("GET", node, "hello")
        except TROUBLE:
            return 0
        return status

    # Jobs

    async def allocate(self, *, node: str) -> int:
        """Have Slurm give a node to a job without a script: nothing of it runs there but prolog and epilog."""
        wanted = JobDescription(name="bench", wanted_nodes=node, min_nodes=1, memory=100, work_dir="/")
        given = await asyncio.to_thread(self._wire.allocate, wanted)
        if not given.nodes:
            raise SystemExit(f"job {given.job} does not get {node}, and waits ({given.waits})")
        return given.job

    async def cancel(self, *, jobs: Sequence[int]) -> None:
        for job in jobs:
            await asyncio.to_thread(self._wire.kill_job, job, KILL, 0)

    async def started(self, *, job: int) -> None:
        """Wait until a job has its nodes."""
        until = time.monotonic() + STARTING
        while await asyncio.to_thread(self._state, job) is not JobBase.RUNNING:
            if time.monotonic() > until:
                raise SystemExit(f"job {job} has not started within {STARTING:g} s")
            await asyncio.sleep(0.005)

    def _state(self, job: int) -> JobBase | None:
        return next((row.state.base for row in self._wire.table("job", job).rows), None)

    # Locks

    async def lock(self, *, job: int, names: Sequence[str]) -> Calls:
        """When a job has started, call for each of its nodes at once."""
        await self.started(job=job)
        return _calls(await asyncio.gather(*(self._prolog(name, job) for name in names)))

    async def hold(self, *, calls: Sequence[tuple[str, int]]) -> int:
        """Call for each of these nodes and jobs, and give how many calls wait once all are sent."""
        for start in range(0, len(calls), AT_A_TIME):
            sent = [asyncio.Event() for _ in calls[start : start + AT_A_TIME]]
            for (name, job), event in zip(calls[start:], sent, strict=False):
                self._held.append(asyncio.create_task(self._prolog(name, job, sent=event), name=f"{job} on {name}"))
            await asyncio.gather(*(event.wait() for event in sent))
        return await self.waiting()

    async def waiting(self) -> int:
        return sum(not task.done() for task in self._held)

    async def answered(self) -> Calls:
        """Wait until all that were held are answered."""
        held, self._held = self._held, []
        return _calls(await asyncio.gather(*held))

    async def _prolog(self, node: str, job: int, *, sent: asyncio.Event | None = None) -> Call:
        began, pause, repeated, result = time.monotonic(), 0.1, 0, ""
        body = msgspec.json.encode({"job": job, "restarts": 0, "strict": False, "timeout": int(PATIENCE)})
        while (now := time.monotonic()) < began + PATIENCE:
            try:
                _, result = await self._exchange("POST", node, "pre-hook", body=body, sent=sent)
            except TROUBLE as trouble:
                result = type(trouble).__name__
            if result in RESULTS:
                return Call(began, time.monotonic(), result, repeated)
            await asyncio.sleep(pause * (1 + random.random()))  # noqa: S311 - as the prolog does
            pause, repeated = min(2 * pause, 2.0), repeated + 1
        if sent:
            sent.set()
        return Call(began, now, f"gave up upon {result}", repeated)

    async def _exchange(
        self, method: str, node: str, hook: str, *, body: bytes = b"", sent: asyncio.Event | None = None
    ) -> tuple[int, str]:
        """One call on a connection of its own: gives the status, and the result or else the status as a word."""
        async with asyncio.timeout(CONNECTING):
            reader, writer = await asyncio.open_connection(
                self._address, self._port, ssl=self._tls, server_hostname=self._server
            )
        try:
            writer.write(self._head(method, node, hook, length=len(body)) + body)
            await writer.drain()
            if sent:
                sent.set()
            return await _read(reader)
        finally:
            writer.close()

    def _head(self, method: str, node: str, hook: str, *, length: int) -> bytes:
        lines = (
            f"{method} /v1/nodes/{node}/{hook} HTTP/1.1",
            f"Host: {self._server}:{self._port}",
            f"Authorization: Bearer {self._tokens[node]}",
            "Content-Type: application/json",
            f"Content-Length: {length}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", "")).encode()

    # Strangers

    async def open(self, *, count: int, seconds: float, tls: bool) -> int:
        """Open so many connections, in so many seconds at least, and say nothing on them, or nothing but what TLS wants.

        Gives how many came about.
        """
        began = time.monotonic()
        due = [began + seconds * number / count for number in range(count)]
        with ThreadPoolExecutor(THREADS) as pool:
            made = pool.map(lambda at: self._connected(at, until=began + OPENING, tls=tls), due)
            self._idle += await asyncio.to_thread(lambda: [each for each in made if each])
        return len(self._idle)

    def _connected(self, at: float, *, until: float, tls: bool) -> socket.socket | None:
        time.sleep(max(at - time.monotonic(), 0.0))
        if time.monotonic() > until:
            return None
        try:
            made = socket.create_connection((self._address, self._port), timeout=CONNECTING)
            return self._tls.wrap_socket(made, server_hostname=self._server) if tls else made
        except TROUBLE:
            return None

    async def still_open(self) -> int:
        """How many the other side has not ended. The kernel is asked: a read would find what TLS has to say at first."""
        ended = select.poll()
        for each in self._idle:
            ended.register(each, select.POLLRDHUP)
        return len(self._idle) - len(ended.poll(0))

    async def close(self) -> None:
        for each in self._idle:
            each.close()
        self._idle = []

    # What processes of ours tell of themselves

    async def scrape(self, *, host: str) -> dict[str, float]:
        """The metrics of ours, by name and labels."""
        text = await asyncio.to_thread(_fetched, host)
        rows = (line.rpartition(" ") for line in text.splitlines() if line.startswith("sunk_"))
        return {name: float(value) for name, _, value in rows}


async def _read(reader: asyncio.StreamReader) -> tuple[int, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().splitlines()
    status = int(head[0].split()[1])
    length = next((int(line.partition(":")[2]) for line in head if line.startswith("content-length:")), 0)
    result = ""
    with suppress(msgspec.DecodeError):
        found = msgspec.json.decode(await reader.readexactly(length))
        result = found.get("result", "") if isinstance(found, dict) else ""
    return status, result or f"status {status}"


def _calls(found: Sequence[Call]) -> Calls:
    return Calls(
        began=min(call.began for call in found),
        ended=max(call.ended for call in found),
        results=dict(Counter(call.result for call in found)),
        repeated=sum(call.repeated for call in found),
        seconds=tuple(call.ended - call.began for call in found),
    )


def _fetched(host: str) -> str:
    with urllib.request.urlopen(f"http://{host}:8080/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


async def serve() -> None:
    # Each connection that is cut would be told at length where nobody reads, until there is no more room for it.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    caller = Caller(Wire())
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = msgspec.json.decode(line, type=Request)
        act: Callable[..., Awaitable[Any]] = getattr(caller, request.what)
        print(msgspec.json.encode(await act(**request.options)).decode(), flush=True)


if __name__ == "__main__":
    loop.run(serve())
