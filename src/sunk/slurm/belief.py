"""How far Slurm is believed: whether it is known at all, and whether what it says can be true.

A controller that lost its state says that things are gone with full conviction. Two signs tell: many rows vanish at
once, or a controller that was started anew gives numbers to new jobs that it had given to others. Either is remembered
until what was missing is back or somebody accepts it.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeAlias

from msgspec import Struct

from sunk.slurm.rows import Difference, K, Rows, T


class Known(Struct, frozen=True):
    """Slurm answers. Times are the loop's; `version` counts the reads."""

    since: float
    version: int


class Unknown(Struct, frozen=True):
    """Nobody knows what Slurm does, and for which reason."""

    since: float
    reason: str


State: TypeAlias = Known | Unknown


class Stale(Exception):  # noqa: N818 - named as in sunk.slurm.errors
    """What is known of Slurm is not enough to act upon. Nothing is wrong with the act; it has to wait."""


class Suspicion(Struct, frozen=True):
    """What reads have shown that is hard to believe. `missing` are the keys that are gone, out of `before` many."""

    since: float
    reason: str
    before: int = 0
    missing: frozenset[str | int] = frozenset()


class Losses(Generic[K, T]):
    """Watches one table for losses above a share of its rows. `normal` says of a row that it may go at any time."""

    def __init__(self, rows: Rows[K, T], *, share: float, normal: Callable[[T], bool]) -> None:
        self.suspicion: Suspicion | None = None
        self._rows = rows
        self._share = share
        self._normal = normal
        self._missing: frozenset[K] = frozenset()

    def look(self, difference: Difference[K, T], *, now: float) -> None:
        """Look at a newer table before it takes the place of the rows."""
        lost = {key for key, before, after in difference.changes if after is None and not self._is_normal(before)}
        missing = frozenset((lost | self._missing) - difference.rows.keys())
        held, self.suspicion, self._missing = self.suspicion, None, frozenset()
        if not missing:
            return
        before = max(sum(not self._normal(row) for row in self._rows.all()), held.before if held else 0)
        if len(missing) > self._share * before:
            reason = f"{len(missing)} of {before} {self._rows.name} are gone at once"
            since = held.since if held else now
            self._missing = missing
            self.suspicion = Suspicion(since=since, reason=reason, before=before, missing=missing)

    def accept(self) -> None:
        self.suspicion, self._missing = None, frozenset()

    def _is_normal(self, row: T | None) -> bool:
        return row is not None and self._normal(row)


class JobNumbers:
    """Watches the numbers of jobs, which only grow, until the configured largest is reached after many millions."""

    def __init__(self) -> None:
        self.suspicion: Suspicion | None = None
        self._highest = 0
        self._mark = 0

    def restarted(self) -> None:
        """Hear of a new slurmctld: jobs that it brings and that are new to us have numbers above all earlier ones."""
        self._mark = self._highest

    def look(self, new: Iterable[int], *, now: float) -> None:
        numbers = tuple(new)
        lowest = min(numbers, default=self._mark + 1)
        if lowest <= self._mark and self.suspicion is None:  # the first one tells all; many may follow
            reason = f"since slurmctld was started anew it gave out job {lowest}, though it had come to {self._mark}"
            self.suspicion = Suspicion(since=now, reason=reason)
        self._highest = max(self._highest, *numbers, 0)

    def accept(self) -> None:
        """Numbers begin anew: those of before say nothing any more, also not after the next start."""
        self.suspicion, self._mark, self._highest = None, 0, 0
