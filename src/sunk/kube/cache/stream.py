"""Answers without an end, read in gulps while they are busy.

The problem. A change that comes by itself wakes the process, the TLS layer, the HTTP parser and a task. All that takes
more time than what is then done with the change. On a busy machine all of it, and all that follows, finds cold caches
each time; only what comes in the same gulp finds them warm. A server that writes some hundreds of changes a second
sends every one of them by itself.

The design. While changes keep coming, the kernel is told after each read not to wake us for a while, unless much comes
together (`SO_RCVLOWAT`). Then all that came is read in one go. A change after a pause is never held: what comes less
often than every 30 ms comes at once. What is held stays in the kernel's buffer. So nothing can be lost here, a slow
reader holds up the server as before, and the end of a stream, which passes any mark, is heard at once.

What was refused: `pause_reading` of the transport, which under TLS keeps the news from us but goes on to wake the
process for each of them; and a pause of the reader, which does the same and costs a timer and a task besides.
"""

import asyncio
import socket
from collections.abc import Awaitable
from typing import Final

from aiohttp import StreamReader

from sunk.kube.api.body import Wire

HOLD: Final = 0.020
"""Seconds for which a change may be held at most."""
PAUSE: Final = 0.030
"""Seconds between two reads after which a stream is quiet: a hold, and a while in which a busy one would have spoken."""
MUCH: Final = 1 << 16
"""Bytes that are not held any longer, and after which there is surely more to read."""


class Stream:
    """The content of an answer. Whoever opened it calls `let_go`, so that its connection may serve others again."""

    def __init__(self, content: StreamReader | Wire, connection: socket.socket | None) -> None:
        self._content = content
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._hold: asyncio.TimerHandle | None = None

    def readany(self) -> Awaitable[bytes]:
        """Wait for something, and take all there is; nothing means the end."""
        return self._content.readany()

    def gather(self, size: int) -> None:
        """Hear that so many bytes were read, and if the stream is busy, let what comes next gather for a while."""
        now = self._loop.time()
        busy, self._last = now - self._last < PAUSE, now
        if busy and size < MUCH and self._hold is None:
            self._mark(MUCH)
            self._hold = self._loop.call_later(HOLD, self._over)

    def let_go(self) -> None:
        """Hold nothing back any more."""
        if self._hold is not None:
            self._hold.cancel()
            self._over()

    def _over(self) -> None:
        self._hold = None
        self._mark(1)

    def _mark(self, size: int) -> None:
        """Wake us for so many bytes, or for the end. Where they lie there already, the kernel says so at once."""
        if self._connection is not None:
            try:
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
            except OSError:  # closed meanwhile, which is told elsewhere
                self._connection = None
