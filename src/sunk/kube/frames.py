"""The wire format of a watch: one JSON object per line, of any length, in chunks that end anywhere."""

from typing import Final, Generic, Literal

from msgspec import DecodeError, Raw, Struct, json

from sunk.kube.errors import ApiError, Status, Unreadable, from_status
from sunk.kube.resource import R, Record

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_MANAGED: Final = b',"managedFields":[{"manager":'
"""As the API server writes it; a list of somebody's own under that name hardly begins so."""


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


def frame(line: bytes) -> Frame:
    try:
        return _frame.decode(line)
    except DecodeError as error:
        raise Unreadable(f"a line of {len(line)} bytes is no watch event: {error}") from error


def bare(item: bytes | Raw) -> Record | None:
    """Read the metadata alone: all that a bookmark has, and all that is safe to ask of an object of odd shape."""
    try:
        return _bare.decode(item)
    except DecodeError:
        return None


def error(raw: Raw, *, asked: str) -> ApiError:
    """Turn an ERROR event into the exception that the same status would be as an answer."""
    try:
        status = _status.decode(raw)
    except DecodeError:
        status = Status(message=bytes(raw)[:500].decode(errors="replace"))
    return from_status(status, code=status.code, asked=asked)


def ends_initial_list(bookmark: Record) -> bool:
    return bookmark.metadata.annotations.get(INITIAL_EVENTS_END) == "true"
