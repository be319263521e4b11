"""The body of an answer, straight from its connection where it is nothing but bytes up to the end.

The problem. aiohttp passes each read of such a body through a parser and a stream with a flow control of its own, and
copies it twice on the way. In a busy watch every gulp finds all this code cold, and to fetch it costs more than to run
it: of all that a gulp took, a twelfth.

The design. aiohttp reads the head and goes on to own the connection. The TLS layer decrypts all records of a read into
one buffer of ours, and whoever reads takes what is in it. A full buffer makes the server wait.
"""

import asyncio
from typing import Final

from aiohttp import ClientResponse, StreamReader
from aiohttp.client_proto import ResponseHandler

ROOM: Final = 1 << 17
"""Bytes that are taken from the connection before somebody has read them."""
_WRAPPED: Final = ("Content-Length", "Transfer-Encoding", "Content-Encoding")


def body(reply: ClientResponse) -> "Wire | StreamReader":
    """Give what to read; to be called before anybody else runs or reads. A connection that is over has none."""
    owner = reply.connection and reply.connection.protocol
    if owner is None or owner.transport is None or any(each in reply.headers for each in _WRAPPED):
        return reply.content
    return Wire(reply.content, owner, owner.transport)


class Wire(asyncio.BufferedProtocol):
    """Takes the place of a protocol that has read as much as `content` holds, and tells it of the end."""

    def __init__(self, content: StreamReader, owner: ResponseHandler, transport: asyncio.Transport) -> None:
        self._early = b"".join(iter(content.read_nowait, b""))
        self._owner = owner
        self._transport = transport
        self._room = memoryview(bytearray(ROOM))
        self._filled = 0
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        transport.set_protocol(self)

    async def readany(self) -> bytes:
        """Wait for something, and take all there is; nothing means the end."""
        if self._early:
            early, self._early = self._early, b""
            return early
        if not self._filled and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._take()

    def _take(self) -> bytes:
        taken = self._room[: self._filled].tobytes()
        if self._filled == ROOM and not self._ended:
            self._transport.resume_reading()
        self._filled = 0
        return taken

    def get_buffer(self, _: int) -> memoryview:
        return self._room[self._filled :]

    def buffer_updated(self, size: int) -> None:
        self._filled += size
        if self._filled == ROOM:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._owner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._wake()
        self._owner.connection_lost(error)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
