"""Tasks that are meant to run for ever, and what happens when one does not.

A watch whose task has ended looks exactly like a world in which nothing changes. So every long-lived task has a name
and an owner, and one that comes to an end by itself is a fault, also if it ended without an error: it ends its group,
and with it the process, which is restarted.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Never


class Ended(Exception):  # noqa: N818 - named as what happened, like sunk.kube.errors
    """A task that was meant to run for ever is over."""


async def forever(duty: Coroutine[Any, Any, object], *, name: str) -> Never:
    """Carry out a duty that has no end; if it comes to one, say so."""
    await duty
    raise Ended(f'"{name}" ended although it should run forever: this is a bug')


@asynccontextmanager
async def running(duties: Mapping[str, Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run duties, by name, for as long as the block lasts. Leaving it cancels them; one that ends ends the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(forever(duty, name=name), name=name) for name, duty in duties.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
