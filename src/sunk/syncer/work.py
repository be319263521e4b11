"""How the syncer paces its work: at fixed intervals where no event says that the time has come, and in batches.

`PeriodicWork` repeats one pass every few seconds. `next_batch` takes everything that has gathered in a queue, once Slurm
can be read.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Never

from sunk.kube.cache.collection import Collection
from sunk.kube.control.queue import Queue
from sunk.kube.errors import KubeError
from sunk.model.faults import survived
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Known, Stale
from sunk.slurm.mirror.mirror import Mirror

log = logging.getLogger(__name__)


class PeriodicWork:
    """One pass after the other, the first when all that it reads has been read. A pass that fails is repeated.

    `begin` is called each time that we become the leader: nobody watched what was counted under an earlier leadership.
    """

    def __init__(
        self,
        name: str,
        resync: Callable[[], Awaitable[None]],
        *,
        follows: Sequence[Collection[Any]] = (),
        period: float,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.name: Final = name
        self._resync = resync
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
        for collection in self._follows:
            await collection.store.complete()
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
            await self._resync()
        except (KubeError, SlurmError, Stale) as trouble:
            log.warning("%s: %s; retrying in %g s", self.name, trouble, self._period)

    async def shut_down(self) -> None:
        self._closed = True
        await self._idle.wait()


async def next_batch(queue: Queue[str], *, mirror: Mirror, most: float = float("inf")) -> list[str]:
    """Take all that has gathered, as soon as there is something and Slurm answers. The caller calls `done` for each.

    Nothing is in hand while Slurm is away, so a process that has to end need not wait for Slurm.
    """
    while True:
        await _until_known(mirror)
        first = await queue.get()
        if isinstance(mirror.state, Known):
            break
        queue.add(first)
        queue.done(first)
    batch = [first]
    while queue.ready and len(batch) < most:
        batch.append(await queue.get())
    return batch


async def _until_known(mirror: Mirror) -> None:
    """Wait for a Slurm that answers."""
    if isinstance(mirror.state, Known):
        return
    changed = asyncio.Event()
    unsubscribe = mirror.subscribe(lambda _: changed.set())
    try:
        while not isinstance(mirror.state, Known):
            changed.clear()
            await changed.wait()
    finally:
        unsubscribe()
