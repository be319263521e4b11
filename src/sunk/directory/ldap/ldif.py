"""Entries out of what `ldapsearch -LLL` prints, chunk by chunk.

Nothing here is as large as the answer: an entry is handed on when its last line is there. What comes from a directory can be
anything, so one value may have a mebibyte, and a larger one is dropped while it is read. A value cannot pass for a line of
its own, because ldapsearch writes what has line breaks in base64. Whatever else does not look like LDIF is `Garbage`: half an
answer must not be believed.
"""

import binascii
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

VALUE_LIMIT: Final = 1 << 20
OUTPUT_LIMIT: Final = 256 << 20
_SHOWN: Final = 60


class Garbage(Exception):  # noqa: N818 - named as what was found
    """What came is no LDIF, or too much of it."""


class Entry(Struct, frozen=True):
    """An entry. Names of attributes are in lowercase; options such as `;range=0-1499` belong to the name."""

    dn: bytes
    attributes: dict[str, list[bytes]] = field(default_factory=dict)

    def values(self, name: str) -> list[bytes]:
        return self.attributes.get(name.lower(), [])

    def text(self, name: str) -> str:
        """Give the first value that is text; empty if there is none."""
        for value in self.values(name):
            if text := decoded(value):
                return text
        return ""


def decoded(value: bytes) -> str:
    """Text without spaces around it; empty if it is no UTF-8."""
    try:
        return value.decode().strip()
    except UnicodeDecodeError:
        return ""


class LdifParser:
    """Feed it what comes; it gives entries as they are complete."""

    def __init__(self, *, output_limit: int = OUTPUT_LIMIT, value_limit: int = VALUE_LIMIT) -> None:
        self._left = output_limit
        self._value_limit = value_limit
        self._rest = b""
        self._line: bytearray | None = None
        """The logical line before: the next may continue it."""
        self._entry: Entry | None = None

    def feed(self, chunk: bytes) -> Iterator[Entry]:
        self._left -= len(chunk)
        if self._left < 0:
            raise Garbage("the answer is larger than 256 MiB")
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield from self._physical(line)
        # A line without an end must not fill the memory: it stays one byte too long, and is left out when it ends.
        self._rest = rest[: self._value_limit + 1]

    def end(self) -> None:
        """Say that nothing more comes. ldapsearch ends every entry with an empty line, so no entry may be open."""
        if self._rest:
            raise Garbage("the answer ends in the middle of a line")
        self._logical()
        if self._entry is not None:
            raise Garbage("the answer ends in the middle of an entry")

    def _physical(self, line: bytes) -> Iterator[Entry]:
        line = line.removesuffix(b"\r")
        if line.startswith(b" ") and self._line is not None:
            room = self._value_limit + 1 - len(self._line)
            self._line += line[1 : 1 + max(room, 0)]
            return
        self._logical()
        if line:
            self._line = bytearray(line[: self._value_limit + 1])
        elif self._entry is not None:
            yield self._entry
            self._entry = None

    def _logical(self) -> None:
        line, self._line = self._line, None
        if line is not None and not line.startswith(b"#"):
            self._attribute(bytes(line))

    def _attribute(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not colon or not name.isascii() or not name.strip():
            raise Garbage(f"a line is no LDIF: {line[:_SHOWN]!r}")
        key = name.decode().strip().lower()
        if len(line) > self._value_limit:
            self._oversized(key)
        elif key == "dn":
            self._begin(_value(value))
        elif self._entry is not None:
            self._entry.attributes.setdefault(key, []).append(_value(value))
        elif key != "version":
            raise Garbage(f"a line belongs to no entry: {line[:_SHOWN]!r}")

    def _oversized(self, key: str) -> None:
        """Leave the value out. Without its DN an entry is nobody, and without an entry nothing may come."""
        if key == "dn" or self._entry is None:
            raise Garbage("a name of an entry has more than a mebibyte")

    def _begin(self, dn: bytes) -> None:
        if self._entry is not None:
            raise Garbage("an entry begins in the middle of another")
        self._entry = Entry(dn)


def _value(text: bytes) -> bytes:
    if text.startswith(b":"):
        try:
            return binascii.a2b_base64(text[1:].strip(), strict_mode=True)
        except binascii.Error as error:
            raise Garbage(f"a value is no base64: {error}") from error
    if text.startswith(b"<"):
        raise Garbage("a value is a reference to a file")
    return text.lstrip(b" ")
