"""One table of Slurm as it was last read, and what a newer one changes.

Slurm says that a table changed, never which row, and its rows come in no order. So two whole tables are compared by
content under each key: 5,000 rows take a few milliseconds. A row that stayed the same also stays the same object.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from msgspec import Struct

from sunk.model import faults

K = TypeVar("K", bound=str | int)
T = TypeVar("T")

Subscriber = Callable[[K, T | None, T | None], None]
"""Called with the key, the row before and the row after; None where there is none."""


class TableDifference(Struct, Generic[K, T], frozen=True):
    """What a newer table says otherwise: key, before, after. `rows` is that table by key."""

    rows: dict[K, T]
    changes: list[tuple[K, T | None, T | None]]

    @property
    def gone(self) -> list[K]:
        return [key for key, _, after in self.changes if after is None]

    @property
    def new(self) -> list[K]:
        return [key for key, before, _ in self.changes if before is None]


class Rows(Generic[K, T]):
    """The rows of a table by key. They stay readable when Slurm is lost; how fresh they are only the mirror knows."""

    def __init__(self, name: str, *, key: Callable[[T], K]) -> None:
        self.name: Final = name
        self._key = key
        self._rows: dict[K, T] = {}
        self._subscribers: list[Subscriber[K, T]] = []
        self.unheard: Final[dict[tuple[Subscriber[K, T], K], tuple[T | None, str]]] = {}
        """Changes that a subscriber failed over: the row as it knows it, and how it failed. They are told again."""

    def get(self, key: K) -> T | None:
        return self._rows.get(key)

    def all(self) -> tuple[T, ...]:
        return tuple(self._rows.values())

    def keys(self) -> frozenset[K]:
        return frozenset(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def subscribe(self, subscriber: Subscriber[K, T]) -> Callable[[], None]:
        """Be called at every difference, when the whole read is in place. Returns how to end that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    # For the mirror

    def compare(self, table: Iterable[T], *, unreadable: Iterable[str] = ()) -> TableDifference[K, T]:
        """Find what a newer table says otherwise, and change nothing yet. Rows that could not be read stay as they are."""
        rows: dict[K, T] = {}
        changes: list[tuple[K, T | None, T | None]] = []
        for row in table:
            key = self._key(row)
            held = self._rows.get(key)
            if held is not None and held == row:
                rows[key] = held
            else:
                rows[key] = row
                changes.append((key, held, row))
        names = {text.partition(": ")[0] for text in unreadable}
        rows |= {key: held for key, held in self._rows.items() if names and key not in rows and str(key) in names}
        changes += [(key, held, None) for key, held in self._rows.items() if key not in rows]
        return TableDifference(rows=rows, changes=changes)

    def replace(self, difference: TableDifference[K, T]) -> None:
        self._rows = difference.rows

    def tell(self, difference: TableDifference[K, T] | None) -> None:
        """Tell everybody what has changed, and those who failed over a change the same again."""
        owed, changes = dict(self.unheard), difference.changes if difference is not None else []
        for change in changes:
            for subscriber in tuple(self._subscribers):
                owed.pop((subscriber, change[0]), None)
                self._tell(subscriber, *change)
        for (subscriber, key), (before, _) in owed.items():
            self._tell(subscriber, key, before, self._rows.get(key))
        if owed and not self.unheard:
            faults.over(self._place)

    @property
    def _place(self) -> str:
        return f"{self.name} of Slurm"

    def _tell(self, subscriber: Subscriber[K, T], key: K, before: T | None, after: T | None) -> None:
        if self.unheard and (subscriber, key) in self.unheard:
            before = self.unheard.pop((subscriber, key))[0]
        if subscriber not in self._subscribers:
            return
        try:
            subscriber(key, before, after)
        except Exception as fault:  # noqa: BLE001 - one who fails must not keep the others from what they need to know
            faults.note(self._place, fault)
            self.unheard[subscriber, key] = (before, faults.words(fault))
