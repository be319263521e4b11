"""A body that is nothing but bytes is read whole, whatever came with its head and however slowly it is read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from sunk.kube.api import transport
from sunk.kube.api.transport import ROOM, BodyReader

HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answered(answer: Answer) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer of a real server, of which the head was read."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer)
        writer.close()
        await writer.wait_closed()

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0) as server,
        aiohttp.ClientSession(version=aiohttp.HttpVersion10) as session,
        asyncio.timeout(10),
    ):
        host, port = server.sockets[0].getsockname()
        async with session.get(f"http://{host}:{port}/") as reply:
            yield reply


async def everything(content: BodyReader | aiohttp.StreamReader) -> bytes:
    parts = list[bytes]()
    while part := await content.readany():
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("size", [0, 1, 1000, ROOM, 5 * ROOM + 1])
async def test_what_came_with_the_head_and_what_follows_is_read_up_to_the_end(size: int) -> None:
    sent = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + sent)
        await writer.drain()

    async with answered(answer) as reply:
        content = transport.body(reply)
        assert await everything(content) == sent
        assert await content.readany() == b""


async def test_news_are_read_when_they_come() -> None:
    more = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for word in (b"one", b"two"):
            await more.wait()
            more.clear()
            writer.write(word)

    async with answered(answer) as reply:
        content = transport.body(reply)
        assert isinstance(content, BodyReader)
        for word in (b"one", b"two"):
            reading = asyncio.create_task(content.readany(), name="read")
            await asyncio.sleep(0)
            more.set()
            assert await reading == word
        assert await content.readany() == b""


async def test_a_reader_that_gave_up_loses_nothing() -> None:
    more = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        await more.wait()
        writer.write(b"late")

    async with answered(answer) as reply:
        content = transport.body(reply)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(content.readany(), 0.01)
        more.set()
        assert await everything(content) == b"late"


async def test_a_slow_reader_makes_the_server_wait_and_loses_nothing() -> None:
    sent, block, count = 0, b"x" * (1 << 20), 32

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD)
        while sent < count:
            writer.write(block)
            await writer.drain()
            sent += 1

    async with answered(answer) as reply:
        content = transport.body(reply)
        before = -1
        while before != sent:  # until what lies between us is full
            before = sent
            await asyncio.sleep(0.2)
        assert sent < count
        assert len(await everything(content)) == count * len(block)


async def test_a_body_in_chunks_is_left_to_aiohttp() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD.replace(b"1.0", b"1.1").replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"))
        writer.write(b"3\r\none\r\n0\r\n\r\n")

    async with answered(answer) as reply:
        content = transport.body(reply)
        assert content is reply.content
        assert await everything(content) == b"one"
