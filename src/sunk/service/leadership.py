"""Work that is done only while we lead: begun when the lease is ours, over before anybody else can have it.

    leadership = Leadership(lease, grace=25)
    leadership.assign(work)
    async with running({"leadership": leadership.run()}):
        await told.wait()
        await leadership.shut_down()      # work in hand is finished, the lease is given back

There are three ways to stop. A lease that is lost cancels all work at once, and the process competes for it again. A
leader that is told to stop takes on nothing new, finishes what it has in hand for as long as `grace` lasts, and gives
the lease back. A standby just leaves.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Never

from sunk.kube.control.lease import LeaderElection
from sunk.kube.control.term import LeaseLost, LeaseTerm
from sunk.kube.tasks import running
from sunk.service.part import Work

log = logging.getLogger(__name__)


class Leadership:
    """What this process does while it leads, and its part in the election of a leader."""

    def __init__(self, lease: LeaderElection, *, grace: float) -> None:
        self.lease: Final = lease
        self._grace = grace
        self._works: tuple[Work, ...] = ()
        self._term: LeaseTerm | None = None
        self._told = asyncio.Event()
        self._over = asyncio.Event()

    def assign(self, works: Sequence[Work]) -> None:
        """Say what to run. Not an argument of the constructor, since the work itself asks `holds`."""
        self._works = tuple(works)

    def holds(self) -> bool:
        """Tell whether we surely lead at this moment."""
        return self._term is not None and self._term.holds()

    async def run(self) -> Never:
        """Lead whenever we can, for ever; after `shut_down` only sit there, since a task that ends is a fault."""
        leading = asyncio.create_task(self._lead(), name="lead")
        told = asyncio.create_task(self._told.wait(), name="told to end")
        try:
            await asyncio.wait((leading, told), return_when=asyncio.FIRST_COMPLETED)
            if self._term is None:
                leading.cancel()  # nothing is in hand: we stand by, or are between two terms
            await asyncio.wait((leading,))
        finally:
            told.cancel()
            leading.cancel()
            await asyncio.wait((leading, told))
        if not leading.cancelled():
            leading.result()  # what broke the work breaks us
        self._over.set()
        await asyncio.Event().wait()
        raise AssertionError("this event is never set")

    async def shut_down(self) -> None:
        """Finish the work in hand and give the lease back. Never waits much longer than `grace`."""
        self._told.set()
        await self._over.wait()

    async def _lead(self) -> None:
        while not self._told.is_set():
            with suppress(LeaseLost):
                async with self.lease.held() as term:
                    await self._work(term)

    async def _work(self, term: LeaseTerm) -> None:
        self._term = term
        try:
            duties = {f"work on {work.name}": work.run() for work in self._works}
            async with running(duties):
                await self._told.wait()
                await self._finish_work()
        finally:
            self._term = None

    async def _finish_work(self) -> None:
        try:
            async with asyncio.timeout(self._grace):
                await asyncio.gather(*(work.shut_down() for work in self._works))
        except TimeoutError:
            busy = [work.name for work in self._works if work.busy]
            log.warning("%s: still busy after %.0f s; cancelled", ", ".join(busy), self._grace)
