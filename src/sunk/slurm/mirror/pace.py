"""How often Slurm is read, and what is counted of it."""

from msgspec import Struct

from sunk.slurm.mirror.confidence import Suspicion


class Pace(Struct, frozen=True):
    """How often to read, in seconds."""

    quickest: float = 0.2
    slowest: float = 0.65
    growth: float = 1.5
    rest: float = 0.01
    """The least time between two reads, however many ask."""
    retry: float = 0.1
    """The least time after one that failed; doubled with each, up to `longest_retry`."""
    longest_retry: float = 5.0
    whole: float = 30.0
    """After so long nothing is believed to be unchanged."""
    seldom: float = 1.0
    """Partitions and reservations are read this often, where nobody asks, and slurmctld's clock is looked at."""
    patience: float = 30.0
    """A read that takes longer has failed. The reader's own bounds are shorter; this one is the last."""

    def __post_init__(self) -> None:
        if not 0 < self.rest <= self.quickest <= self.slowest or self.growth < 1:
            raise ValueError(f"{self} does not fit: 0 < rest ≤ quickest ≤ slowest and growth ≥ 1 were wanted")

    def after(self, period: float, *, quick: bool) -> float:
        return self.quickest if quick else min(period * self.growth, self.slowest)

    def back_off(self, failures: int) -> float:
        return min(self.retry * 2.0 ** min(failures - 1, 30), self.longest_retry)


class Counts(Struct):
    """What was done since the start; the duration in seconds."""

    reads: int = 0
    unchanged: int = 0
    whole: int = 0
    failures: int = 0
    restarts: int = 0
    last_duration: float = 0.0


class MirrorStatistics(Struct, frozen=True):
    """For metrics. Times are in seconds; `age` is infinite while nothing is known."""

    counts: Counts
    age: float
    period: float
    suspicions: tuple[Suspicion, ...]
    rows: dict[str, int]
