"""Find records by what they say: the keys under each value of an index."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic

from sunk.kube.resource import Key, R

Index = Callable[[R], Iterable[str]]
"""Under which values of an index a record is found; none is fine."""


class Buckets(Generic[R]):
    """The keys under each value.

    Most values of most indexes have one key only: that stands by itself, since a container for each of 50,000 would
    cost more than the keys, and the cyclic collector would have to walk through all of them.
    """

    def __init__(self, values: Index[R]) -> None:
        self._values = values
        self._keys: dict[str, Key | dict[Key, None]] = {}

    def keys(self, value: str) -> Iterator[Key]:
        found = self._keys.get(value)
        return iter(()) if found is None else iter((found,) if isinstance(found, Key) else found)

    def move(self, key: Key, before: R | None, after: R | None) -> None:
        old = () if before is None else tuple(self._values(before))
        new = () if after is None else tuple(self._values(after))
        if old != new:
            for value in old:
                self._remove(value, key)
            for value in new:
                self._add(value, key)

    def _add(self, value: str, key: Key) -> None:
        found = self._keys.setdefault(value, key)
        if isinstance(found, dict):
            found[key] = None
        elif found != key:
            self._keys[value] = {found: None, key: None}

    def _remove(self, value: str, key: Key) -> None:
        found = self._keys.get(value, {})
        if isinstance(found, dict):
            found.pop(key, None)
        if not found or found == key:
            self._keys.pop(value, None)
