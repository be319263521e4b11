"""The stream of a watch: answers without an end, read in gulps while they are busy, one JSON object per line.

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

Lines are of any length and come in chunks that end anywhere; `Lines` and `frame` make objects of them.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable
from typing import Final, Generic, Literal

from aiohttp import StreamReader
from msgspec import DecodeError, Raw, Struct, json

from sunk.kube.api.transport import BodyReader
from sunk.kube.errors import ApiError, Status, Unreadable, from_status
from sunk.kube.resource import R, Record
from sunk.model import names

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_MANAGED: Final = b',"managedFields":[{"manager":'
"""As the API server writes it; a list of somebody's own under that name hardly begins so."""
TOO_DEEP: Final = f'"{names.GROUP}/too-deep"'.encode()
"""Stands where something was cut out. What it stands in must not be taken for the object."""
_DEEPEST: Final = 200
_PIECE: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


class Lines:
    """Make chunks end where lines do. Only new bytes are searched: an object of many chunks costs its size, no more."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Give all lines that are whole by now, and keep what follows for the next time."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._open.append(chunk)
            return b""
        whole = b"".join((*self._open, chunk[:end]))
        self._open = [chunk[end:]] if end < len(chunk) else []
        return whole


def lean(lines: bytes) -> bytes:
    """Leave out who manages which fields. Nobody reads it, and a third of a Pod is dearer to step over than to cut out.

    What looks like its beginning is one: quotes within a text are escaped. What looks like its end may stand in a text
    of it. Then what is left is no JSON, since its quotes no more stand in pairs: decode all of it instead.
    """
    view, parts, kept, begin = memoryview(lines), [], 0, lines.find(_MANAGED)
    while begin >= 0:
        parts.append(view[kept:begin])
        kept = lines.find(b"]", begin) + 1 or len(lines)
        begin = lines.find(_MANAGED, lines.find(b"\n", kept))
    return b"".join((*parts, view[kept:])) if parts else lines


class Frame(Struct):
    """One line, its object not yet decoded: what type it has decides which record fits."""

    type: str
    object: Raw


class Line(Struct, Generic[R]):
    """One line with its object decoded at once: what nearly all are. Others, and objects of odd shape, do not fit."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: R


_frame = json.Decoder(Frame)
_bare = json.Decoder(Record)
_status = json.Decoder(Status)


def shallow(text: bytes) -> bytes:
    """The same JSON with everything cut out that is nested so deep that it cannot be read.

    msgspec steps over what nobody asks for by recursion, and gives up with a RecursionError: one such object, of whoever
    may write one, would end the watch of all others.
    """
    parts, kept, begin, depth = [], 0, 0, 0
    for piece in _PIECE.finditer(text):
        match piece[0]:
            case b"[" | b"{":
                depth += 1
                begin = piece.start() if depth == _DEEPEST + 1 else begin
            case b"]" | b"}":
                if depth == _DEEPEST + 1:
                    parts += [text[kept:begin], TOO_DEEP]
                    kept = piece.end()
                depth -= 1
    return b"".join((*parts, text[kept:]))


def frame(line: bytes) -> Frame:
    try:
        return _decoded(line)
    except DecodeError as error:
        raise Unreadable(f"a line of {len(line)} bytes is not a watch event: {error}") from error


def _decoded(line: bytes) -> Frame:
    try:
        return _frame.decode(line)
    except RecursionError:
        return _frame.decode(shallow(line))


def bare(item: bytes | Raw) -> Record | None:
    """Read the metadata alone: all that a bookmark has, and all that is safe to ask of an object of odd shape."""
    try:
        return _bare.decode(item)
    except RecursionError:
        return bare(shallow(bytes(item)))
    except DecodeError:
        return None


def error(raw: Raw, *, asked: str) -> ApiError:
    """Turn an ERROR event into the exception that the same status would be as an answer."""
    try:
        status = _status.decode(raw)
    except (DecodeError, RecursionError):
        status = Status(message=bytes(raw)[:500].decode(errors="replace"))
    return from_status(status, code=status.code, asked=asked)


def ends_initial_list(bookmark: Record) -> bool:
    return bookmark.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


HOLD: Final = 0.020
"""Seconds for which a change may be held at most."""
PAUSE: Final = 0.030
"""Seconds between two reads after which a stream is quiet: a hold, and a while in which a busy one would have spoken."""
MUCH: Final = 1 << 16
"""Bytes that are not held any longer, and after which there is surely more to read."""


class Stream:
    """The content of an answer. Whoever opened it calls `let_go`, so that its connection may serve others again."""

    def __init__(self, content: StreamReader | BodyReader, connection: socket.socket | None) -> None:
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
