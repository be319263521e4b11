"""A work queue with due times: each key waits at most once, and is reconciled by one worker at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NoReturn, TypeVar

from sunk.kube.errors import KubeError
from sunk.model import loopclock
from sunk.model.backoff import BackOff

log = logging.getLogger(__name__)

BACK_OFF: Final = BackOff(first=0.25, longest=8.0)

K = TypeVar("K", bound=Hashable)


class DueQueue(Generic[K]):
    """A queue of keys with due times on the loop's clock. Of two times for one key the earlier counts."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        """Each with its time: uvloop makes one of half a millisecond a plain call, which knows none."""
        self._waiting: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Count what is due and not finished."""
        return len(self._waiting | self._processing)

    def add(self, key: K, *, at: float | None = None) -> None:
        """Enqueue a key, for now or for later. One that is being reconciled is reconciled once more afterwards."""
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if at is None or at <= loop.time():
            self.forget(key)
            self._enqueue(key)
        elif key not in self._waiting and (planned is None or at < planned[0]):
            self.forget(key)
            self._timers[key] = at, loop.call_at(at, self._timer_fired, key)

    def forget(self, key: K) -> None:
        """Take back a time in the future; what is due already stays."""
        if planned := self._timers.pop(key, None):
            planned[1].cancel()

    async def serve(self, reconcile: Callable[[K], Awaitable[float | None]]) -> NoReturn:
        """Reconcile one key after the other; what `reconcile` returns is when to do so again."""
        while True:
            key = await self._queue.get()
            self._waiting.remove(key)
            self._processing.add(key)
            try:
                again = await self._reconcile(reconcile, key)
            finally:
                self._done(key)
            if again is not None:
                self.add(key, at=again)

    def close(self) -> None:
        for key in tuple(self._timers):
            self.forget(key)

    async def _reconcile(self, reconcile: Callable[[K], Awaitable[float | None]], key: K) -> float | None:
        try:
            again = await reconcile(key)
        except KubeError as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = BACK_OFF.delay(failures)
            log.warning("%s; retrying %s in %.1f s", error, key, delay)
            return loopclock.now() + delay
        self._failures.pop(key, None)
        return again

    def _done(self, key: K) -> None:
        self._processing.remove(key)
        if key in self._waiting:
            self._queue.put_nowait(key)

    def _timer_fired(self, key: K) -> None:
        del self._timers[key]
        self._enqueue(key)

    def _enqueue(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._processing:
            self._queue.put_nowait(key)
