"""The wire format of a watch: one JSON object per line, of any length, in chunks that end anywhere."""

import re
from typing import Final, Generic, Literal

from msgspec import DecodeError, Raw, Struct, json

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
        raise Unreadable(f"a line of {len(line)} bytes is no watch event: {error}") from error


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
