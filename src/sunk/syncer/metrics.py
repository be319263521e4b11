"""The syncer's metrics about itself: how it calls Slurm, how old its view is, and how far that view is trusted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sunk.model import faults
from sunk.slurm.errors import SlurmError, Unreachable
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.reading import MirrorStatistics
from sunk.syncer.context import Context
from sunk.syncer.drains.controller import DrainController, DrainStatistics
from sunk.syncer.visibility.clocks import Clocks

S = TypeVar("S")
T = TypeVar("T")


class CountingLibrary(Library):
    """libslurm, with a count of what was asked and of what came of it."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.calls: Final[Counter[tuple[str, str]]] = Counter()
        """By what was asked (read, update, delete, …) and what came of it."""

    async def call(self, blocking: Callable[[], T], *, asked: str, patience: float | None = None) -> T:
        outcome = "cancelled"
        try:
            answer = await super().call(blocking, asked=asked, patience=patience)
            outcome = "done"
        except Unreachable:
            outcome = "unreachable"
            raise
        except SlurmError:
            outcome = "refused"
            raise
        finally:
            self.calls[asked.partition(" ")[0], outcome] += 1
        return answer


def _age(statistics: MirrorStatistics) -> float:
    return statistics.age


def _suspicions(statistics: MirrorStatistics) -> float:
    return len(statistics.suspicions)


class Family(Struct, Generic[S], frozen=True):
    """One metric: its name after `sunk_syncer_`, what it means, and how to read it."""

    name: str
    help: str
    read: Callable[[S], float]
    kind: Literal["counter", "gauge"] = "counter"


MIRROR: Final[tuple[Family[MirrorStatistics], ...]] = (
    Family("slurm_reads", "Reads of all tables of Slurm", lambda stats: stats.counts.reads),
    Family("slurm_reads_unchanged", "Those that showed nothing new", lambda stats: stats.counts.unchanged),
    Family("slurm_reads_whole", "Those that asked for everything, changed or not", lambda stats: stats.counts.whole),
    Family("slurm_reads_failed", "Those that did not succeed", lambda stats: stats.counts.failures),
    Family("slurm_restarts", "Times that slurmctld was found started anew", lambda stats: stats.counts.restarts),
    Family("slurm_read_seconds", "How long the last read took", lambda stats: stats.counts.last_duration, "gauge"),
    Family("slurm_age_seconds", "Since the begin of the last read; infinite while unknown", _age, "gauge"),
    Family("slurm_period_seconds", "Between two reads at present", lambda stats: stats.period, "gauge"),
    Family("slurm_suspicions", "What is hard to believe; nothing is destroyed meanwhile", _suspicions, "gauge"),
)
DRAINS: Final[tuple[Family[DrainStatistics], ...]] = (
    Family("rounds", "Rounds of orders", lambda stats: stats.counts.rounds),
    Family("orders", "Orders sent to Slurm in them, each for any number of nodes", lambda stats: stats.counts.calls),
    Family("orders_failed", "Those that Slurm did not carry out", lambda stats: stats.counts.failed),
    Family(
        "nodes_restored", "Drains of others put back after an order took them away", lambda stats: stats.counts.restored
    ),
    Family("nodes_drained", "Nodes drained because of Kubernetes", lambda stats: stats.counts.drained),
    Family("nodes_undrained", "Nodes undrained because their cause is gone", lambda stats: stats.counts.undrained),
    Family("nodes_featured", "Nodes whose features were written", lambda stats: stats.counts.featured),
    Family("nodes_marked", "Nodes whose extra was written", lambda stats: stats.marked),
    Family("answers", "Orders of people that were answered", lambda stats: stats.counts.answered),
    Family("waves", "Times that many Pods stopped being ready together", lambda stats: stats.waves),
    Family("drains_delayed", "1 while drains wait because of that", lambda stats: float(stats.delayed), "gauge"),
    Family("nodes_waiting", "Nodes that want a look", lambda stats: stats.queue.depth + stats.queue.delayed, "gauge"),
)


class SyncerCollector(Collector):
    """Reads everything at the moment of a scrape, on the loop's thread."""

    def __init__(self, context: Context, drains: DrainController, clocks: Clocks) -> None:
        self._context = context
        self._drains = drains
        self._clocks = clocks

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        mirror = self._context.mirror.statistics()
        yield from _families(MIRROR, mirror)
        yield from _families(DRAINS, self._drains.statistics())
        rows = GaugeMetricFamily("sunk_syncer_slurm_rows", "Rows of each table of Slurm", labels=("table",))
        for table, count in mirror.rows.items():
            rows.add_metric((table,), count)
        yield rows
        yield _clock_offsets(self._clocks)
        survived = CounterMetricFamily(
            "sunk_syncer_faults", "Faults that nobody foresaw and that were survived", labels=("where",)
        )
        for where, count in faults.counts.items():
            survived.add_metric((where,), count)
        yield survived
        if isinstance(self._context.library, CountingLibrary):
            yield _calls(self._context.library)


def _families(table: Iterable[Family[S]], statistics: S) -> Iterator[Metric]:
    for family in table:
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        yield kind(f"sunk_syncer_{family.name}", family.help, value=family.read(statistics))


def _clock_offsets(clocks: Clocks) -> Metric:
    gauge = GaugeMetricFamily(
        "sunk_syncer_clock_ahead_seconds", "By how much another clock is ahead of this machine's", labels=("clock",)
    )
    offsets = clocks.offsets()
    for clock, ahead in (("apiserver", offsets.server), ("slurmctld", offsets.slurm)):
        if ahead is not None:
            gauge.add_metric((clock,), ahead)
    return gauge


def _calls(library: CountingLibrary) -> Metric:
    calls = CounterMetricFamily(
        "sunk_syncer_slurm_calls", "Calls to slurmctld, orders and reads, by outcome", labels=("asked", "outcome")
    )
    for (asked, outcome), count in library.calls.items():
        calls.add_metric((asked, outcome), count)
    return calls
