"""A process of ours: what it follows, what it answers to probes, and how it begins and ends.

Everything is followed from the start, also while another process leads: a standby whose stores are full takes over as
soon as the lease is free. Only the controllers wait for the lease (`sunk.service.leadership`). The lease has a client of
its own, since neither the rate limit nor the connections of the work may hold up a renewal.

Ready means that every store is complete and that the API server lets us compete for the lease. Not that
we lead: of two copies one never does, and a rollout must not wait for it. Age is not asked either, because a store
of something that nobody writes to grows old though all is well.

What was refused: ending the process when the lease is lost, as controller-runtime does. The stores are still true, and
to read them again is what an API server that was just out of reach needs least.
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
from sunk.kube.control.lease import LeaderElection, identity
from sunk.kube.control.term import LeaseTiming
from sunk.kube.process.health import Health, Watchdog, served
from sunk.kube.process.metrics import CLOCK, CONTROLLER, EVENTS, LEASE, LIMIT, QUEUE, STORE, WATCH, Metrics
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.model.contract import clusterobjects
from sunk.model.refusal import Refusal
from sunk.service.leadership import Leadership
from sunk.service.part import Build, Part, Setting

log = logging.getLogger(__name__)

_REFUSED: Final = (401, 403)


class ServiceSettings(Struct, frozen=True):
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
    grace: float = 20.0
    """How long work in hand may take to come to its end."""
    timing: LeaseTiming = LeaseTiming()


class LeaseAccess:
    """Whether the API server lets us compete for the lease: what it said when last asked for it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._code: int | None = None

    def observe(self, exchange: Exchange) -> None:
        self._code = exchange.code
        self._metrics.observe(exchange)

    def trouble(self) -> str:
        if self._code is None:
            return "not requested yet"
        return f"the API server answered {self._code}: grant access to the Lease" if self._code in _REFUSED else ""


class ServiceProcess:
    """Everything that lives as long as the process does."""

    def __init__(self, settings: ServiceSettings, *, access: Access) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._health = Health()
        self._limit = Bucket(settings.qps, burst=settings.burst)
        lease_access = LeaseAccess(self._metrics)
        self._health.ready_while("lease", lease_access.trouble)
        self._own = Client(access, observe=lease_access.observe)
        self._client = Client(access, limit=self._limit, retry=Retry(), observe=self._metrics.observe)
        name = settings.identity or identity()
        self._recorder = Recorder(self._client, reporter=settings.name, instance=name)
        key = Key(settings.lease_namespace or access.namespace, settings.name)
        self._leadership = Leadership(
            LeaderElection(self._own, key, name=name, timing=settings.timing), grace=settings.grace
        )

    async def serve(self, builds: Iterable[Build], *, told: asyncio.Event) -> None:
        """Run until told to stop, and come to a clean end then. Raises whatever breaks it before."""
        async with AsyncExitStack() as stack:
            for resource in (self._own, self._client, self._recorder, Watchdog().watching()):
                await stack.enter_async_context(resource)
            setting = self._setting()  # one for all, since what parts share hangs on it
            parts = [build(setting) for build in builds]
            follows = self._prepare(parts)
            await stack.enter_async_context(self._answering())
            log.info("watching %s; leading once Lease %s is acquired", ", ".join(follows), self._leadership.lease.key)
            duties = {f"follow {name}": collection.run() for name, collection in follows.items()}
            duties |= {name: duty() for part in parts for name, duty in part.duties.items()}
            async with running(duties | {"leadership": self._leadership.run()}):
                await told.wait()
                log.info("stopping on a signal")
                self._health.stop()
                for stop in (stop for part in parts for stop in part.on_stop):
                    stop()
                await self._leadership.shut_down()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        """Answer probes and scrapers. A port that is taken is the one thing here that only a person can mend."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(
                    served(self._health, self._metrics, host=self._settings.host, port=self._settings.port)
                )
            except OSError as taken:
                raise Refusal(f"cannot listen for probes: {taken.strerror}. Choose another --port.") from taken
            yield

    def _setting(self) -> Setting:
        return Setting(
            client=self._client,
            recorder=self._recorder,
            may_write=self._leadership.holds,
            namespaces=self._settings.namespaces,
            workers=self._settings.workers,
        )

    def _prepare(self, parts: Sequence[Part]) -> dict[str, Collection[Any]]:
        """Tell everybody of the parts; returns what has to be followed, by name."""
        controllers = [controller for part in parts for controller in part.controllers]
        self._leadership.assign([*controllers, *(work for part in parts for work in part.work)])
        metrics = self._metrics
        metrics.add(LIMIT, self._settings.name, self._limit.statistics)
        metrics.add(CLOCK, self._settings.name, lambda: self._client.clock)
        metrics.add(EVENTS, self._settings.name, self._recorder.statistics)
        metrics.add(LEASE, self._settings.name, self._leadership.lease.statistics)
        for controller in controllers:
            self._count(controller)
        for collector in (collector for part in parts for collector in part.collectors):
            metrics.registry.register(collector)
        follows = named(parts)
        for name, collection in follows.items():
            self._attend(collection, name=name)
        for name, trouble in ((name, trouble) for part in parts for name, trouble in part.unready.items()):
            self._health.ready_while(name, trouble)
        return follows

    def _count(self, controller: Controller[Any]) -> None:
        self._metrics.add(CONTROLLER, controller.name, controller.statistics)
        self._metrics.add(QUEUE, controller.name, lambda: controller.statistics().queue)

    def _attend(self, collection: Collection[Any], *, name: str) -> None:
        self._metrics.add(WATCH, name, collection.watch.statistics)
        self._metrics.add(STORE, name, lambda: collection.store)
        self._health.ready_while(name, lambda: _incomplete(collection.store))


def named(parts: Iterable[Part]) -> dict[str, Collection[Any]]:
    """Give every collection a name: what it reads, with a number where others read the same.

    One that parts share is followed once.
    """
    by_name: dict[str, Collection[Any]] = {}
    for collection in (followed for part in parts for followed in part.follows):
        if collection not in by_name.values():
            name = collection.store.name
            numbers = (f"{name} ({number})" for number in count(2))
            by_name[name if name not in by_name else next(number for number in numbers if number not in by_name)] = (
                collection
            )
    return by_name


def _incomplete(store: Store[Any]) -> str:
    return "" if store.synced else "not read yet"


async def until_told(settings: ServiceSettings, *, access: Access, builds: Iterable[Build]) -> None:
    """Run until SIGTERM or SIGINT."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await ServiceProcess(settings, access=access).serve(builds, told=told)
