"""Tables as they come from C, read row by row where they cannot be read as a whole.

A row that a newer Slurm fills otherwise must not cost all others: it is left out and named.
"""

from typing import Any, Generic, TypeVar

from msgspec import DecodeError, Raw, Struct, ValidationError, msgpack

from sunk.model.faults import words
from sunk.slurm.records import Table

R = TypeVar("R", bound=Struct)


class Unpacker(Generic[R]):
    """Reads tables of one kind of row."""

    def __init__(self, kind: type[R]) -> None:
        table: Any = Table[kind]  # type: ignore[valid-type]
        self._table: msgpack.Decoder[Table[R]] = msgpack.Decoder(table)
        self._row: msgpack.Decoder[R] = msgpack.Decoder(kind)

    def decode(self, data: Any) -> Table[R]:
        try:
            return self._table.decode(data)
        except (DecodeError, ValidationError):
            return self._one_by_one(data)

    def _one_by_one(self, data: Any) -> Table[R]:
        packed = msgpack.decode(data, type=Table[Raw])
        rows: list[R] = []
        unreadable: list[str] = []
        for each in packed.rows:
            try:
                rows.append(self._row.decode(each))
            except (DecodeError, ValidationError) as wrong:
                unreadable.append(f"{_key(each)}: {words(wrong)}")
        return Table(rows=tuple(rows), updated=packed.updated, unreadable=tuple(unreadable))


def _key(row: Raw) -> str:
    """What stands first in a row: its name or number."""
    try:
        return str(msgpack.decode(row, type=tuple[Any, ...])[0])
    except (DecodeError, ValidationError, IndexError):
        return "(no name)"
