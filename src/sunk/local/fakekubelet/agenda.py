"""What to look at next, and when: each key at most once in line, and in one pair of hands at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NoReturn, TypeVar

from sunk.kube.errors import KubeError

log = logging.getLogger(__name__)

FIRST_RETRY: Final = 0.25
LAST_RETRY: Final = 8.0

K = TypeVar("K", bound=Hashable)


class Agenda(Generic[K]):
    """A queue of keys with due times on the loop's clock. Of two times for one key the earlier counts."""

    def __init__(self) -> None:
        self._line: asyncio.Queue[K] = asyncio.Queue()
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        """Each with its time: uvloop makes one of half a millisecond a plain call, which knows none."""
        self._waiting: set[K] = set()
        self._in_hand: set[K] = set()
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Count what is due and not finished."""
        return len(self._waiting | self._in_hand)

    def add(self, key: K, *, at: float | None = None) -> None:
        """Put a key on, for now or for later. One in hand is looked at once more after it is put down."""
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if at is None or at <= loop.time():
            self.forget(key)
            self._fall_due(key)
        elif key not in self._waiting and (planned is None or at < planned[0]):
            self.forget(key)
            self._timers[key] = at, loop.call_at(at, self._ripen, key)

    def forget(self, key: K) -> None:
        """Take back a time in the future; what is due already stays."""
        if planned := self._timers.pop(key, None):
            planned[1].cancel()

    async def serve(self, look: Callable[[K], Awaitable[float | None]]) -> NoReturn:
        """Look at one key after the other; what `look` returns is when to look at it again."""
        while True:
            key = await self._line.get()
            self._waiting.remove(key)
            self._in_hand.add(key)
            try:
                again = await self._look(look, key)
            finally:
                self._put_down(key)
            if again is not None:
                self.add(key, at=again)

    def close(self) -> None:
        for key in tuple(self._timers):
            self.forget(key)

    async def _look(self, look: Callable[[K], Awaitable[float | None]], key: K) -> float | None:
        try:
            again = await look(key)
        except KubeError as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay: float = min(FIRST_RETRY * 2 ** (failures - 1), LAST_RETRY)
            log.warning("%s; looking at %s again in %.1f s", error, key, delay)
            return asyncio.get_running_loop().time() + delay
        self._failures.pop(key, None)
        return again

    def _put_down(self, key: K) -> None:
        self._in_hand.remove(key)
        if key in self._waiting:
            self._line.put_nowait(key)

    def _ripen(self, key: K) -> None:
        del self._timers[key]
        self._fall_due(key)

    def _fall_due(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._in_hand:
            self._line.put_nowait(key)
