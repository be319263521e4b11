"""How often the same write is repeated: Pods that ended are recreated, and clearances that are too old asked for again.

A kubelet that refuses a Pod answers in milliseconds. Without a bound the same Pod would be created and refused hundreds
of times a minute; so it waits longer each time, and never are all recreated at once.

A clearance that is too old is mostly given again within a second. It may come back as old as it was, though: dated by a
clock that is wrong, or by a syncer that dates nothing yet. Both sides would ask and answer without end; so each is asked
for at most once in the time for which one holds.

What is remembered here only limits rates: a new leader may begin with none of it.
"""

from collections import deque
from typing import Final

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.model.backoff import BackOff
from sunk.model.contract.clearance import HOLDS_FOR

FIRST: Final = 1.0
LONGEST: Final = 300.0
CALM: Final = 600.0
"""A Pod that lasted so long starts again with the first delay."""
AT_ONCE: Final = 20
PAUSE: Final = 5.0
"""So many are replaced in so many seconds, over all NodeSets; the others wait."""


class _Recreated(Struct):
    """When a member's Pod was last recreated, and how often in a row."""

    at: float
    times: int


class RecreateBackoff:
    """When Pods that ended may be recreated."""

    def __init__(self) -> None:
        self._past: dict[Key, _Recreated] = {}
        self._lately: deque[float] = deque()

    def due(self, pods: tuple[Pod, ...]) -> tuple[tuple[Pod, ...], float | None]:
        """Say which of them may be replaced now, and in how many seconds to look again for the others."""
        self._forget()
        room = AT_ONCE - len(self._lately)
        waits = [(self._wait(pod.key), pod) for pod in pods]
        able = [pod for wait, pod in waits if wait <= 0]
        later = [wait for wait, _ in waits if wait > 0]
        if len(able) > room:
            later.append(self._lately[0] + PAUSE - loopclock.now() if self._lately else PAUSE)
        return tuple(able[:room]), min(later, default=None)

    def replaced(self, key: Key) -> None:
        past, now = self._past.pop(key, None), loopclock.now()
        times = 1 if past is None or now - past.at > CALM else past.times + 1
        self._past[key] = _Recreated(at=now, times=times)
        self._lately.append(now)

    def _wait(self, key: Key) -> float:
        past = self._past.get(key)
        return 0.0 if past is None else past.at + BackOff(FIRST, LONGEST).delay(past.times) - loopclock.now()

    def _forget(self) -> None:
        now = loopclock.now()
        while self._lately and now - self._lately[0] >= PAUSE:
            self._lately.popleft()
        for key in [key for key, past in self._past.items() if now - past.at > CALM]:
            del self._past[key]


class ClearanceRenewals:
    """When a clearance that is too old may be asked for again."""

    def __init__(self) -> None:
        self._asked: dict[str, float] = {}
        """When each was asked for last, by the uid of its Pod."""

    def due(self, pods: tuple[Pod, ...]) -> tuple[tuple[Pod, ...], float | None]:
        """Say for which of them to ask now, and in how many seconds for the others."""
        now, pause = loopclock.now(), HOLDS_FOR.total_seconds()
        self._asked = {uid: at for uid, at in self._asked.items() if now < at + pause}
        able = tuple(pod for pod in pods if pod.metadata.uid not in self._asked)
        waits = [self._asked[pod.metadata.uid] + pause - now for pod in pods if pod.metadata.uid in self._asked]
        self._asked |= {pod.metadata.uid: now for pod in able}
        return able, min(waits, default=None)
