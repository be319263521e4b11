"""For how long the Nodes of members have been missing.

A Node that registers anew is gone for a moment, and its member must not leave for that. The time is counted from when
we first missed it, and begins anew whenever it has been seen: also while another process leads and no survey is taken,
so a Node that came and went in the meantime is not taken for one that was gone all the time.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from sunk.kube.core import Node
from sunk.kube.resource import Key
from sunk.kube.store import Store

GRACE: Final = 60.0
"""Seconds for which a Node may be missing before its member leaves."""


class Absences:
    def __init__(self, nodes: Store[Node]) -> None:
        self._since: dict[str, dict[str, float]] = {}
        nodes.subscribe(self._seen)

    def note(self, uid: str, missing: Iterable[str]) -> Mapping[str, float]:
        """Hear which Nodes a NodeSet misses now, all of them; returns how many seconds each has left, or less than none.

        Others that it missed are forgotten.
        """
        now, before = _now(), self._since.get(uid, {})
        since = self._since[uid] = {node: before.get(node, now) for node in missing}
        return {node: at + GRACE - now for node, at in since.items()}

    def forget(self, uid: str) -> None:
        self._since.pop(uid, None)

    def _seen(self, key: Key, _: Node | None, after: Node | None) -> None:
        if after is not None:
            for since in self._since.values():
                since.pop(key.name, None)


def _now() -> float:
    return asyncio.get_running_loop().time()
