"""Orders that Slurm keeps refusing or leaving unanswered, though it can be read.

A drain that never comes about is seen by nobody who looks at Kubernetes, so it is in the report once it has lasted. While
Slurm cannot be read at all that is said instead (`sight`).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sunk.slurm.mirror.confidence import Stale, named

LASTS: Final = 10.0
"""Seconds for which an order may fail before that is said."""


class Refused:
    """Which nodes Slurm could not be told something about, since when, and what it said the first time."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, str]] = {}

    def note(self, tried: Iterable[str], failed: Mapping[str, Exception], *, now: float) -> None:
        for name in tried:
            if name not in failed:
                self._since.pop(name, None)
        for name, trouble in failed.items():
            if not isinstance(trouble, Stale):  # nothing was ordered
                self._since.setdefault(name, (now, str(trouble)))

    def lasting(self, *, now: float) -> tuple[str, ...]:
        """A sentence for each kind of trouble that has lasted."""
        nodes: dict[str, list[str]] = {}
        for name, (since, words) in self._since.items():
            if now - since >= LASTS:
                nodes.setdefault(words, []).append(name)
        return tuple(
            f"Slurm does not carry out what it is told about {named(names)}: {words}"
            for words, names in sorted(nodes.items())
        )
