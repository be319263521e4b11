"""How long one may lead: the arithmetic of a lease, with nothing in it that asks a server.

Two clocks never meet here. The holder counts from the moment it *sent* its last successful renewal; a rival counts
from the moment it *saw* the record change, which is later. Each uses its own monotonic clock and the same duration, so
a holder that stops `margin` before its time is up has stopped before any rival's count comes to an end, whatever their
wall clocks say. The times written into the record are for people.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from sunk.model import loopclock


class LeaseTiming(Struct, frozen=True):
    """In seconds. `margin` is what work has to come to its end in, and what requests in flight have to arrive in."""

    duration: float = 15.0
    margin: float = 5.0
    interval: float = 2.0

    def __post_init__(self) -> None:
        if self.duration < 1 or self.duration != int(self.duration):
            raise ValueError(f"a lease lasts whole seconds, found {self.duration:g}: Kubernetes keeps no fractions")
        if not 0 < self.margin < self.duration or not 0 < self.interval < self.reach:
            raise ValueError(f"{self} leaves no time to renew: margin + interval must be less than duration")

    @property
    def reach(self) -> float:
        """For how long one renewal carries the holder."""
        return self.duration - self.margin

    @property
    def patience(self) -> float:
        """How long to wait for an answer, so that a lost one leaves time for two more tries."""
        return max(self.interval, self.reach / 3)


class LeaseLost(Exception):  # noqa: N818 - named as what happened, like sunk.kube.errors
    """The block had to be ended: the lease could not be renewed in time, or somebody else has it."""


class LeaseTerm:
    """One spell of leading. Whoever is about to destroy something asks `holds` right before."""

    def __init__(self, timing: LeaseTiming, *, sent: float) -> None:
        self._timing = timing
        self._limit: asyncio.Timeout | None = None
        self._lost = ""
        self.deadline = sent + timing.reach

    def holds(self) -> bool:
        """Tell, at the cost of a look at the clock, whether nobody else can lead at this moment.

        A process that was stopped for a minute finds itself in the middle of a line. Its timers have not run yet, but
        the clock has gone on, and this sees it.
        """
        return not self._lost and loopclock.now() < self.deadline

    def renewed(self, *, sent: float) -> None:
        """Hear that a renewal sent then has succeeded. One that was answered too late extends nothing."""
        if self.holds():
            self.deadline = max(self.deadline, sent + self._timing.reach)
            self._reschedule()

    def lose(self, why: str) -> None:
        """Hear that somebody else leads, or that nobody does: end the block now."""
        if not self._lost:
            self._lost = why
            self.deadline = min(self.deadline, loopclock.now())
            self._reschedule()

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """Run a block that is cancelled at the deadline, wherever it has been moved by then; raises LeaseLost if it was."""
        limit = asyncio.timeout_at(self.deadline)
        try:
            async with limit:
                self._limit = limit
                yield
        except TimeoutError:
            if not limit.expired():
                raise  # the block's own
            raise LeaseLost(self._lost or "not renewed in time") from None
        finally:
            self._limit = None

    def _reschedule(self) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self.deadline)


class ObservedLease:
    """What a rival has seen of the record, and since when it has looked like this."""

    def __init__(self) -> None:
        self._version = ""
        self._since = 0.0

    def expires_in(self, version: str, *, duration: float) -> float:
        """Say how long the record must still stay as it is before it may be taken; zero or less means now.

        Any write counts as a change, also one of another's that left the times alone: this errs on the safe side.
        """
        if version != self._version:
            self._version, self._since = version, loopclock.now()
        return self._since + duration - loopclock.now()
