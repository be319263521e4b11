"""Many writes of the same kind, in batches that grow while all goes well.

Whatever refuses one Pod (a quota, a webhook that is away, a bad template) mostly refuses all. The first try shows it,
and not two thousand of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
FIRST: Final = 1
MOST: Final = 64


async def slow_start(items: Sequence[T], act: Callable[[T], Awaitable[object]], *, most: int = MOST) -> list[Exception]:
    """Act on the items in turn; stop after the first batch in which something went wrong, and give that."""
    start, size = 0, FIRST
    while start < len(items):
        trouble = await in_parallel(items[start : start + size], act, most=size)
        if trouble:
            return trouble
        start, size = start + size, min(size * 2, most)
    return []


async def in_parallel(
    items: Sequence[T], act: Callable[[T], Awaitable[object]], *, most: int = MOST
) -> list[Exception]:
    """Act on all items, at most so many at once, and let none of them suffer from another."""
    trouble: list[Exception] = []
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            try:
                await act(item)
            except Exception as error:  # noqa: BLE001 - it is given to the caller
                trouble.append(error)

    if len(items) == 1:  # at once, and not after whatever else is to begin now
        await worker()
        return trouble
    async with asyncio.TaskGroup() as group:
        for number in range(min(most, len(items))):
            group.create_task(worker(), name=f"{getattr(act, '__name__', 'act')}: hand {number}")
    return trouble
