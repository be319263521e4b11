"""Say whether we live and whether we are of use, in words, over HTTP: `/healthz`, `/readyz`, `/metrics`.

A probe that always says yes is worse than none. `/healthz` is red where only a new start can help: a guarded task is
dead. A loop that hangs cannot answer at all, which is an answer too, since probes have a time-out; as nobody can ask a
hung loop where it hangs, a thread beside it says so in the log, once, with the stack. `/readyz` is red while what we
know is missing or old, and from the moment we begin to stop. Neither asks the API server: an outage there would restart
all of us, and help nobody.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

from aiohttp import web
from msgspec import Struct

from sunk.kube.cache.store import Store
from sunk.kube.process.metrics import Metrics

log = logging.getLogger(__name__)

Check = Callable[[], str]
"""Say in a few words what is wrong; an empty text means nothing is."""

_UNAVAILABLE: Final = 503


class Health:
    """What has to be so for us to be alive, and to be ready."""

    def __init__(self) -> None:
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {"not stopping": lambda: "stopping" if self._stopping else ""}
        self._stopping = False

    def live_while(self, name: str, check: Check) -> None:
        self._alive[name] = check

    def ready_while(self, name: str, check: Check) -> None:
        self._ready[name] = check

    def guard(self, task: asyncio.Task[Any]) -> None:
        """Be alive only while this task runs. It has to be one that is meant to run as long as we do."""
        self.live_while(task.get_name(), lambda: _ended(task))

    def needs(self, store: Store[Any], *, within: float = 180.0) -> None:
        """Be ready only while this store is complete and was heard of lately. Quiet ones are, once a minute."""
        self.ready_while(store.name, lambda: _too_old(store, within=within))

    def stop(self) -> None:
        """Be ready no more, so that nobody sends us anything new while we end."""
        self._stopping = True

    def alive(self) -> "HealthReport":
        return HealthReport({name: check() for name, check in self._alive.items()})

    def ready(self) -> "HealthReport":
        return HealthReport({name: check() for name, check in self._ready.items()})


class HealthReport(Struct, frozen=True):
    """What was found, name by name."""

    found: Mapping[str, str]

    @property
    def good(self) -> bool:
        return not any(self.found.values())

    def __str__(self) -> str:
        lines = [f"[-] {name}: {wrong}" if wrong else f"[+] {name}" for name, wrong in self.found.items()]
        return "\n".join([*lines, "ok" if self.good else "failed", ""])


def _ended(task: asyncio.Task[Any]) -> str:
    if not task.done():
        return ""
    if task.cancelled():
        return "cancelled"
    return f"ended by {task.exception()!r}" if task.exception() else "ended by itself"


def _too_old(store: Store[Any], *, within: float) -> str:
    if not store.synced:
        return "not read yet"
    return f"last update {store.age:.0f} s ago (limit {within:.0f} s)" if store.age > within else ""


class Watchdog:
    """A thread that notices when the loop stands still, and says where. Time is real time here, never the loop's."""

    def __init__(self, *, limit: float = 10.0, interval: float = 1.0) -> None:
        self._limit = limit
        self._interval = interval
        self._beat = monotonic()
        self._end = threading.Event()
        self.stalls = 0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        loop_thread = threading.get_ident()
        thread = threading.Thread(target=self._watch, args=(loop_thread,), name="watchdog", daemon=True)
        beating = asyncio.create_task(self._beat_for_ever(), name="watchdog: beat")
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            beating.cancel()
            await asyncio.wait((beating,))
            await asyncio.to_thread(thread.join)

    async def _beat_for_ever(self) -> None:
        while True:
            self._beat = monotonic()
            await asyncio.sleep(self._interval)

    def _watch(self, loop_thread: int) -> None:
        seen = 0.0
        while not self._end.wait(self._interval):
            beat = self._beat
            late = monotonic() - beat
            if late > self._limit + self._interval and beat != seen:
                seen = beat
                self.stalls += 1
                log.error("the event loop has been blocked for %.1f s, here:\n%s", late, _stack(loop_thread))


def _stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to look at another thread
    return "".join(traceback.format_stack(frame)) if frame else "(nowhere)"


@asynccontextmanager
async def served(health: Health, metrics: Metrics, *, host: str = "0.0.0.0", port: int = 8080) -> AsyncIterator[int]:  # noqa: S104 - probes and scrapers come from other machines
    """Answer probes and scrapers for the length of the block; yields the port, which the system chooses if it is 0."""
    app = web.Application()
    app.add_routes([web.get("/healthz", _answer(health.alive)), web.get("/readyz", _answer(health.ready))])
    app.add_routes([web.get("/metrics", _scrape(metrics))])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _answer(report: Callable[[], HealthReport]) -> Callable[[web.Request], Any]:
    async def handle(_: web.Request) -> web.Response:
        found = report()
        return web.Response(text=str(found), status=200 if found.good else _UNAVAILABLE)

    return handle


def _scrape(metrics: Metrics) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        body, content_type = metrics.text(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handle
