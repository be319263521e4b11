"""Both sides of a node as they stand now, for whoever decides; and names to look at, once Slurm is fit to decide upon."""

import asyncio
from typing import Final

from sunk.kube.control.queue import Queue
from sunk.model import loopclock
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.mirror.mirror import Mirror
from sunk.syncer.context import Ground
from sunk.syncer.drains.causes import Pair
from sunk.syncer.drains.waves import Falls
from sunk.syncer.members import Members
from sunk.syncer.pods import ready


class Pairs:
    """Made together with the collections, so that since when Pods are not ready is known to who takes over."""

    def __init__(self, ground: Ground, members: Members) -> None:
        self.falls: Final = Falls(ground.pods.store, manner=ground.manner)
        self._ground = ground
        self._members = members

    def of(self, name: str) -> Pair | None:
        """None where there is nothing to tell: Slurm has no such node, or it is none of ours."""
        member, row = self._members.get(name), self._ground.mirror.nodes.get(name)
        if member is None or row is None:
            return None
        return Pair(
            member=member, pod=self._ground.pod(name), row=row, unready_long=self.falls.due(name) <= loopclock.now()
        )

    def again(self, pair: Pair) -> float | None:
        """In how many seconds to look again though nothing happens; None if never."""
        if pair.unready_long or pair.pod is None or ready(pair.pod):
            return None
        return max(self.falls.due(pair.name) - loopclock.now(), 0.0)


async def answering(mirror: Mirror) -> None:
    """Wait for a Slurm that answers."""
    if isinstance(mirror.state, Known):
        return
    news = asyncio.Event()
    end = mirror.subscribe(lambda _: news.set())
    try:
        while not isinstance(mirror.state, Known):
            news.clear()
            await news.wait()
    finally:
        end()


async def taken(queue: Queue[str], *, mirror: Mirror, most: float = float("inf")) -> list[str]:
    """All that gathered, as soon as there is something and Slurm answers. Whoever takes them says `done` of each.

    Nothing is in hand while Slurm is away, so that a process that has to end need not wait for it.
    """
    while True:
        await answering(mirror)
        first = await queue.get()
        if isinstance(mirror.state, Known):
            break
        queue.add(first)
        queue.done(first)
    found = [first]
    while queue.ready and len(found) < most:
        found.append(await queue.get())
    return found
