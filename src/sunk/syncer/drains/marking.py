"""Write our key into the `Extra` of Slurm's nodes.

It differs from node to node, so each costs a call of its own: five thousand of them when a cluster is first seen, or
when all Pods stop being ready. So this has a worker of its own with a bounded pace, which nothing urgent waits for.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Never

from sunk.kube.control.queue import BackOff, Queue, QueueStatistics
from sunk.model import hostlist
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Stale
from sunk.syncer.context import Ground
from sunk.syncer.drains import extra
from sunk.syncer.drains.snapshot import Pairs, taken

log = logging.getLogger(__name__)

MOST: Final = 100
"""Nodes in one go."""
PAUSE: Final = 0.5
"""Seconds between two of them."""


class Marking:
    """Takes names whose Extra was seen to differ, and looks again before it writes."""

    def __init__(self, ground: Ground, pairs: Pairs) -> None:
        self._ground = ground
        self._pairs = pairs
        self._queue: Queue[str] = Queue(back_off=BackOff(first=0.2, longest=60.0))
        self.written = 0

    @property
    def queue(self) -> QueueStatistics:
        return self._queue.statistics()

    def wish(self, name: str) -> None:
        self._queue.add(name)

    async def run(self) -> Never:
        while True:
            found = await taken(self._queue, mirror=self._ground.mirror, most=MOST)
            try:
                await self._write(found)
            finally:
                for name in found:
                    self._queue.done(name)
            await asyncio.sleep(PAUSE)

    async def shut_down(self) -> None:
        self._queue.close()
        await self._queue.idle()

    async def _write(self, found: Collection[str]) -> None:
        try:
            await self._ground.mirror.read_after()
            await self._merge(found)
        except Exception as trouble:
            delay = max(self._queue.retry(name) for name in found)
            known = isinstance(trouble, SlurmError | Stale | ValueError)
            words = "extra of %s: %s; again in %.1f s at most"
            log.warning(words, hostlist.shown(found), trouble, delay, exc_info=None if known else trouble)
        else:
            for name in found:
                self._queue.forget(name)

    async def _merge(self, found: Collection[str]) -> None:
        pairs = [pair for name in found if (pair := self._pairs.of(name)) is not None]
        # A drain that is to be put back goes first: our key says that this has been done. One of Slurm's own may cover it.
        due = [pair for pair in pairs if extra.differs(pair) and not extra.owes(pair)]
        if not due or not self._ground.may_write():
            return
        ours = {pair.name: {extra.KEY: extra.wanted(pair)} for pair in due}
        outcome = await self._ground.orders.merge_extra(ours)
        self.written += len(outcome.done)
        if outcome.refused:
            log.warning("extra of %s: there is no room left for ours", hostlist.shown(outcome.refused))
        await self._ground.mirror.read_after()
