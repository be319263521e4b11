"""Work that looks around every few seconds, where no event says that the time has come."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Never

from sunk.kube.cache.collection import Collection
from sunk.kube.errors import KubeError
from sunk.model.faults import survived
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Stale

log = logging.getLogger(__name__)


class Rounds:
    """One look after the other, begun when all that it looks at has been read. A look that goes wrong is repeated.

    `begin` is called each time that we begin to lead: what was counted in an earlier term was not watched since.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], Awaitable[None]],
        *,
        follows: Sequence[Collection[Any]] = (),
        period: float,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.name: Final = name
        self._look = look
        self._follows = tuple(follows)
        self._period = period
        self._begin = begin
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        return not self._idle.is_set()

    async def run(self) -> Never:
        for each in self._follows:
            await each.store.complete()
        self._begin()
        while True:
            if not self._closed:
                await self._once()
            await asyncio.sleep(self._period)

    async def _once(self) -> None:
        self._idle.clear()
        try:
            with survived(self.name):
                await self._expected()
        finally:
            self._idle.set()

    async def _expected(self) -> None:
        try:
            await self._look()
        except (KubeError, SlurmError, Stale) as trouble:
            log.warning("%s: %s; looked at again in %g s", self.name, trouble, self._period)

    async def shut_down(self) -> None:
        self._closed = True
        await self._idle.wait()
