"""What to look at next, and when: each key at most once in line, and in one pair of hands at a time."""

import asyncio
from typing import Generic, Hashable, TypeVar

K = TypeVar("K", bound=Hashable)


class Agenda(Generic[K]):
    """A queue of keys with due times on the loop's clock. Of two times for one key the earlier counts."""

    def __init__(self) -> None:
        self._line: asyncio.Queue[K] = asyncio.Queue()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._waiting: set[K] = set()
        self._in_hand: set[K] = set()

    def __len__(self) -> int:
        """Count what is due and not finished."""
        return len(self._waiting) + len(self._in_hand)

    def add(self, key: K, *, at: float | None = None) -> None:
        """Put a key on, for now or for later. One in hand is looked at once more after it is put down."""
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if at is None or at <= loop.time():
            self.forget(key)
            self._due(key)
        elif key not in self._waiting and (planned is None or at < planned.when()):
            self.forget(key)
            self._timers[key] = loop.call_at(at, self._ripen, key)

    def forget(self, key: K) -> None:
        """Take back a time in the future; what is due already stays."""
        if timer := self._timers.pop(key, None):
            timer.cancel()

    async def take(self) -> K:
        key = await self._line.get()
        self._waiting.remove(key)
        self._in_hand.add(key)
        return key

    def put_down(self, key: K) -> None:
        self._in_hand.remove(key)
        if key in self._waiting:
            self._line.put_nowait(key)

    def close(self) -> None:
        for key in tuple(self._timers):
            self.forget(key)

    def _ripen(self, key: K) -> None:
        del self._timers[key]
        self._due(key)

    def _due(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._in_hand:
            self._line.put_nowait(key)
