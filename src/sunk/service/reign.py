"""Work that is done only while we lead: begun when the lease is ours, over before anybody else can have it.

    reign = Reign(lease, farewell=25)
    reign.rule(work)
    async with running({"reign": reign.run()}):
        await told.wait()
        await reign.end()          # work in hand is finished, the lease is given back

The end has three shapes. A lease that is lost cancels all work at once and the contest begins anew. One who is told to
stop while he leads takes on nothing new, finishes what he has in hand for as long as `farewell` lasts, and gives the
lease back. One who stands by just leaves.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Never

from sunk.kube.control.leadership import Lost, Term
from sunk.kube.control.lease import Lease
from sunk.kube.control.tasks import running
from sunk.service.part import Work

log = logging.getLogger(__name__)


class Reign:
    """What this process does while it leads, and its place in the contest for the lease."""

    def __init__(self, lease: Lease, *, farewell: float) -> None:
        self.lease: Final = lease
        self._farewell = farewell
        self._works: tuple[Work, ...] = ()
        self._term: Term | None = None
        self._told = asyncio.Event()
        self._over = asyncio.Event()

    def rule(self, works: Sequence[Work]) -> None:
        """Say what to run. Apart from the making, since those who are run want to ask `holds` themselves."""
        self._works = tuple(works)

    def holds(self) -> bool:
        """Tell whether we surely lead at this moment."""
        return self._term is not None and self._term.holds()

    async def run(self) -> Never:
        """Lead whenever we can, for ever; after `end` only sit there, since a task that ends is a fault."""
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
        raise AssertionError("nobody sets that event")

    async def end(self) -> None:
        """Come to the end of the work in hand, and to the end of the reign with it. Never waits much longer than said."""
        self._told.set()
        await self._over.wait()

    async def _lead(self) -> None:
        while not self._told.is_set():
            with suppress(Lost):
                async with self.lease.held() as term:
                    await self._work(term)

    async def _work(self, term: Term) -> None:
        self._term = term
        try:
            duties = {f"work on {work.name}": work.run() for work in self._works}
            async with running(duties):
                await self._told.wait()
                await self._drain()
        finally:
            self._term = None

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._farewell):
                await asyncio.gather(*(work.drain() for work in self._works))
        except TimeoutError:
            busy = [work.name for work in self._works if work.busy]
            log.warning("%s: still at work after %.0f s; cancelled", ", ".join(busy), self._farewell)
