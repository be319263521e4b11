"""When Pods stopped being ready, and whether many of them did so together.

One Pod that is not ready is trouble of its machine, and its node is drained after a moment. Many at once are trouble of
something else: a network, a kubelet that is being replaced, a probe that asks what it should not. Draining them all
would turn a blink into an outage, and back again. So a wave waits for a while, and is reported; nodes whose Pods are
still not ready then are drained.

A Pod that was never ready has not stopped being so: it gets no delay, so that no job gets to a node that is still
starting.

The delay counts from when we saw it happen, by our own clock. Only what had happened before we looked is judged by the
times that Kubernetes gives, which come from clocks of other machines.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from sunk.kube.cache.store import Store
from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.model.cluster.daemons import SyncerSettings
from sunk.syncer.pods import ComputePod, condition, finished, ready, terminating

TOGETHER: Final = 10.0
"""Seconds within which Pods stop being ready together: leases and probes are checked that often."""
FEWEST: Final = 3
_FIRST_STATUS: Final = timedelta(seconds=2)
"""How long a kubelet takes for the first status of a Pod, which has both its times."""
LONG_AGO: Final = float("-inf")


class Wave(Struct, frozen=True):
    """Times are the loop's."""

    first: float
    """Pods that stopped being ready since then belong to it."""
    until: float
    message: str


class WaveDetector:
    """Followed for as long as the store of Pods is, so that a new leader knows since when each is not ready."""

    def __init__(
        self,
        pods: Store[ComputePod],
        *,
        settings: SyncerSettings,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._pods = pods
        self._settings = settings
        self._wall = wall
        self._since: dict[str, float] = {}
        """When each Pod that is not ready stopped being so."""
        self._changed = False
        self._wave: Wave | None = None
        self.count = 0
        """How many waves there were."""
        for pod in pods.all():
            self._on_pod(pod.key, None, pod)
        pods.subscribe(self._on_pod)

    def due(self, name: str) -> float:
        """When a Pod that is not ready begins to count as that. Call `detect` after the last change and before this."""
        since = self._since.get(name)
        if since is None:
            return LONG_AGO
        wave = self._wave
        due = since + self._settings.not_ready_after
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
        return wave.message if wave is not None and waits else ""

    def detect(self) -> Wave | None:
        """Return a wave that is new, in time that depends on the number of Pods that are not ready."""
        if not self._changed:
            return None
        self._changed = False
        now = loopclock.now()
        held = self._wave.until if self._wave is not None else LONG_AGO
        if now <= held:
            return None
        recent = sorted(since for since in self._since.values() if since > max(held, now - self._settings.wave_delay))
        self._wave = self._wave_of(recent)
        self.count += self._wave is not None
        return self._wave

    def _wave_of(self, times: Sequence[float]) -> Wave | None:
        total = len(self._pods)
        number = crest(times, more_than=max(self._settings.wave_share * total, FEWEST - 1))
        if number is None:
            return None
        until = times[number] + self._settings.wave_delay
        clock = (self._wall() + timedelta(seconds=until - loopclock.now())).strftime("%H:%M:%S")
        many = f"{len(times)} of {total} Pods became not ready at the same time"
        message = f"{many}: nodes that are still not ready at {clock} UTC will be drained then"
        return Wave(first=times[number] - TOGETHER, until=until, message=message)

    def _on_pod(self, key: Key, before: ComputePod | None, after: ComputePod | None) -> None:
        name = key.name
        if after is None or ready(after) or finished(after) or terminating(after):
            self._since.pop(name, None)
            return
        same = before is not None and before.metadata.uid == after.metadata.uid
        if same and before is not None and ready(before):
            self._note_unready(name, ago=0.0)
        elif not same:
            self._since.pop(name, None)
            if (since := _unready_since(after)) is not None:
                self._note_unready(name, ago=max((self._wall() - since).total_seconds(), 0.0))

    def _note_unready(self, name: str, *, ago: float) -> None:
        self._since[name] = loopclock.now() - ago
        self._changed = True


def crest(times: Sequence[float], *, more_than: float) -> int | None:
    """Which of these times, in their order, made it more than so many within `TOGETHER`; None if none did."""
    oldest = 0
    for number, since in enumerate(times):
        while times[oldest] < since - TOGETHER:
            oldest += 1
        if number - oldest + 1 > more_than:
            return number
    return None


def _unready_since(pod: ComputePod) -> datetime | None:
    """When a Pod that is not ready stopped being so; None if it never was ready, as far as its record tells.

    The first status of a kubelet says both that the Pod has begun and that nothing is ready. If the condition changed
    later, the Pod was ready in between.
    """
    ready_condition = condition(pod, "Ready")
    if ready_condition is None or ready_condition.last_transition_time is None or pod.status.start_time is None:
        return None
    changed = ready_condition.last_transition_time > pod.status.start_time + _FIRST_STATUS
    return ready_condition.last_transition_time if changed else None
