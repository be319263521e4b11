"""What a watch has said so far, and therefore what it still owes: pure book-keeping, no I/O."""

from collections.abc import Iterator
from typing import Generic

from msgspec import Struct

from sunk.kube.resource import Key, R


class Changed(Struct, Generic[R], frozen=True, gc=False):
    """This is how the object looks now. Also said of objects that look as before, after a new list."""

    object: R


class Deleted(Struct, Generic[R], frozen=True, gc=False):
    """The object is gone; this is how it looked last."""

    object: R


class Synced(Struct, frozen=True, gc=False):
    """All that existed when the list began has been said, and so have the deletions that were missed."""


class Bookmark(Struct, frozen=True, gc=False):
    """Nothing new, but what was said is as of now."""


Event = Changed[R] | Deleted[R] | Synced | Bookmark


class View(Generic[R]):
    """The last record under each key, and during a list the keys that it has not mentioned yet."""

    def __init__(self) -> None:
        self._known: dict[Key, R] = {}
        self._unheard: set[Key] = set()

    def begin(self) -> None:
        """Start a list, or start it again after one that broke off: nothing is confirmed yet."""
        self._unheard = set(self._known)

    def change(self, record: R) -> tuple[Event[R], ...]:
        key = record.key
        before = self._known.get(key)
        self._known[key] = record
        if self._unheard:
            self._unheard.discard(key)
        if before is not None and before.metadata.uid != record.metadata.uid:
            return Deleted(before), Changed(record)  # another object took the name while nobody listened
        return (Changed(record),)

    def delete(self, record: R) -> Iterator[Event[R]]:
        """Say a deletion once. One of an object that was never said stays unsaid."""
        if self._known.pop(record.key, None) is not None:
            self._unheard.discard(record.key)
            yield Deleted(record)

    def keep(self, key: Key) -> None:
        """Hear that the object exists though it cannot be read: what was known of it stays."""
        self._unheard.discard(key)

    def drop(self, key: Key) -> Iterator[Event[R]]:
        """Hear that an object which cannot be read is gone."""
        before = self._known.pop(key, None)
        self._unheard.discard(key)
        if before is not None:
            yield Deleted(before)

    def end(self) -> Iterator[Event[R]]:
        """Close the list: what it did not mention is gone."""
        for key in sorted(self._unheard):
            yield Deleted(self._known.pop(key))
        self._unheard.clear()
        yield Synced()
