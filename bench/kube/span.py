"""A measurement that somebody else begins and ends: "ready" is said, and two lines are awaited on standard input."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Span:
    """Seconds of CPU of this process between the two lines; known when the second one has come."""

    cpu = 0.0


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


@asynccontextmanager
async def span() -> AsyncIterator[Span]:
    """Say "ready", wait for the first line, run the block, and wait for the second line."""
    lines, measured = await _lines(), Span()
    print("ready", flush=True)
    await lines.readline()
    before = time.process_time()
    yield measured
    await lines.readline()
    measured.cpu = time.process_time() - before
