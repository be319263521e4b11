"""For how long the Nodes of members have been missing.

A Node that registers anew is gone for a moment, and its member must not leave for that. Since when it is missing stands
in its entry, so that a new leader goes on counting; or else leaders that keep dying would put it off for ever. A Node
that was there in between begins to be missing anew: whoever leads takes the date off, and what this process has seen
itself counts too, since it may have been there while nobody led.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from sunk.kube.cache.store import Store
from sunk.kube.core import Node
from sunk.kube.resource import Key
from sunk.model.nodeslice import Entry

GRACE: Final = 60.0
"""Seconds for which a Node may be missing before its member leaves."""


class Absences:
    def __init__(self, nodes: Store[Node], *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._went: dict[str, float] = {}
        """When we saw a Node go, by the loop's clock; a while ago they are of no interest any more."""
        nodes.subscribe(self._hear)

    def left(self, missing: Iterable[Entry]) -> Mapping[str, float]:
        """How many seconds the Nodes of these entries may still be missing, by Node; less than none if it is over."""
        now = self._now()
        self._forget()
        return {entry.node: GRACE - self._absent(entry, now) for entry in missing}

    def _absent(self, entry: Entry, now: datetime) -> float:
        """For how many seconds a Node has been missing. A date that is ahead of us is no more than now."""
        if entry.absent_since is None:
            return 0.0
        told = max((now - entry.absent_since) / timedelta(seconds=1), 0.0)
        seen = self._went.get(entry.node)
        return told if seen is None else min(told, _loop() - seen)

    def _hear(self, key: Key, before: Node | None, after: Node | None) -> None:
        if after is None and before is not None:
            self._went[key.name] = _loop()
        else:
            self._went.pop(key.name, None)

    def _forget(self) -> None:
        old = _loop() - 2 * GRACE
        self._went = {node: at for node, at in self._went.items() if at > old}


def _loop() -> float:
    return asyncio.get_running_loop().time()
