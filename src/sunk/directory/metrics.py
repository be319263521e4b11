"""The agent's metrics about itself and its directories."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sunk.directory.agent import Agent
from sunk.directory.publish import Publisher
from sunk.directory.reader import Reader
from sunk.model import faults, loopclock
from sunk.model.contract import people

PREFIX: Final = "sunk_directory"


def _age(reader: Reader) -> float:
    return float("inf") if reader.good_at is None else loopclock.now() - reader.good_at


_GAUGES: Final[tuple[tuple[str, str, Callable[[Reader], float]], ...]] = (
    ("users", "Users of the directory at the last good read", lambda reader: len(reader.content.users)),
    ("groups", "Groups of the directory at the last good read", lambda reader: len(reader.content.groups)),
    ("available", "1 if the last read was good", lambda reader: float(reader.state == people.AVAILABLE)),
    (
        "last_success_age_seconds",
        "Time since the last good read; infinite if there was none",
        _age,
    ),
    ("read_seconds", "Duration of the last read", lambda reader: reader.seconds),
)


class DirectoryCollector(Collector):
    """Reads everything at the moment of a scrape, on the loop's thread."""

    def __init__(self, agent: Agent, publisher: Publisher) -> None:
        self._agent = agent
        self._publisher = publisher

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        readers = self._agent.readers
        for name, words, read in _GAUGES:
            gauge = GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=("directory",))
            for directory, reader in readers.items():
                gauge.add_metric((directory,), read(reader))
            yield gauge
        reads = CounterMetricFamily(f"{PREFIX}_reads", "Reads, by how they ended", labels=("directory", "state"))
        failures = CounterMetricFamily(f"{PREFIX}_failures", "Failed reads, by reason", labels=("directory", "state"))
        for directory, reader in readers.items():
            for state, count in reader.reads.items():
                (reads if state == people.AVAILABLE else failures).add_metric((directory, state), count)
        yield reads
        yield failures
        yield GaugeMetricFamily(
            f"{PREFIX}_publishing", "1 while ConfigMaps are kept up to date", value=float(not self._agent.trouble)
        )
        yield CounterMetricFamily(f"{PREFIX}_writes", "Writes of ConfigMaps", value=self._publisher.writes)
        survived = CounterMetricFamily(
            f"{PREFIX}_faults", "Unexpected errors that the process survived", labels=("where",)
        )
        for where, count in faults.counts.items():
            survived.add_metric((where,), count)
        yield survived
