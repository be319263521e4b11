"""Connections of the hook server: accepted, encrypted, read as HTTP, and bounded while we do not know who calls.

The problem. Anybody who reaches the port can open connections, and each costs memory from its first moment: a TLS state,
buffers, a parser. One that says nothing, or its headers a byte at a time, costs the same as a call that has a right to
wait for minutes.

The design. A connection belongs to a stranger until its token was verified (`known`), which takes an honest caller some
milliseconds. For handshake and headers there are some seconds each. At most so many strangers are kept: for one more, the
oldest is cut. So the callers of honest Pods get through a flood, whose connections are always older than theirs. For
this we accept connections ourselves; a server of asyncio shows a connection only after its handshake.

Each connection is for one call. What comes after the call is not read: nobody sends a second one before the answer to
the first, and buffers for it would be a present to whoever wants our memory. If a caller's machine dies without a word,
TCP finds out within half a minute (`_ALIVE`).

A call that waits takes about 70 KB, most of it for TLS. That is on uvloop, as in the images; Python's own loop has a buffer
of 256 KB for each connection.
"""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Never

from aiohttp import web

from sunk.model.faults import survived, words
from sunk.model.refusal import Refusal
from sunk.service.hooks.answers import NO_HTTP

log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
_BUFFER: Final = 64 * 1024
_LINE: Final = 2048
_FIELD: Final = 20 * 1024
"""Bytes of a header: a token that is too long is to be answered as such."""
_HEADERS: Final = 32
_HEAD: Final = 32 * 1024
"""Bytes of all headers. Each would be kept more than once, for as long as its call waits."""
_END_OF_HEAD: Final = b"\r\n\r\n"
_LINGER: Final = 2.0
"""Seconds for which a body that nobody wants is still taken, so that its sender reads the answer."""
_CLOSING: Final = 2.0
_BREATH: Final = 0.2
_SPARE_FILES: Final = 2000
_ALIVE: Final = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def bound(host: str, port: int) -> socket.socket:
    """Take the port. What is accepted from this socket inherits its settings."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in _ALIVE:
            made.setsockopt(socket.IPPROTO_TCP, option, seconds)
        made.bind((host, port))
    except OSError as taken:
        made.close()
        found = taken.strerror or str(taken)
        raise Refusal(f"cannot listen for hooks on {host}:{port}: {found}. Choose another port.") from taken
    return made


def allow_files(wanted: int) -> None:
    """Raise the limit of open files as far as we may. Every connection is one."""
    wanted += _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            log.warning("hook server: %d open files are allowed, %d may be needed", allowed, wanted)


class Connection(web.RequestHandler):
    """HTTP as aiohttp reads it, for one call."""

    __slots__ = ("_deaf", "_gone", "_head", "_tail", "known")

    def __init__(self, *arguments: Any, known: Callable[[], None], gone: Callable[[], None], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._deaf = False
        self._gone = gone
        self._head: int | None = 0
        """Bytes of headers so far; None once they have come to their end."""
        self._tail = b""
        self.known: Final = known
        """To be called when we know who calls."""

    def stop_listening(self) -> None:
        """Ignore whatever comes from now on, except the end."""
        self._deaf = True

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._head is not None and self._count_head(data) > _HEAD:
            self.stop_listening()
            self.force_close()
            return
        super().data_received(data)

    def _count_head(self, data: bytes) -> int:
        """Bytes of headers with these. aiohttp bounds each header and their number, and nothing bounds them together."""
        found = (self._tail + data).find(_END_OF_HEAD)
        head = (self._head or 0) + (len(data) if found < 0 else found + len(_END_OF_HEAD) - len(self._tail))
        self._tail = (self._tail + data)[1 - len(_END_OF_HEAD) :] if found < 0 else b""
        self._head = head if found < 0 else None
        return head

    def connection_lost(self, exc: BaseException | None) -> None:
        self._gone()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer to what is no HTTP in JSON too, and without a traceback in the log for it."""
        log.debug("hook server: bad request from %s: %s", request.remote, message or (words(exc) if exc else status))
        answer = web.json_response(NO_HTTP.body, status=status)
        answer.force_close()
        return answer


class Connections:
    """Serve `handle` on a socket. Its request's `protocol` is a Connection."""

    def __init__(self, handle: Handler, *, tls: ssl.SSLContext, most_strangers: int, patience: float) -> None:
        self._tls = tls
        self._most_strangers = most_strangers
        self._patience = patience
        self._server = web.Server(handle, handler_cancellation=True)
        self._strangers: dict[socket.socket, None] = {}
        """The oldest first."""
        self._handshakes: set[asyncio.Task[None]] = set()
        self.listening = False
        self.cut = 0
        """Strangers that had to go for others."""

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    async def run(self, listening: socket.socket) -> Never:
        """Accept connections for ever."""
        listening.listen(_BACKLOG)
        self.listening = True
        loop = asyncio.get_running_loop()
        while True:
            connection = None
            with survived("hook server: accept"):
                connection, _ = await loop.sock_accept(listening)
            if connection is None:  # there are no more files, or the caller has gone again
                await asyncio.sleep(_BREATH)
                continue
            self._welcome(connection)
            await asyncio.sleep(0)  # if one is there already, the loop does not let others run by itself

    def _welcome(self, connection: socket.socket) -> None:
        if len(self._strangers) >= self._most_strangers:
            self._cut(next(iter(self._strangers)))
            self.cut += 1
        self._strangers[connection] = None
        handshake = asyncio.create_task(self._shake_hands(connection), name="hook server: handshake")
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket) -> None:
        known = partial(self._strangers.pop, connection, None)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._http(known),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._patience,
                ssl_shutdown_timeout=_CLOSING,
            )
        except Exception as error:  # noqa: BLE001 - whatever a stranger says
            known()
            log.debug("hook server: no handshake: %s", words(error))

    def _http(self, known: Callable[[], None]) -> Connection:
        return Connection(
            self._server,
            loop=asyncio.get_running_loop(),
            known=known,
            gone=known,
            keepalive_timeout=self._patience,  # the time for the headers of the first request, which is the only one
            access_log=None,
            logger=log,
            max_line_size=_LINE,
            max_field_size=_FIELD,
            max_headers=_HEADERS,
            lingering_time=_LINGER,
            read_bufsize=_BUFFER,
            auto_decompress=False,
        )

    def _cut(self, stranger: socket.socket) -> None:
        """Whoever holds the other side of the socket hears of its end, and closes it."""
        self._strangers.pop(stranger, None)
        with suppress(OSError):
            stranger.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """End all connections; a call that has its answer gets it."""
        for stranger in tuple(self._strangers):
            self._cut(stranger)
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=_CLOSING)
        self._server.pre_shutdown()
        await self._server.shutdown(_CLOSING)
