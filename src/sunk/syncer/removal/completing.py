"""Nodes that complete a job and do not come to the end of it.

A process that cannot be killed, or an epilog that hangs, keeps its node COMPLETING. Slurm itself gives up after
UnkillableStepTimeout and drains the node; twice that and some minutes later nobody is going to do anything any more,
and a person has to look. What is told has a time and no age, so that it does not change by itself.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from sunk.kube.control.events import about
from sunk.model.contract.report import Report
from sunk.slurm.mirror.confidence import Known
from sunk.slurm.records import Job, Node
from sunk.slurm.states import NodeFlag
from sunk.syncer.context import Ground
from sunk.syncer.removal.holders import Holders
from sunk.syncer.rounds import Rounds

PERIOD: Final = 10.0
GRACE: Final = 600.0
UNKILLABLE: Final = 60.0
"""Slurm's own default of UnkillableStepTimeout, in seconds."""
_SHOWN: Final = 3
_COMPLETING: Final = NodeFlag.COMPLETING.value


def patience(unkillable: float) -> float:
    return 2 * (unkillable or UNKILLABLE) + GRACE


def began(jobs: Iterable[Job], *, seen: float) -> float:
    """Since when a node completes: the end of the first job that does so, or else when we first saw it."""
    ends = [job.end_time for job in jobs if job.state.completing and job.end_time]
    return float(min(ends, default=seen))


def sentence(name: str, *, since: float, jobs: Iterable[int]) -> str:
    numbers = ", ".join(map(str, [*jobs][:_SHOWN]))
    of = f" job {numbers}" if numbers else ""
    when = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{name} is completing{of} since {when}: a process cannot be killed, or an epilog hangs. Look at its Pod; to end "
        f"it, set the node down and take it up again in Slurm"
    )


class Completing:
    """Finds them. `tell` hears of all that are found, whenever that changes."""

    def __init__(
        self,
        ground: Ground,
        holders: Holders,
        *,
        unkillable: Callable[[], float],
        tell: Callable[[dict[str, str]], None],
    ) -> None:
        self._ground = ground
        self._holders = holders
        self._unkillable = unkillable
        self._tell = tell
        self._seen: dict[str, float] = {}
        self._found: Mapping[str, str] = {}
        self.work: Final = Rounds("completing", self.look, period=PERIOD)

    def report(self) -> Report:
        return Report(stuck=tuple(self._found.values()))

    async def look(self) -> None:
        if not isinstance(self._ground.mirror.state, Known):
            return
        now, limit = time.time(), patience(self._unkillable())
        nodes = [node.name for node in self._ground.mirror.nodes.all() if _completes(node)]
        self._seen = {name: self._seen.get(name, now) for name in nodes}
        since = {name: began(self._holders.jobs(name), seen=self._seen[name]) for name in nodes}
        found = {
            name: sentence(name, since=at, jobs=self._holders.of(name))
            for name, at in since.items()
            if now - at > limit + self._ground.manner.skew
        }
        if found != self._found:
            self._say(found)

    def _say(self, found: dict[str, str]) -> None:
        for name in found.keys() - self._found.keys():
            pod = self._ground.pod(name)
            if pod is not None:
                note = "{what}"
                self._ground.recorder.warn(
                    about(pod, kind="Pod"), "StuckCompleting", note, action="Watch", what=found[name]
                )
        self._found = found
        self._tell(found)


def _completes(node: Node) -> bool:
    return bool(node.state_bits & _COMPLETING)
