"""What scrapers are told of the hook server."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sunk.kube.process.families import Family, Table, metrics


class HookStatistics(Struct, frozen=True):
    """A hook without a name stands for calls of none that there is."""

    calls: Mapping[str, int]
    """In progress, by hook."""
    answers: Mapping[tuple[str, int], int]
    """Given, by hook and status."""
    tokens: Mapping[str, int]
    """Judged, by way: keys, cache, review, refused, unverifiable."""
    strangers: int
    cut: int
    certificate_loads: int
    certificate_expires: datetime | None


def _expires(statistics: HookStatistics) -> float:
    return statistics.certificate_expires.timestamp() if statistics.certificate_expires else 0.0


HOOKS: Final[Table[HookStatistics]] = (
    Family("hook_strangers", "Connections that have not shown a valid token yet", lambda of: of.strangers, "gauge"),
    Family("hook_strangers_cut", "Such connections that were closed to make room for others", lambda of: of.cut),
    Family("hook_certificate_loads", "Certificates loaded, renewals included", lambda of: of.certificate_loads),
    Family("hook_certificate_expiry_seconds", "When the certificate expires; 0 without one", _expires, "gauge"),
)


class HookCollector(Collector):
    """Reads everything at the moment of a scrape, on the loop's thread. `prefix` is that of the process."""

    def __init__(self, read: Callable[[], HookStatistics], *, prefix: str) -> None:
        self._read = read
        self._prefix = prefix

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        statistics = self._read()
        yield from metrics(HOOKS, statistics, prefix=self._prefix)
        calls = GaugeMetricFamily(f"{self._prefix}_hook_calls", "Calls in progress", labels=("hook",))
        for hook, count in statistics.calls.items():
            calls.add_metric((hook,), count)
        yield calls
        answers = CounterMetricFamily(f"{self._prefix}_hook_answers", "Answers given", labels=("hook", "status"))
        for (hook, status), count in statistics.answers.items():
            answers.add_metric((hook, str(status)), count)
        yield answers
        tokens = CounterMetricFamily(f"{self._prefix}_hook_tokens", "Tokens judged, by way", labels=("way",))
        for way, count in statistics.tokens.items():
            tokens.add_metric((way,), count)
        yield tokens
