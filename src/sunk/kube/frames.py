"""The wire format of a watch: one JSON object per line, of any length, in chunks that end anywhere."""

from collections.abc import Iterator
from typing import Final, Generic

from msgspec import DecodeError, Raw, Struct, json

from sunk.kube.errors import ApiError, Status, Unreadable, from_status
from sunk.kube.resource import R, Record

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Lines:
    """Cut chunks into lines. Only new bytes are searched, so an object of many chunks costs no more than its size."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:  # `split` looks at each byte by itself: ten times the time
            yield self._complete(chunk[start:end])
            start = end + 1
        if start < len(chunk):
            self._open.append(chunk[start:])

    def _complete(self, end: bytes) -> bytes:
        if not self._open:
            return end
        line = b"".join((*self._open, end))
        self._open.clear()
        return line


class Frame(Struct):
    """One line, its object not yet decoded: what type it has decides which record fits."""

    type: str
    object: Raw


class Line(Struct, Generic[R]):
    """One line with its object decoded at once: what an ADDED or MODIFIED is, unless the object is of odd shape."""

    type: str
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
