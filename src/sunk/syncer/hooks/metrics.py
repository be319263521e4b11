"""What scrapers are told of locks: how many jobs wait for one, for how long they have waited, and what came of it."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sunk.syncer.hooks.announced import Announced
from sunk.syncer.hooks.prehook import BUCKETS, PreHook, PreHookStatistics


class LockCollector(Collector):
    """Reads everything at the moment of a scrape, on the loop's thread. `requests` is how many were written."""

    def __init__(self, pre_hook: PreHook, announced: Announced, *, prefix: str, requests: Callable[[], int]) -> None:
        self._pre_hook = pre_hook
        self._announced = announced
        self._prefix = f"{prefix}_lock"
        self._requests = requests

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        statistics, prefix = self._pre_hook.statistics(), self._prefix
        yield GaugeMetricFamily(f"{prefix}_waiting", "Prologs that wait for the lock", value=statistics.waiting)
        text = "Jobs that prologs have announced and that are kept in mind"
        yield GaugeMetricFamily(f"{prefix}_announced", text, value=len(self._announced))
        text = "Requests for locks written to Pods, withdrawals included"
        yield CounterMetricFamily(f"{prefix}_requests", text, value=self._requests())
        answers = CounterMetricFamily(f"{prefix}_answers", "Answers to prologs, by result", labels=("result",))
        for result, count in statistics.answers.items():
            answers.add_metric((result,), count)
        yield answers
        yield _seconds(statistics, name=f"{prefix}_seconds")


def _seconds(statistics: PreHookStatistics, *, name: str) -> Metric:
    bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
    buckets = list(zip(bounds, statistics.seconds, strict=True))
    text = "Seconds that prologs have waited until the Node was locked"
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=statistics.sum_of_seconds)
