"""When a Pod or a Node was seen to say that its Slurm node is drained, by a watch of our own."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sunk.kube.api.client import Client, Scope
from sunk.kube.cache.view import Changed, Synced
from sunk.kube.cache.watch import watch
from sunk.kube.core import condition
from sunk.kube.resource import Resource
from sunk.kube.tasks import running


class DrainWatch:
    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._told: dict[str, float] = {}
        self._news = asyncio.Event()

    async def when(self, name: str, *, after: float) -> float:
        """Wait until its condition is True, and give the moment when it became so. That of an earlier time is none."""
        while self._told.get(name, 0) < after:
            self._news.clear()
            await self._news.wait()
        return self._told[name]

    async def follow(self, client: Client, resource: Resource[Any], scope: Scope, *, begun: asyncio.Event) -> None:
        async with watch(client, resource, scope) as events:
            async for event in events:
                if isinstance(event, Synced):
                    begun.set()
                if isinstance(event, Changed):
                    self._hear(event.object)

    def _hear(self, record: Any) -> None:
        found = condition(record.status.conditions, self._kind)
        if found is not None and found.status == "True":
            self._told.setdefault(record.metadata.name, time.monotonic())
            self._news.set()
        else:
            self._told.pop(record.metadata.name, None)


@asynccontextmanager
async def drain_watch(client: Client, resource: Resource[Any], scope: Scope, *, kind: str) -> AsyncIterator[DrainWatch]:
    made, begun = DrainWatch(kind), asyncio.Event()
    name = f"bench: watch {resource.plural}"
    async with running({name: made.follow(client, resource, scope, begun=begun)}):
        await begun.wait()
        yield made
