"""Metrics as tables: each row names one, says what it means, and how to read it from statistics that somebody keeps."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Literal, TypeVar

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

S = TypeVar("S")


class Family(Struct, Generic[S], frozen=True):
    """One metric, by its name without the prefix that all metrics of a table share."""

    name: str
    help: str
    read: Callable[[S], float]
    kind: Literal["counter", "gauge"] = "counter"
    count: Callable[[S], int] | None = None
    """Makes it a summary: `read` is then the sum, and this the number of things summed up."""


Table = tuple[Family[S], ...]


def metrics(table: Iterable[Family[S]], statistics: S, *, prefix: str) -> Iterator[Metric]:
    """Read all metrics of a table from the only statistics there are."""
    return (_metric(family, {(): statistics}, labels=(), prefix=prefix) for family in table)


def labelled_metrics(table: Iterable[Family[S]], by_name: Mapping[str, S], *, prefix: str) -> Iterator[Metric]:
    """Read all metrics of a table from several statistics, told apart by the label `name`."""
    sources: dict[tuple[str, ...], S] = {(name,): statistics for name, statistics in by_name.items()}
    return (_metric(family, sources, labels=("name",), prefix=prefix) for family in table)


def _metric(family: Family[S], sources: Mapping[tuple[str, ...], S], *, labels: tuple[str, ...], prefix: str) -> Metric:
    name = f"{prefix}_{family.name}"
    if family.count is not None:
        summary = SummaryMetricFamily(name, family.help, labels=labels)
        for values, statistics in sources.items():
            summary.add_metric(values, count_value=family.count(statistics), sum_value=family.read(statistics))
        return summary
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(name, family.help, labels=labels)
    for values, statistics in sources.items():
        metric.add_metric(values, family.read(statistics))
    return metric
