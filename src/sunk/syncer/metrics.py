"""What the syncer tells of its own doings: how it asks Slurm, how old its view is, and how far that is believed."""

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
from sunk.syncer.context import Ground
from sunk.syncer.drains.controller import Downward, DownwardStatistics
from sunk.syncer.visibility.clocks import Clocks

S = TypeVar("S")
T = TypeVar("T")


class Counted(Library):
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


def _age(one: MirrorStatistics) -> float:
    return one.age


def _suspicions(one: MirrorStatistics) -> float:
    return len(one.suspicions)


class Family(Struct, Generic[S], frozen=True):
    """One metric: its name after `sunk_syncer_`, what it means, and how to read it."""

    name: str
    help: str
    read: Callable[[S], float]
    kind: Literal["counter", "gauge"] = "counter"


MIRROR: Final[tuple[Family[MirrorStatistics], ...]] = (
    Family("slurm_reads", "Reads of all tables of Slurm", lambda one: one.counts.reads),
    Family("slurm_reads_unchanged", "Those that showed nothing new", lambda one: one.counts.unchanged),
    Family("slurm_reads_whole", "Those that asked for everything, changed or not", lambda one: one.counts.whole),
    Family("slurm_reads_failed", "Those that did not succeed", lambda one: one.counts.failures),
    Family("slurm_restarts", "Times that slurmctld was found started anew", lambda one: one.counts.restarts),
    Family("slurm_read_seconds", "How long the last read took", lambda one: one.counts.last_duration, "gauge"),
    Family("slurm_age_seconds", "Since the begin of the last read; infinite while unknown", _age, "gauge"),
    Family("slurm_period_seconds", "Between two reads at present", lambda one: one.period, "gauge"),
    Family("slurm_suspicions", "What is hard to believe; nothing is destroyed meanwhile", _suspicions, "gauge"),
)
DOWNWARD: Final[tuple[Family[DownwardStatistics], ...]] = (
    Family("rounds", "Rounds of orders", lambda one: one.counts.rounds),
    Family("orders", "Orders sent to Slurm in them, each for any number of nodes", lambda one: one.counts.calls),
    Family("orders_failed", "Those that Slurm did not carry out", lambda one: one.counts.failed),
    Family(
        "nodes_restored", "Drains of others put back after an order took them away", lambda one: one.counts.restored
    ),
    Family("nodes_drained", "Nodes drained because of Kubernetes", lambda one: one.counts.drained),
    Family("nodes_undrained", "Nodes undrained because their cause is gone", lambda one: one.counts.undrained),
    Family("nodes_featured", "Nodes whose features were written", lambda one: one.counts.featured),
    Family("nodes_marked", "Nodes whose extra was written", lambda one: one.marked),
    Family("answers", "Orders of people that were answered", lambda one: one.counts.answered),
    Family("waves", "Times that many Pods stopped being ready together", lambda one: one.waves),
    Family("drains_delayed", "1 while drains wait because of that", lambda one: float(one.delayed), "gauge"),
    Family("nodes_waiting", "Nodes that want a look", lambda one: one.queue.depth + one.queue.delayed, "gauge"),
)


class Collected(Collector):
    """Reads everything at the moment of a scrape, on the loop's thread."""

    def __init__(self, ground: Ground, downward: Downward, clocks: Clocks) -> None:
        self._ground = ground
        self._downward = downward
        self._clocks = clocks

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        found = self._ground.mirror.statistics()
        yield from _told(MIRROR, found)
        yield from _told(DOWNWARD, self._downward.statistics())
        rows = GaugeMetricFamily("sunk_syncer_slurm_rows", "Rows of each table of Slurm", labels=("table",))
        for table, count in found.rows.items():
            rows.add_metric((table,), count)
        yield rows
        yield _ahead(self._clocks)
        survived = CounterMetricFamily(
            "sunk_syncer_faults", "Faults that nobody foresaw and that were survived", labels=("where",)
        )
        for where, count in faults.counts.items():
            survived.add_metric((where,), count)
        yield survived
        if isinstance(self._ground.library, Counted):
            yield _calls(self._ground.library)


def _told(table: Iterable[Family[S]], found: S) -> Iterator[Metric]:
    for family in table:
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        yield kind(f"sunk_syncer_{family.name}", family.help, value=family.read(found))


def _ahead(clocks: Clocks) -> Metric:
    told = GaugeMetricFamily(
        "sunk_syncer_clock_ahead_seconds", "By how much another clock is ahead of this machine's", labels=("clock",)
    )
    found = clocks.apart()
    for clock, ahead in (("apiserver", found.server), ("slurmctld", found.slurm)):
        if ahead is not None:
            told.add_metric((clock,), ahead)
    return told


def _calls(library: Counted) -> Metric:
    calls = CounterMetricFamily(
        "sunk_syncer_slurm_calls", "Calls to slurmctld, orders and reads, by outcome", labels=("asked", "outcome")
    )
    for (asked, outcome), count in library.calls.items():
        calls.add_metric((asked, outcome), count)
    return calls
