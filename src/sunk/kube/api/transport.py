"""What lies below HTTP: the sockets of a client, and the body of an answer straight from its connection.

The problem. aiohttp passes each read of such a body through a parser and a stream with a flow control of its own, and
copies it twice on the way. In a busy watch every gulp finds all this code cold, and to fetch it costs more than to run
it: of all that a gulp took, a twelfth.

The design. aiohttp reads the head and goes on to own the connection. The TLS layer decrypts all records of a read into
one buffer of ours, and whoever reads takes what is in it. A full buffer makes the server wait.

The sockets of one client are known from their making to their end. A connection that is closed in the middle, as every
watch is, waits for the server's TLS shutdown, and nobody waits for that. If the process or its loop ends first, a socket
is left open. Here they are counted, so that a client that was closed has none.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from aiohttp import ClientResponse, StreamReader
from aiohttp.client_proto import ResponseHandler

_PATIENCE: Final = 5.0
_PAUSE: Final = 0.001

Address = tuple[Any, ...]
"""Family, type, protocol, canonical name and address, as `getaddrinfo` gives them."""


class Sockets:
    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: Address) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family=family, type=kind, proto=protocol)
        self._made.add(made)
        return made

    def under(self, transport: asyncio.BaseTransport | None) -> socket.socket | None:
        """Find the socket under a transport. What the transport itself shows may be a number that others get later."""
        shown = transport.get_extra_info("socket") if transport is not None else None
        number = shown.fileno() if shown is not None else -1
        return next((one for one in self._open() if one.fileno() == number), None)

    async def end(self) -> None:
        """Cut what is still open, and see it closed: whoever owns a socket hears of its end, and closes it."""
        for one in self._open():
            with suppress(OSError):  # it was never connected, or is no more
                one.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while any(self._open()):  # noqa: ASYNC110 - nobody says when a socket is closed
                    await asyncio.sleep(_PAUSE)

    def _open(self) -> Iterator[socket.socket]:
        return (one for one in tuple(self._made) if one.fileno() >= 0)


ROOM: Final = 1 << 17
"""Bytes that are taken from the connection before somebody has read them."""
_WRAPPED: Final = ("Content-Length", "Transfer-Encoding", "Content-Encoding")


def body(reply: ClientResponse) -> "BodyReader | StreamReader":
    """Give what to read; to be called before anybody else runs or reads. A connection that is over has none."""
    owner = reply.connection and reply.connection.protocol
    if owner is None or owner.transport is None or any(each in reply.headers for each in _WRAPPED):
        return reply.content
    return BodyReader(reply.content, owner, owner.transport)


class BodyReader(asyncio.BufferedProtocol):
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
