"""What the kit knows about itself, for Prometheus.

Nothing is counted twice: queues, watches, stores, leases keep their own statistics as plain numbers, and a scrape reads
them at that moment. Only requests are counted here, through the client's `observe`. The tables below are the list of
all metrics; each carries the label `name`, which says of which queue, watch, store or lease it speaks.

    metrics = Metrics()
    client = Client(access, observe=metrics.observe)
    metrics.add(QUEUE, "nodes", lambda: controller.statistics().queue)

A scrape has to take place on the loop's thread, where `sunk.kube.process.health` serves it: some statistics tell ages by the
loop's clock.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from sunk.kube.api.clock import ServerClock
from sunk.kube.api.exchange import Exchange
from sunk.kube.api.limits import LimitStatistics
from sunk.kube.cache.store import Store
from sunk.kube.cache.watch import WatchStatistics
from sunk.kube.control.controller import ControllerStatistics
from sunk.kube.control.events import RecorderStatistics
from sunk.kube.control.lease import LeaseStatistics
from sunk.kube.control.queue import QueueStatistics
from sunk.kube.process.families import Family, Table, labelled_metrics
from sunk.model import loopclock

S = TypeVar("S")

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_PREFIX: Final = "sunk_kube"

QUEUE: Final[Table[QueueStatistics]] = (
    Family("queue_depth", "Keys ready to be processed", lambda statistics: statistics.depth, "gauge"),
    Family("queue_delayed", "Keys waiting for their delay", lambda statistics: statistics.delayed, "gauge"),
    Family("queue_working", "Keys being processed", lambda statistics: statistics.working, "gauge"),
    Family("queue_adds", "Requests to process a key, before they are merged", lambda statistics: statistics.adds),
    Family("queue_retries", "Keys delayed after a failure", lambda statistics: statistics.retries),
    Family(
        "queue_wait_seconds",
        "Time from ready to taken",
        lambda statistics: statistics.waited,
        count=lambda statistics: statistics.taken,
    ),
    Family(
        "queue_work_seconds",
        "Time from taken to done",
        lambda statistics: statistics.worked,
        count=lambda statistics: statistics.finished,
    ),
    Family(
        "queue_longest_wait_seconds",
        "Longest wait of the keys that are ready now",
        lambda statistics: statistics.longest_wait,
        "gauge",
    ),
    Family(
        "queue_longest_work_seconds",
        "Longest processing time of the keys in progress",
        lambda statistics: statistics.longest_work,
        "gauge",
    ),
)

CONTROLLER: Final[Table[ControllerStatistics]] = (
    Family("reconciles_succeeded", "Successful reconciles", lambda statistics: statistics.succeeded),
    Family(
        "reconciles_failed",
        "Reconciles that failed and are retried",
        lambda statistics: statistics.retried,
    ),
    Family("reconciles_late", "Failed reconciles that took too long", lambda statistics: statistics.late),
    Family(
        "reconciles_terminal",
        "Failed reconciles that are not retried until something changes",
        lambda statistics: statistics.terminal,
    ),
)

WATCH: Final[Table[WatchStatistics]] = (
    Family("watch_events", "Changes, deletions and bookmarks received", lambda statistics: statistics.events),
    Family(
        "watch_streams",
        "Streams opened; every one after the first resumes the watch",
        lambda statistics: statistics.streams,
    ),
    Family(
        "watch_lists",
        "Lists started; every one after the first means that the watch could not resume",
        lambda statistics: statistics.lists,
    ),
    Family("watch_failures", "Requests that were refused or aborted", lambda statistics: statistics.failures),
    Family("watch_skipped", "Objects that did not match their type", lambda statistics: statistics.skipped),
    Family("watch_silence_seconds", "Time since the last event", lambda statistics: statistics.silence, "gauge"),
)

STORE: Final[Table[Store[Any]]] = (
    Family("store_objects", "Objects held", len, "gauge"),
    Family("store_synced", "1 once the first list is complete", lambda statistics: float(statistics.synced), "gauge"),
    Family(
        "store_age_seconds",
        "Time since the store was last known to be complete",
        lambda statistics: statistics.age,
        "gauge",
    ),
    Family("store_doubts", "Writes whose outcome is unknown", lambda statistics: len(statistics.doubts), "gauge"),
)

LEASE: Final[Table[LeaseStatistics]] = (
    Family("lease_leading", "1 while this process leads", lambda statistics: float(statistics.leading), "gauge"),
    Family(
        "lease_left_seconds",
        "Time until leadership ends without a renewal",
        lambda statistics: _left(statistics.deadline),
        "gauge",
    ),
    Family("lease_terms", "Times this process became the leader", lambda statistics: statistics.terms),
    Family("lease_losses", "Times this process lost leadership", lambda statistics: statistics.losses),
    Family("lease_renewals", "Renewals", lambda statistics: statistics.renewals),
    Family("lease_failures", "Failed reads and writes of the lease", lambda statistics: statistics.failures),
)

EVENTS: Final[Table[RecorderStatistics]] = (
    Family("events_recorded", "Events recorded", lambda statistics: statistics.recorded),
    Family("events_written", "Events written", lambda statistics: statistics.written),
    Family(
        "events_dropped",
        "Events dropped because there were too many or they were refused",
        lambda statistics: statistics.dropped,
    ),
    Family("events_pending", "Events waiting to be written", lambda statistics: statistics.pending, "gauge"),
)

LIMIT: Final[Table[LimitStatistics]] = (
    Family(
        "limit_taken", "Requests that passed or wait for the client's rate limit", lambda statistics: statistics.taken
    ),
    Family("limit_waiting", "Requests currently delayed", lambda statistics: statistics.waiting, "gauge"),
    Family("limit_waited_seconds", "Total delay by the rate limit", lambda statistics: statistics.waited),
)

CLOCK: Final[Table[ServerClock]] = (
    Family(
        "clock_ahead_seconds",
        "Seconds by which the API server's clock is ahead of ours",
        lambda statistics: statistics.ahead or 0.0,
        "gauge",
    ),
)

TABLES: Final[tuple[Table[Any], ...]] = (QUEUE, CONTROLLER, WATCH, STORE, LEASE, EVENTS, LIMIT, CLOCK)


class Metrics(Collector):
    """The registry of this process. More collectors may be registered at `registry`."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self._sources: list[tuple[Table[Any], str, Callable[[], Any]]] = []
        self._requests = Counter(
            "sunk_kube_requests",
            "Requests by outcome; code 0 means no answer",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "sunk_kube_request_duration_seconds",
            "Time from sending a request to the first byte of its answer",
            ("verb", "resource"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def observe(self, exchange: Exchange) -> None:
        """Count an exchange; to be given to a client."""
        verb, resource = exchange.verb, exchange.resource
        self._requests.labels(verb, resource, str(exchange.code)).inc()
        self._durations.labels(verb, resource).observe(exchange.seconds)

    def add(self, table: Table[S], name: str, statistics: Callable[[], S]) -> None:
        """Have these statistics read at every scrape."""
        self._sources.append((table, name, statistics))

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for table in TABLES:
            by_name = {name: statistics() for wanted, name, statistics in self._sources if wanted is table}
            if by_name:
                yield from labelled_metrics(table, by_name, prefix=_PREFIX)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Write everything down in the format that the scraper prefers; returns the text and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


def _left(deadline: float) -> float:
    return max(deadline - loopclock.now(), 0.0)
