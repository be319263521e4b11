"""A time limit for one wait after the other, with one timer for all of them.

`asyncio.timeout` sets and cancels a timer of the loop each time. Where thousands of waits a second end in time, that is
most of what a wait costs. Here a wait notes when it is due; the timer, when it rings, looks whether that has passed.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Expired(TimeoutError):  # noqa: N818 - named as in sunk.kube.errors
    """It was our own limit that has passed, and none of those inside."""


class Allowance:
    """For one task at a time. `within` raises Expired; a cancellation from elsewhere stays what it is."""

    def __init__(self) -> None:
        self._due: float | None = None
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._rang = False

    async def within(self, seconds: float, wait: Awaitable[T]) -> T:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a limit ends a task, and here is none: await this inside of one")
        cancelling = task.cancelling()
        self._begin(task, seconds)
        try:
            return await wait
        except asyncio.CancelledError:
            if self._rang and task.uncancel() <= cancelling:
                raise Expired from None
            raise
        finally:
            self._due, self._task, self._rang = None, None, False

    def _begin(self, task: "asyncio.Task[object]", seconds: float) -> None:
        loop = task.get_loop()
        self._task, self._due = task, loop.time() + seconds
        # Not asked of the timer: uvloop makes one of half a millisecond a plain call, which knows no time.
        if self._timer is None or self._timer_at > self._due:
            self._set(loop)

    def _set(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._due is not None:
            self._timer, self._timer_at = loop.call_at(self._due, self._ring, loop), self._due

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._due is None or self._task is None:
            return
        if self._due > loop.time():
            self._set(loop)
        else:
            self._rang = True
            self._task.cancel()
