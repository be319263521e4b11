"""Which keys to reconcile, and when: each at most once, and by one worker at a time.

The problem. A thousand events about one object are one reason to look at it. Two workers on one object get into each
other's way. What fails should be tried again, less and less often. And ten thousand objects of a first list must not
stand in front of the one that has just changed.

The design. A request is only a key, and requests for the same key melt into one: the higher priority and the earliest
time win. This includes a request to reconcile at once, which swallows a later one: whoever reconciles then says when
to come back. A key in work that is enqueued again is handed out once more when that work is done. Fresh keys go
before the others, except for one turn in `FAIRNESS`, so that nothing waits for ever.

One sleeping worker is called at a time, the last that fell asleep. Who takes a key has the next called when the loop
runs again, if there is more by then. So a burst that a single worker gets through without a pause wakes nobody else,
and what runs is what ran a moment ago and lies in the processor's caches.

Waiting keys lie in ordered dicts, delayed ones in a heap with one timer of the loop for its first entry. An entry that
was overtaken stays in the heap until it comes up; when such entries are the majority, the heap is rebuilt.

What was refused: a task or a timer per delayed key (thousands of them, all to be cancelled and awaited), and back-off
that an event must wait for: a change may be exactly what was missing.
"""

import asyncio
import enum
import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from msgspec import Struct

from sunk.model import loopclock
from sunk.model.backoff import BackOff

K = TypeVar("K", bound=Hashable)

FAIRNESS: Final = 8
_SMALL_HEAP: Final = 64


class Priority(enum.IntEnum):
    """FRESH is news; LATER is a resync of what was there before we came or has not changed."""

    LATER = 0
    FRESH = 1


USUAL: Final = BackOff()


class QueueStatistics(Struct, frozen=True):
    """Counts since the start and what is so now; durations in seconds."""

    depth: int
    delayed: int
    working: int
    adds: int
    retries: int
    taken: int
    finished: int
    waited: float
    """Sum of all waits from being ready to being taken; divided by `taken`, the mean."""
    worked: float
    """Sum of all times in work; divided by `finished`, the mean."""
    longest_wait: float
    """Of the keys that are ready now."""
    longest_work: float
    """Of the keys in work now: one that grows is a worker that hangs."""


class Queue(Generic[K]):
    def __init__(self, *, back_off: BackOff = USUAL) -> None:
        self._back_off = back_off
        self._ready: tuple[OrderedDict[K, float], OrderedDict[K, float]] = (OrderedDict(), OrderedDict())
        self._working: dict[K, float] = {}
        self._again: dict[K, tuple[Priority, float]] = {}
        self._due: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._timer: asyncio.Handle | None = None
        self._timer_at: float | None = None
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._called = False
        self._idle: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._adds = self._retries = self._taken = self._finished = self._serial = 0
        self._waited = self._worked = 0.0

    # Requests

    def add(self, key: K, *, priority: Priority = Priority.FRESH) -> None:
        """Enqueue a key now, whatever delay it was given before."""
        if self._closed:
            return
        self._adds += 1
        if self._due:
            self._due.pop(key, None)
        now = loopclock.now()
        if key in self._working:
            asked, since = self._again.get(key) or (priority, now)
            self._again[key] = max(priority, asked), since
        else:
            self._make_ready(key, priority, since=now)

    def add_after(self, key: K, *, delay: float) -> None:
        """Enqueue a key in a while; an earlier request stands."""
        if delay <= 0:
            self.add(key)
            return
        when = loopclock.now() + delay
        if self._closed or self._waits(key) or (key in self._due and self._due[key][0] <= when):
            return
        self._serial += 1  # tells an entry that counts from those it overtook, and spares comparing keys
        self._due[key] = when, self._serial
        heapq.heappush(self._heap, (when, self._serial, key))
        if len(self._heap) > 2 * len(self._due) + _SMALL_HEAP:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[:2]]
            heapq.heapify(self._heap)
        self._set_timer()

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Enqueue a key again after a failure; returns in how many seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._retries += 1
        delay = max(self._back_off.jittered(failures), at_least)
        self.add_after(key, delay=delay)
        return delay

    def forget(self, key: K) -> None:
        """Let the next failure of the key be the first one again."""
        if self._failures:
            self._failures.pop(key, None)

    # Work

    async def get(self) -> K:
        """Take the next key; no other worker gets it until `done`. A closed queue gives none any more."""
        while self._closed or not self.ready:
            await self._sleep()
        key, since = self._pop()
        loop = asyncio.get_running_loop()
        self._working[key] = now = loop.time()
        self._taken += 1
        self._waited += now - since
        if self._getters and not self._called and self.ready:
            self._called = True
            loop.call_soon(self._call_next)
        return key

    @property
    def ready(self) -> bool:
        """Whether there is a key that nobody has taken."""
        later, fresh = self._ready
        return bool(fresh or later)

    def done(self, key: K) -> None:
        self._finished += 1
        self._worked += loopclock.now() - self._working.pop(key)
        again = self._again.pop(key, None) if self._again else None
        if again is not None and not self._closed:
            priority, since = again
            self._make_ready(key, priority, since=since)
        if not self._working:
            while self._idle:
                _finish(self._idle.popleft())

    def close(self) -> None:
        """Take no more requests and give out no more work. What is in work goes on."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    async def idle(self) -> None:
        """Wait until nothing is in work; after `close` that is the end."""
        while self._working:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def statistics(self) -> QueueStatistics:
        now = loopclock.now()
        return QueueStatistics(
            depth=sum(map(len, self._ready)),
            delayed=len(self._due),
            working=len(self._working),
            adds=self._adds,
            retries=self._retries,
            taken=self._taken,
            finished=self._finished,
            waited=self._waited,
            worked=self._worked,
            longest_wait=now - min((since for ready in self._ready for since in ready.values()), default=now),
            longest_work=now - min(self._working.values(), default=now),
        )

    # The parts of it

    def _waits(self, key: K) -> bool:
        return key in self._again or any(key in ready for ready in self._ready)

    def _make_ready(self, key: K, priority: Priority, *, since: float) -> None:
        later, fresh = self._ready
        if key in fresh:
            return
        if key not in later:
            self._ready[priority][key] = since
            if not self._called:
                self._wake()
        elif priority is Priority.FRESH:
            fresh[key] = later.pop(key)

    def _pop(self) -> tuple[K, float]:
        later, fresh = self._ready
        chosen = later if not fresh or (later and self._taken % FAIRNESS == FAIRNESS - 1) else fresh
        return chosen.popitem(last=False)

    async def _sleep(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._getters.remove(waiter)
            if waiter.done() and not waiter.cancelled():
                self._called = False
                self._wake()  # it was our turn, and we cannot take it: somebody else must
            raise
        self._called = False

    def _wake(self) -> None:
        """Call one worker, unless one is on its way already."""
        while self._getters and not self._called:
            waiter = self._getters.pop()
            if not waiter.done():
                waiter.set_result(None)
                self._called = True

    def _call_next(self) -> None:
        """Call another worker, unless the one that took a key has got through all the others by now."""
        self._called = False
        if self.ready:
            self._wake()

    def _set_timer(self) -> None:
        first = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            # Not asked of the timer: uvloop makes one of half a millisecond a plain call, which knows no time.
            if self._timer_at == first:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer, self._timer_at = None if first is None else loop.call_at(first, self._come_due), first

    def _come_due(self) -> None:
        self._timer = None
        now = loopclock.now()
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._due.get(entry[2]) == entry[:2]:
                self.add(entry[2])
        self._set_timer()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
