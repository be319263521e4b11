"""The syncer's metrics about itself: how it calls Slurm, how old its view is, and how far that view is trusted."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sunk.kube.process.families import Family, Table, metrics
from sunk.model import faults
from sunk.slurm.errors import SlurmError, Unreachable
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.reading import MirrorStatistics
from sunk.syncer.accounts.controller import AccountController, AccountStatistics
from sunk.syncer.context import Context
from sunk.syncer.drains.controller import DrainController, DrainStatistics
from sunk.syncer.visibility.clocks import Clocks

T = TypeVar("T")

PREFIX: Final = "sunk_syncer"


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


MIRROR: Final[Table[MirrorStatistics]] = (
    Family("slurm_reads", "Reads of all tables of Slurm", lambda stats: stats.counts.reads),
    Family("slurm_reads_unchanged", "Reads that showed no change", lambda stats: stats.counts.unchanged),
    Family("slurm_reads_whole", "Reads that requested everything, changed or not", lambda stats: stats.counts.whole),
    Family("slurm_reads_failed", "Reads that failed", lambda stats: stats.counts.failures),
    Family("slurm_restarts", "Restarts of slurmctld that were noticed", lambda stats: stats.counts.restarts),
    Family("slurm_read_seconds", "Duration of the last read", lambda stats: stats.counts.last_duration, "gauge"),
    Family("slurm_age_seconds", "Age of the last read, from its start; infinite while unknown", _age, "gauge"),
    Family("slurm_period_seconds", "Current interval between reads", lambda stats: stats.period, "gauge"),
    Family(
        "slurm_suspicions", "Unconfirmed losses in Slurm; nothing is deleted while there are any", _suspicions, "gauge"
    ),
)
DRAINS: Final[Table[DrainStatistics]] = (
    Family("rounds", "Batches of updates sent", lambda stats: stats.counts.rounds),
    Family("orders", "Updates sent to Slurm, each for any number of nodes", lambda stats: stats.counts.calls),
    Family("orders_failed", "Nodes for which an update failed", lambda stats: stats.counts.failed),
    Family(
        "nodes_restored",
        "Drains set by others that SUNK removed by accident and restored",
        lambda stats: stats.counts.restored,
    ),
    Family("nodes_drained", "Nodes drained because of Kubernetes", lambda stats: stats.counts.drained),
    Family("nodes_undrained", "Nodes undrained because their cause is gone", lambda stats: stats.counts.undrained),
    Family("nodes_featured", "Nodes whose features were written", lambda stats: stats.counts.featured),
    Family("nodes_marked", "Nodes whose Extra was written", lambda stats: stats.marked),
    Family("answers", "Requests of users that were answered", lambda stats: stats.counts.answered),
    Family("waves", "Times that many Pods became not ready at once", lambda stats: stats.waves),
    Family("drains_delayed", "1 while drains are delayed for that reason", lambda stats: float(stats.delayed), "gauge"),
    Family(
        "nodes_waiting",
        "Nodes that wait to be processed",
        lambda stats: stats.queue.depth + stats.queue.delayed,
        "gauge",
    ),
)


ACCOUNTS: Final[Table[AccountStatistics]] = (
    Family("accounts_rounds", "Times that accounts of users were compared with the rules", lambda stats: stats.rounds),
    Family("accounts_added", "Associations added to slurmdbd", lambda stats: stats.added),
    Family("accounts_changed", "Associations whose QOS were changed", lambda stats: stats.changed),
    Family("accounts_removed", "Associations removed from slurmdbd", lambda stats: stats.removed),
    Family("accounts_refused", "Orders that slurmdbd refused", lambda stats: stats.refused),
    Family(
        "accounts_reconfigures", "Reconfigures for users that slurmctld did not know", lambda stats: stats.reconfigures
    ),
    Family("accounts_wanted", "Associations that the rules ask for", lambda stats: stats.last.wanted, "gauge"),
    Family(
        "accounts_arriving",
        "Associations that wait until slurmctld knows the user",
        lambda stats: len(stats.last.arriving),
        "gauge",
    ),
    Family(
        "accounts_waiting",
        "Associations that are removed when their jobs have ended",
        lambda stats: len(stats.last.waiting),
        "gauge",
    ),
    Family(
        "accounts_withheld",
        "Associations that the rules ask for and somebody has removed",
        lambda stats: len(stats.last.withheld),
        "gauge",
    ),
    Family(
        "accounts_foreign",
        "Associations that differ from the rules because somebody has made or changed them",
        lambda stats: len(stats.last.foreign),
        "gauge",
    ),
    Family(
        "accounts_held",
        "Associations that stay because too many users left their groups at once",
        lambda stats: len(stats.last.held),
        "gauge",
    ),
    Family(
        "accounts_unknown", "Users with an account that slurmctld does not know", lambda stats: stats.unknown, "gauge"
    ),
)


class SyncerCollector(Collector):
    """Reads everything at the moment of a scrape, on the loop's thread."""

    def __init__(self, context: Context, drains: DrainController, clocks: Clocks, accounts: AccountController) -> None:
        self._context = context
        self._accounts = accounts
        self._drains = drains
        self._clocks = clocks

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        mirror = self._context.mirror.statistics()
        yield from metrics(MIRROR, mirror, prefix=PREFIX)
        yield from metrics(DRAINS, self._drains.statistics(), prefix=PREFIX)
        yield from metrics(ACCOUNTS, self._accounts.statistics, prefix=PREFIX)
        rows = GaugeMetricFamily("sunk_syncer_slurm_rows", "Rows of each table of Slurm", labels=("table",))
        for table, count in mirror.rows.items():
            rows.add_metric((table,), count)
        yield rows
        yield _clock_offsets(self._clocks)
        survived = CounterMetricFamily(
            "sunk_syncer_faults", "Unexpected errors that the process survived", labels=("where",)
        )
        for where, count in faults.counts.items():
            survived.add_metric((where,), count)
        yield survived
        if isinstance(self._context.library, CountingLibrary):
            yield _calls(self._context.library)


def _clock_offsets(clocks: Clocks) -> Metric:
    gauge = GaugeMetricFamily(
        "sunk_syncer_clock_ahead_seconds",
        "Seconds by which another clock is ahead of this machine's",
        labels=("clock",),
    )
    offsets = clocks.offsets()
    for clock, ahead in (("apiserver", offsets.server), ("slurmctld", offsets.slurm)):
        if ahead is not None:
            gauge.add_metric((clock,), ahead)
    return gauge


def _calls(library: CountingLibrary) -> Metric:
    calls = CounterMetricFamily(
        "sunk_syncer_slurm_calls", "Calls to slurmctld, updates and reads, by outcome", labels=("asked", "outcome")
    )
    for (asked, outcome), count in library.calls.items():
        calls.add_metric((asked, outcome), count)
    return calls
