"""How many requests we allow ourselves: a token bucket whose waiters are served in the order they came.

A bucket is one number: the moment at which it will be full again. Taking moves that moment on by the price of one
request; whoever finds it further away than the whole bucket holds waits for the difference. Nobody is woken to compete
with others, so no waiter is overtaken and the cost does not grow with their number.
"""

import asyncio
from typing import Final

from msgspec import Struct

from sunk.model import loopclock

_ROUNDING: Final = 1e-6


class LimitStatistics(Struct, frozen=True):
    """`waited` is the sum of all delays, in seconds; `waiting` is how many are held up just now."""

    taken: int
    waiting: int
    waited: float


class Bucket:
    """`rate` requests a second in the long run, `burst` at once. Time is the loop's."""

    def __init__(self, rate: float, *, burst: int = 1) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"a bucket of rate {rate} and burst {burst} lets nothing pass: both must be positive")
        self._price = 1 / rate
        self._depth = burst * self._price
        self._full_at = float("-inf")
        self._taken = 0
        self._waiting = 0
        self._waited = 0.0

    def try_take(self) -> bool:
        """Take without waiting, if there is something to take."""
        if self._delay() > _ROUNDING:
            return False
        self._charge()
        return True

    async def take(self) -> None:
        """Take one, waiting for it as long as the ones before us have to and a little more."""
        delay = self._delay()
        self._charge()
        if delay > _ROUNDING:
            await self._wait(delay)

    async def _wait(self, delay: float) -> None:
        self._waiting += 1
        self._waited += delay
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self._full_at -= self._price  # not used, so the next to come has it
            raise
        finally:
            self._waiting -= 1

    def full(self) -> bool:
        """Tell whether nothing was taken for so long that a new bucket would be the same."""
        return self._full_at <= loopclock.now()

    def statistics(self) -> LimitStatistics:
        return LimitStatistics(taken=self._taken, waiting=self._waiting, waited=self._waited)

    def _delay(self) -> float:
        return self._full_at + self._price - loopclock.now() - self._depth

    def _charge(self) -> None:
        self._full_at = max(self._full_at, loopclock.now()) + self._price
        self._taken += 1
