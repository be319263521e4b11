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
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
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
from sunk.model import loopclock

S = TypeVar("S")

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Family(Struct, Generic[S], frozen=True):
    """One metric: its name after `sunk_kube_`, what it means, and how to read it."""

    name: str
    help: str
    read: Callable[[S], float]
    kind: Literal["counter", "gauge"] = "counter"
    count: Callable[[S], int] | None = None
    """Makes it a summary: `read` is then the sum, and this the number of things summed up."""


Table = tuple[Family[S], ...]

QUEUE: Final[Table[QueueStatistics]] = (
    Family("queue_depth", "Keys that are ready for a look", lambda statistics: statistics.depth, "gauge"),
    Family("queue_delayed", "Keys that wait for their time", lambda statistics: statistics.delayed, "gauge"),
    Family("queue_working", "Keys in work", lambda statistics: statistics.working, "gauge"),
    Family("queue_adds", "Wishes for a look, before they melt into one", lambda statistics: statistics.adds),
    Family("queue_retries", "Looks that were put off after a failure", lambda statistics: statistics.retries),
    Family(
        "queue_wait_seconds",
        "From ready to taken",
        lambda statistics: statistics.waited,
        count=lambda statistics: statistics.taken,
    ),
    Family(
        "queue_work_seconds",
        "From taken to done",
        lambda statistics: statistics.worked,
        count=lambda statistics: statistics.finished,
    ),
    Family(
        "queue_longest_wait_seconds",
        "Of the keys that are ready now",
        lambda statistics: statistics.longest_wait,
        "gauge",
    ),
    Family(
        "queue_longest_work_seconds", "Of the keys in work now", lambda statistics: statistics.longest_work, "gauge"
    ),
)

CONTROLLER: Final[Table[ControllerStatistics]] = (
    Family("reconciles_succeeded", "Reconciles that came to their end", lambda statistics: statistics.succeeded),
    Family(
        "reconciles_failed",
        "Reconciles that ended by an error and are tried again",
        lambda statistics: statistics.retried,
    ),
    Family("reconciles_late", "Those of the failed ones that took too long", lambda statistics: statistics.late),
    Family("reconciles_terminal", "Reconciles that only a change can help", lambda statistics: statistics.terminal),
)

WATCH: Final[Table[WatchStatistics]] = (
    Family("watch_events", "Changes, deletions and bookmarks heard", lambda statistics: statistics.events),
    Family(
        "watch_streams", "Streams opened; each after the first is a resumption", lambda statistics: statistics.streams
    ),
    Family(
        "watch_lists",
        "Lists begun; each after the first means that a resumption was not possible",
        lambda statistics: statistics.lists,
    ),
    Family("watch_failures", "Requests that were refused or broke off", lambda statistics: statistics.failures),
    Family("watch_skipped", "Objects that did not fit their record", lambda statistics: statistics.skipped),
    Family("watch_silence_seconds", "Since the last word", lambda statistics: statistics.silence, "gauge"),
)

STORE: Final[Table[Store[Any]]] = (
    Family("store_objects", "Objects held", len, "gauge"),
    Family(
        "store_synced", "1 once a first list was read to its end", lambda statistics: float(statistics.synced), "gauge"
    ),
    Family("store_age_seconds", "Since it was last known to be complete", lambda statistics: statistics.age, "gauge"),
    Family(
        "store_doubts", "Writes of which nobody knows what became", lambda statistics: len(statistics.doubts), "gauge"
    ),
)

LEASE: Final[Table[LeaseStatistics]] = (
    Family("lease_leading", "1 while we lead", lambda statistics: float(statistics.leading), "gauge"),
    Family(
        "lease_left_seconds",
        "Until we would stop without a renewal",
        lambda statistics: _left(statistics.deadline),
        "gauge",
    ),
    Family("lease_terms", "Times we began to lead", lambda statistics: statistics.terms),
    Family("lease_losses", "Times we had to stop leading", lambda statistics: statistics.losses),
    Family("lease_renewals", "Renewals", lambda statistics: statistics.renewals),
    Family("lease_failures", "Reads and writes of the lease that went wrong", lambda statistics: statistics.failures),
)

EVENTS: Final[Table[RecorderStatistics]] = (
    Family("events_recorded", "Events told", lambda statistics: statistics.recorded),
    Family("events_written", "Writes of events", lambda statistics: statistics.written),
    Family("events_dropped", "Events that were too many or refused", lambda statistics: statistics.dropped),
    Family("events_pending", "Events that wait to be written", lambda statistics: statistics.pending, "gauge"),
)

LIMIT: Final[Table[LimitStatistics]] = (
    Family(
        "limit_taken", "Requests that passed or wait at the client's rate limit", lambda statistics: statistics.taken
    ),
    Family("limit_waiting", "Requests held up just now", lambda statistics: statistics.waiting, "gauge"),
    Family("limit_waited_seconds", "Sum of all delays by the rate limit", lambda statistics: statistics.waited),
)

CLOCK: Final[Table[ServerClock]] = (
    Family(
        "clock_ahead_seconds",
        "The API server's clock, ahead of ours",
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
            "Requests by what became of them; code 0 means no answer",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "sunk_kube_request_duration_seconds",
            "From sending a request to the first byte of its answer",
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
            read = [(name, statistics()) for wanted, name, statistics in self._sources if wanted is table]
            if read:
                yield from (_metric(family, read) for family in table)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Write everything down in the format that the scraper prefers; returns the text and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


def _metric(family: Family[S], read: list[tuple[str, S]]) -> Metric:
    named = f"sunk_kube_{family.name}"
    if family.count is not None:
        summary = SummaryMetricFamily(named, family.help, labels=("name",))
        for name, statistics in read:
            summary.add_metric((name,), count_value=family.count(statistics), sum_value=family.read(statistics))
        return summary
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(named, family.help, labels=("name",))
    for name, statistics in read:
        metric.add_metric((name,), family.read(statistics))
    return metric


def _left(deadline: float) -> float:
    return max(deadline - loopclock.now(), 0.0)
