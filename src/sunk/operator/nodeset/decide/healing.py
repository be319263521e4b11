"""How often Pods that ended by themselves are replaced: later and later for one that keeps ending, and never all at once.

A kubelet that refuses a Pod answers in milliseconds. Without a bound the same Pod would be made and refused hundreds of
times a minute. What is remembered here is only manners: a process that leads anew may begin with none of it.
"""

from collections import deque
from typing import Final

from msgspec import Struct

from sunk.kube.core import Pod
from sunk.kube.resource import Key
from sunk.model import loopclock

FIRST: Final = 1.0
LONGEST: Final = 300.0
CALM: Final = 600.0
"""A Pod that lasted so long begins anew."""
AT_ONCE: Final = 20
PAUSE: Final = 5.0
"""So many are replaced in so many seconds, over all NodeSets; the others wait."""


class _Past(Struct):
    """When a member's Pod was last replaced, and how long the next one has to wait."""

    at: float
    delay: float


class Healing:
    def __init__(self) -> None:
        self._past: dict[Key, _Past] = {}
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
        lasted = past is None or now - past.at > CALM
        self._past[key] = _Past(at=now, delay=FIRST if lasted or past is None else min(past.delay * 2, LONGEST))
        self._lately.append(now)

    def _wait(self, key: Key) -> float:
        past = self._past.get(key)
        return 0.0 if past is None else past.at + past.delay - loopclock.now()

    def _forget(self) -> None:
        now = loopclock.now()
        while self._lately and now - self._lately[0] >= PAUSE:
            self._lately.popleft()
        for key in [key for key, past in self._past.items() if now - past.at > CALM]:
            del self._past[key]
