"""How long to wait after failures, the same everywhere: twice as long after each failure in a row, up to a bound."""

import random

from msgspec import Struct

_DOUBLINGS = 60
"""Enough to pass any bound, and few enough for a float."""


class BackOff(Struct, frozen=True):
    """Waits in seconds; `failures` are those in a row, counted from 1."""

    first: float = 0.1
    longest: float = 60.0

    def delay(self, failures: int) -> float:
        return min(self.first * 2.0 ** min(failures - 1, _DOUBLINGS), self.longest)

    def jittered(self, failures: int) -> float:
        """The same, up to half of it left to chance: so that many who failed together do not come back together."""
        return self.delay(failures) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
