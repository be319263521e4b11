"""A process of ours: what it follows, what it answers to probes, and how it begins and ends.

Everything is followed from the start, also while another process leads: a standby whose stores are full takes over as
soon as the lease is free. Only the controllers wait for the lease (`sunk.service.reign`). The lease has a client of
its own, since neither the rate limit nor the connections of the work may hold up a renewal.

Ready means that every store is complete and that the API server lets us take part in the contest for the lease. Not
that we lead: of two copies one never does, and a rollout must not wait for it. Age is not asked either, because a store
of something that nobody writes to grows old though all is well.

What was refused: ending the process when the lease is lost, as controller-runtime does. The stores are still true, and
to read them anew is what an API server that was just out of reach needs least.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any, Final

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.api.exchange import Exchange
from sunk.kube.api.limits import Bucket
from sunk.kube.api.retry import Retry
from sunk.kube.auth.access import Access
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Store
from sunk.kube.control.controller import Controller
from sunk.kube.control.events import Recorder
from sunk.kube.control.leadership import Timing
from sunk.kube.control.lease import Lease, identity
from sunk.kube.control.tasks import running
from sunk.kube.process.health import Health, Watchdog, served
from sunk.kube.process.metrics import CLOCK, CONTROLLER, EVENTS, LEASE, LIMIT, QUEUE, STORE, WATCH, Metrics
from sunk.kube.resource import Key
from sunk.model.contract import clusterobjects
from sunk.model.refusal import Refusal
from sunk.service.part import Build, Part, Setting
from sunk.service.reign import Reign

log = logging.getLogger(__name__)

_REFUSED: Final = (401, 403)


class Order(Struct, frozen=True):
    """What the process is told. Times are in seconds, rates in requests a second."""

    name: str
    """Of the Lease, and what Events and metrics are told under."""
    namespaces: tuple[str, ...] = ()
    workers: int = 8
    lease_namespace: str = ""
    """By default the namespace that the access names: in a Pod, its own."""
    identity: str = ""
    host: str = "0.0.0.0"  # noqa: S104 - probes and scrapers come from other machines
    port: int = clusterobjects.HEALTH_PORT
    qps: float = 1000.0
    burst: int = 2000
    farewell: float = 20.0
    """How long work in hand may take to come to its end."""
    timing: Timing = Timing()


class Contest:
    """Whether the API server lets us take part in the contest: what it said when last asked for the lease."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._code: int | None = None

    def observe(self, exchange: Exchange) -> None:
        self._code = exchange.code
        self._metrics.observe(exchange)

    def trouble(self) -> str:
        if self._code is None:
            return "not asked for yet"
        return f"the API server answered {self._code}: allow us to use it" if self._code in _REFUSED else ""


class Service:
    """Everything that lives as long as the process."""

    def __init__(self, order: Order, *, access: Access) -> None:
        self._order = order
        self._metrics = Metrics()
        self._health = Health()
        self._limit = Bucket(order.qps, burst=order.burst)
        contest = Contest(self._metrics)
        self._health.ready_while("lease", contest.trouble)
        self._own = Client(access, observe=contest.observe)
        self._client = Client(access, limit=self._limit, retry=Retry(), observe=self._metrics.observe)
        name = order.identity or identity()
        self._recorder = Recorder(self._client, reporter=order.name, instance=name)
        key = Key(order.lease_namespace or access.namespace, order.name)
        self._reign = Reign(Lease(self._own, key, name=name, timing=order.timing), farewell=order.farewell)

    async def serve(self, builds: Iterable[Build], *, told: asyncio.Event) -> None:
        """Run until told to stop, and come to a clean end then. Raises whatever breaks it before."""
        async with AsyncExitStack() as stack:
            for resource in (self._own, self._client, self._recorder, Watchdog().watching()):
                await stack.enter_async_context(resource)
            setting = self._setting()  # one for all, since what parts share hangs on it
            parts = [build(setting) for build in builds]
            follows = self._prepare(parts)
            await stack.enter_async_context(self._answering())
            log.info("following %s; leading when %s is ours", ", ".join(follows), self._reign.lease.key)
            duties = {f"follow {name}": each.run() for name, each in follows.items()}
            duties |= {name: duty() for part in parts for name, duty in part.duties.items()}
            async with running(duties | {"reign": self._reign.run()}):
                await told.wait()
                log.info("told to stop")
                self._health.stop()
                await self._reign.end()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        """Answer probes and scrapers. A port that is taken is the one thing here that only a person can mend."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(
                    served(self._health, self._metrics, host=self._order.host, port=self._order.port)
                )
            except OSError as taken:
                raise Refusal(f"probes cannot be answered: {taken.strerror}. Choose another --port.") from taken
            yield

    def _setting(self) -> Setting:
        return Setting(
            client=self._client,
            recorder=self._recorder,
            may_write=self._reign.holds,
            namespaces=self._order.namespaces,
            workers=self._order.workers,
        )

    def _prepare(self, parts: Sequence[Part]) -> dict[str, Collection[Any]]:
        """Tell everybody of the parts; returns what has to be followed, by name."""
        controllers = [controller for part in parts for controller in part.controllers]
        self._reign.rule([*controllers, *(work for part in parts for work in part.work)])
        metrics = self._metrics
        metrics.add(LIMIT, self._order.name, self._limit.statistics)
        metrics.add(CLOCK, self._order.name, lambda: self._client.clock)
        metrics.add(EVENTS, self._order.name, self._recorder.statistics)
        metrics.add(LEASE, self._order.name, self._reign.lease.statistics)
        for controller in controllers:
            self._count(controller)
        for collector in (one for part in parts for one in part.collectors):
            metrics.registry.register(collector)
        follows = named(parts)
        for name, each in follows.items():
            self._attend(each, name=name)
        for name, trouble in ((name, trouble) for part in parts for name, trouble in part.unready.items()):
            self._health.ready_while(name, trouble)
        return follows

    def _count(self, controller: Controller[Any]) -> None:
        self._metrics.add(CONTROLLER, controller.name, controller.statistics)
        self._metrics.add(QUEUE, controller.name, lambda: controller.statistics().queue)

    def _attend(self, each: Collection[Any], *, name: str) -> None:
        self._metrics.add(WATCH, name, each.watch.statistics)
        self._metrics.add(STORE, name, lambda: each.store)
        self._health.ready_while(name, lambda: _incomplete(each.store))


def named(parts: Iterable[Part]) -> dict[str, Collection[Any]]:
    """Give every collection a name: what it reads, with a number where others read the same.

    One that parts share is followed once.
    """
    found: dict[str, Collection[Any]] = {}
    for each in (one for part in parts for one in part.follows):
        if each not in found.values():
            name = each.store.name
            numbers = (f"{name} ({number})" for number in count(2))
            found[name if name not in found else next(one for one in numbers if one not in found)] = each
    return found


def _incomplete(store: Store[Any]) -> str:
    return "" if store.synced else "not read yet"


async def until_told(order: Order, *, access: Access, builds: Iterable[Build]) -> None:
    """Run until SIGTERM or SIGINT."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await Service(order, access=access).serve(builds, told=told)
