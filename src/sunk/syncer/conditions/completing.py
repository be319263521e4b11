"""Nodes that are completing a job and do not come to the end of it.

A process that cannot be killed, or an epilog that hangs, keeps its node COMPLETING. Slurm itself gives up after
UnkillableStepTimeout and drains the node; twice that and some minutes later nobody is going to do anything any more,
and a person has to look. The message has a time and no age, so that it does not change by itself.
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
from sunk.syncer.context import Context
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.work import PeriodicWork

PERIOD: Final = 10.0
GRACE: Final = 600.0
UNKILLABLE: Final = 60.0
"""Slurm's own default of UnkillableStepTimeout, in seconds."""
_SHOWN: Final = 3
_COMPLETING: Final = NodeFlag.COMPLETING.value


def patience(unkillable: float) -> float:
    """Seconds after which somebody has to look. `unkillable` is UnkillableStepTimeout; 0 if it is not known."""
    return 2 * (unkillable or UNKILLABLE) + GRACE


def completing_since(jobs: Iterable[Job], *, seen: float) -> float:
    """Since when a node is completing: the end of the first job that does so, or else when we first saw it."""
    ends = [job.end_time for job in jobs if job.state.completing and job.end_time]
    return float(min(ends, default=seen))


def message(name: str, *, since: float, jobs: Iterable[int]) -> str:
    numbers = ", ".join(map(str, [*jobs][:_SHOWN]))
    of = f" job {numbers}" if numbers else ""
    when = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{name} has been completing{of} since {when}: a process cannot be killed, or an epilog hangs. Check its "
        f"Pod; to clear it, set the node to DOWN in Slurm and then to RESUME"
    )


class CompletingNodes:
    """Finds them. `on_change` is called with all of them, and why each is stuck, whenever that changes."""

    def __init__(
        self,
        context: Context,
        jobs_by_node: JobsByNode,
        *,
        unkillable: Callable[[], float],
        on_change: Callable[[dict[str, str]], None],
    ) -> None:
        self._context = context
        self._jobs_by_node = jobs_by_node
        self._unkillable = unkillable
        self._on_change = on_change
        self._seen: dict[str, float] = {}
        self._stuck: Mapping[str, str] = {}
        self.work: Final = PeriodicWork("completing", self.resync, period=PERIOD)

    def report(self) -> Report:
        return Report(stuck=tuple(self._stuck.values()))

    async def resync(self) -> None:
        if not isinstance(self._context.mirror.state, Known):
            return
        now, limit = time.time(), patience(self._unkillable())
        nodes = [node.name for node in self._context.mirror.nodes.all() if _is_completing(node)]
        self._seen = {name: self._seen.get(name, now) for name in nodes}
        since = {name: completing_since(self._jobs_by_node.jobs(name), seen=self._seen[name]) for name in nodes}
        stuck = {
            name: message(name, since=at, jobs=self._jobs_by_node.ids(name))
            for name, at in since.items()
            if now - at > limit + self._context.settings.clock_skew
        }
        if stuck != self._stuck:
            self._announce(stuck)

    def _announce(self, stuck: dict[str, str]) -> None:
        for name in stuck.keys() - self._stuck.keys():
            pod = self._context.pod(name)
            if pod is not None:
                note = "{what}"
                self._context.recorder.warn(
                    about(pod, kind="Pod"), "StuckCompleting", note, action="Watch", what=stuck[name]
                )
        self._stuck = stuck
        self._on_change(stuck)


def _is_completing(node: Node) -> bool:
    return bool(node.state_bits & _COMPLETING)
