"""One copy of what many objects say alike.

The Pods of a template differ in their names and their states and hardly in what they were asked to be; and the
tolerations that Kubernetes itself gives stand in nearly every Pod there is. Decoded by itself, each would have texts,
tuples and dicts of its own. What is equal is therefore held once. That is safe because records are never changed.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST: Final = 4096
"""Different values that are remembered. When there are more, all are forgotten: who holds one keeps it."""


class Shared(Generic[T]):
    def __init__(self) -> None:
        self._known: dict[Hashable, T] = {}

    def one(self, value: T, *, key: Hashable) -> T:
        """Give the first value that came under this key; keys are equal exactly where values are."""
        if len(self._known) >= MOST:
            self._known.clear()
        return self._known.setdefault(key, value)
