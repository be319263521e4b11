"""When Pods stopped being ready, and whether many of them did so together.

One Pod that is not ready is trouble of its machine, and its node is drained after a moment. Many at once are trouble of
something else: a network, a kubelet that is being replaced, a probe that asks what it should not. Draining them all
would turn a blink into an outage, and back again. So a wave waits for a while, and says so; who is still not ready then
is drained.

A Pod that was never ready has not stopped to be: it is not waited for, so that no job gets to a node that is still
starting.

The moment counts from when we saw it happen, by our own clock. Only what had happened before we looked is judged by the
times that Kubernetes gives, which come from clocks of other machines.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from sunk.kube.cache.store import Store
from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.syncer.context import Manner
from sunk.syncer.pods import ComputePod, condition, finished, ready, terminating

TOGETHER: Final = 10.0
"""Seconds within which Pods stop being ready together: leases and probes are looked at so often."""
FEWEST: Final = 3
_FIRST_WORD: Final = timedelta(seconds=2)
"""How long a kubelet takes for the first status of a Pod, which has both its times."""
LONG_AGO: Final = float("-inf")


class Wave(Struct, frozen=True):
    """Times are the loop's."""

    first: float
    """Who stopped being ready since then belongs to it."""
    until: float
    words: str


class Falls:
    """Followed for as long as the store of Pods is, so that who takes over knows since when."""

    def __init__(
        self, pods: Store[ComputePod], *, manner: Manner, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._pods = pods
        self._manner = manner
        self._wall = wall
        self._since: dict[str, float] = {}
        self._news = False
        self._wave: Wave | None = None
        self.waves = 0
        """How many there were."""
        for each in pods.all():
            self._hear(each.key, None, each)
        pods.subscribe(self._hear)

    def due(self, name: str) -> float:
        """From when on a Pod that is not ready counts as that; `look` has to have been called after the last change."""
        since = self._since.get(name)
        if since is None:
            return LONG_AGO
        wave = self._wave
        due = since + self._manner.not_ready_after
        return max(due, wave.until) if wave is not None and wave.first <= since <= wave.until else due

    @property
    def delayed(self) -> str:
        """What is put off because of a wave."""
        wave = self._wave
        waits = (
            wave is not None
            and loopclock.now() < wave.until
            and any(since >= wave.first for since in self._since.values())
        )
        return wave.words if wave is not None and waits else ""

    def look(self) -> Wave | None:
        """See whether there is a wave, in time that depends on the number of Pods that are not ready; give a new one."""
        if not self._news:
            return None
        self._news = False
        now = loopclock.now()
        held = self._wave.until if self._wave is not None else LONG_AGO
        if now <= held:
            return None
        recent = sorted(since for since in self._since.values() if since > max(held, now - self._manner.wave_delay))
        self._wave = self._found(recent)
        self.waves += self._wave is not None
        return self._wave

    def _found(self, falls: Sequence[float]) -> Wave | None:
        total = len(self._pods)
        number = crest(falls, more_than=max(self._manner.wave_share * total, FEWEST - 1))
        if number is None:
            return None
        until = falls[number] + self._manner.wave_delay
        clock = (self._wall() + timedelta(seconds=until - loopclock.now())).strftime("%H:%M:%S")
        many = f"{len(falls)} of {total} Pods stopped being ready together"
        words = f"{many}: their nodes are not drained before {clock} UTC, and not at all if they are ready by then"
        return Wave(first=falls[number] - TOGETHER, until=until, words=words)

    def _hear(self, key: Key, before: ComputePod | None, after: ComputePod | None) -> None:
        name = key.name
        if after is None or ready(after) or finished(after) or terminating(after):
            self._since.pop(name, None)
            return
        same = before is not None and before.metadata.uid == after.metadata.uid
        if same and before is not None and ready(before):
            self._fell(name, ago=0.0)
        elif not same:
            self._since.pop(name, None)
            if (since := _stopped(after)) is not None:
                self._fell(name, ago=max((self._wall() - since).total_seconds(), 0.0))

    def _fell(self, name: str, *, ago: float) -> None:
        self._since[name] = loopclock.now() - ago
        self._news = True


def crest(falls: Sequence[float], *, more_than: float) -> int | None:
    """Which of these moments, in their order, made it more than so many within `TOGETHER`; None if none did."""
    oldest = 0
    for number, since in enumerate(falls):
        while falls[oldest] < since - TOGETHER:
            oldest += 1
        if number - oldest + 1 > more_than:
            return number
    return None


def _stopped(pod: ComputePod) -> datetime | None:
    """When a Pod that is not ready stopped to be; None if it never was, as far as its record tells.

    The first word of a kubelet says both that it has begun and that nothing is ready; if that word changed later, it
    was ready in between.
    """
    found = condition(pod, "Ready")
    if found is None or found.last_transition_time is None or pod.status.start_time is None:
        return None
    changed = found.last_transition_time > pod.status.start_time + _FIRST_WORD
    return found.last_transition_time if changed else None
