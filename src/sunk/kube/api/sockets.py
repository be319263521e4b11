"""The sockets of one client: every one of them is known from its making to its end.

A connection that is broken off in the middle, as every watch is at the end, takes its leave by TLS: it waits for the
server to do the same, and nobody waits for that. If the process or its loop ends first, a socket is left open. Here
they are counted, so that a client that was closed has none.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

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
