"""What the operator tells scrapers of locks. Two controllers write them: one those of Nodes, the other copies on Pods."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sunk.kube.core import Node
from sunk.model import names
from sunk.model.contract import lock
from sunk.objects.nodesets import NodeSet
from sunk.operator.caches import shared_caches
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

Kind = Literal["take", "answer", "release", "leave", "copy"]
_PREFIX: Final = "sunk_operator_lock"
_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


def lock_metrics(setting: Setting) -> "LockMetrics":
    """To be asked for by `setting.once(lock_metrics)`."""
    shared = setting.once(shared_caches)
    return LockMetrics(shared.nodes.store.all, sets=shared.sets)


class LockMetrics(Collector):
    """Counts what is written; how many locks there are is read from the Nodes at every scrape."""

    def __init__(self, nodes: Callable[[], Iterable[Node]], *, sets: Scoped[NodeSet]) -> None:
        self._nodes = nodes
        self._sets = sets
        self._writes = Counter(f"{_PREFIX}_writes", "Writes by kind", ("kind",), registry=None)
        self._seconds = Histogram(
            f"{_PREFIX}_seconds", "Time from seeing a request to locked", buckets=_BUCKETS, registry=None
        )
        self._missing = Counter(
            f"{_PREFIX}_taints_missing", "Times that a locked Node was found without the taint", registry=None
        )

    def wrote(self, kind: Kind) -> None:
        self._writes.labels(kind).inc()

    def locked(self, seconds: float) -> None:
        self._seconds.observe(seconds)

    def taint_missing(self) -> None:
        self._missing.inc()

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for one in (self._writes, self._seconds, self._missing):
            yield from one.collect()
        found = Tally(filter(None, map(self._state, self._nodes())))
        locks = GaugeMetricFamily(f"{_PREFIX}s", "Nodes by state of their lock", labels=("state",))
        for state in (lock.PENDING, lock.LOCKED, lock.LOCKED_STRICT):
            locks.add_metric((state,), found[state])
        yield locks

    def _state(self, node: Node) -> str:
        ours = self._sets.covers(node.metadata.labels.get(names.NAMESPACE, ""))
        return node.metadata.annotations.get(names.LOCK, "") if ours else ""
