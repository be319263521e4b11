"""Clearances that are asked for again, each at most once in the time for which one holds.

One that is too old is mostly given again within a second. It may come back as old as it was, though: dated by a clock
that is wrong, or by a syncer that dates nothing yet. Both would be asked, and answer, without an end.
"""

import asyncio

from sunk.kube.core import Pod
from sunk.model.contract.clearance import YOUNG


class Renewals:
    def __init__(self) -> None:
        self._asked: dict[str, float] = {}
        """When each was asked for last, by the uid of its Pod."""

    def due(self, pods: tuple[Pod, ...]) -> tuple[tuple[Pod, ...], float | None]:
        """Say for which of them to ask now, and in how many seconds for the others."""
        now, pause = asyncio.get_running_loop().time(), YOUNG.total_seconds()
        self._asked = {uid: at for uid, at in self._asked.items() if now < at + pause}
        able = tuple(pod for pod in pods if pod.metadata.uid not in self._asked)
        waits = [self._asked[pod.metadata.uid] + pause - now for pod in pods if pod.metadata.uid in self._asked]
        self._asked |= {pod.metadata.uid: now for pod in able}
        return able, min(waits, default=None)
