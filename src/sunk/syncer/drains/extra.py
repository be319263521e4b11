"""What Slurm shows of Kubernetes at each node: one key of ours in its `Extra`, to which users may add others.

That the key is there also marks the record as ours: a record without it was recreated since, and has lost the drain that
a person had put on before the machine left.

The key differs from node to node, so each write costs a call of its own: five thousand when a cluster is first seen, or
when all Pods stop being ready. So `ExtraWriter` is a worker of its own with a bounded pace, for which nothing urgent
waits.

Of the lock only `pending` is shown: that a job waits for other work to leave the Node is what people look for in Slurm.
That a Node is locked they see by the job itself, and to write it would be two calls for each job on an idle node. The
Pod says `pending` only where it lasts, so a lock that nothing stands in the way of costs none.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Final, Never

from sunk.kube.control.queue import Queue, QueueStatistics
from sunk.model import hostlist, names
from sunk.model.backoff import BackOff
from sunk.model.contract import drains, keptdrains, lock
from sunk.model.contract.syncerwrites import POD_CONDITIONS
from sunk.slurm.errors import SlurmError
from sunk.slurm.mirror.confidence import Stale
from sunk.slurm.orders import extra
from sunk.slurm.records import Node
from sunk.syncer.context import Context
from sunk.syncer.drains.snapshot import NodeSnapshot, Snapshots, standing
from sunk.syncer.pods import ComputePod
from sunk.syncer.work import next_batch

log = logging.getLogger(__name__)

BATCH: Final = 100
"""Nodes in one go, at most."""
PAUSE: Final = 0.5
"""Seconds between two batches."""
_READY: Final = "Ready"
_KUBERNETES: Final = frozenset(
    {
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "PodReadyToStartContainers",
        "PodResizePending",
        "PodResizeInProgress",
        "DisruptionTarget",
        "AllContainersRestarting",
    }
)
"""Conditions of Kubernetes' own that tell no more than Ready does."""


def marked(row: Node) -> bool:
    """Whether we have written to this record before."""
    return drains.EXTRA_KEY in row.extra and drains.EXTRA_KEY in extra.read(row.extra)


def wanted(snapshot: NodeSnapshot) -> dict[str, Any]:
    """What our key should hold."""
    pod = snapshot.pod
    pending = pod is not None and pod.metadata.annotations.get(names.LOCK) == lock.PENDING
    values = {
        "node": snapshot.member.entry.node,
        "pod": "" if pod is None else pod.metadata.name,
        "nodeset": snapshot.member.node_set,
        "conditions": {} if pod is None else _conditions(pod),
    }
    return values | ({"lock": lock.PENDING} if pending else {})


def differs(snapshot: NodeSnapshot) -> bool:
    return bool(extra.read(snapshot.row.extra).get(drains.EXTRA_KEY) != wanted(snapshot))


def kept_drain(snapshot: NodeSnapshot) -> str | None:
    """The reason of a drain that was on this machine when it left, and that its new record does not have yet."""
    return None if drains.is_personal(standing(snapshot.row)) else owed_drain(snapshot)


def owed_drain(snapshot: NodeSnapshot) -> str | None:
    """The same, also while somebody else's drain is on, which covers it."""
    annotation = "" if snapshot.pod is None else snapshot.pod.metadata.annotations.get(names.KEPT_DRAIN, "")
    if not annotation or marked(snapshot.row):
        return None
    reason = keptdrains.one_line(annotation)  # whoever wrote it
    return None if not reason or drains.is_ours(reason) else reason


def owes(snapshot: NodeSnapshot) -> bool:
    """Whether a kept drain is still to be put on, now or when somebody else's is lifted."""
    owed, row = owed_drain(snapshot), snapshot.row
    return owed is not None and not (drains.is_personal(standing(row)) and keptdrains.line(row.reason) == owed)


def _conditions(pod: ComputePod) -> dict[str, str]:
    """Whether it is ready, and what people say of it."""
    hidden = _KUBERNETES.union(POD_CONDITIONS)
    shown = {condition.type: condition.status for condition in pod.status.conditions if condition.type not in hidden}
    return {_READY: "False"} | dict(sorted(shown.items()))


class ExtraWriter:
    """Takes names whose Extra was seen to differ, and compares again before it writes."""

    def __init__(self, context: Context, snapshots: Snapshots) -> None:
        self._context = context
        self._snapshots = snapshots
        self._queue: Queue[str] = Queue(back_off=BackOff(first=0.2, longest=60.0))
        self.written = 0

    @property
    def queue(self) -> QueueStatistics:
        return self._queue.statistics()

    def enqueue(self, name: str) -> None:
        self._queue.add(name)

    async def run(self) -> Never:
        while True:
            batch = await next_batch(self._queue, mirror=self._context.mirror, most=BATCH)
            try:
                await self._write(batch)
            finally:
                for name in batch:
                    self._queue.done(name)
            await asyncio.sleep(PAUSE)

    async def shut_down(self) -> None:
        self._queue.close()
        await self._queue.idle()

    async def _write(self, batch: Collection[str]) -> None:
        try:
            await self._context.mirror.read_after()
            await self._merge(batch)
        except Exception as trouble:
            delay = max(self._queue.retry(name) for name in batch)
            known = isinstance(trouble, SlurmError | Stale | ValueError)
            words = "Extra of %s: %s; retrying within %.1f s"
            log.warning(words, hostlist.shown(batch), trouble, delay, exc_info=None if known else trouble)
        else:
            for name in batch:
                self._queue.forget(name)

    async def _merge(self, batch: Collection[str]) -> None:
        snapshots = [snapshot for name in batch if (snapshot := self._snapshots.of(name)) is not None]
        # A drain that is to be put back goes first: our key says that this has been done. One of Slurm's own may cover it.
        due = [snapshot for snapshot in snapshots if differs(snapshot) and not owes(snapshot)]
        if not due or not self._context.may_write():
            return
        ours = {snapshot.name: {drains.EXTRA_KEY: wanted(snapshot)} for snapshot in due}
        outcome = await self._context.orders.merge_extra(ours)
        self.written += len(outcome.done)
        if outcome.refused:
            log.warning("Extra of %s: no room left for our key", hostlist.shown(outcome.refused))
        await self._context.mirror.read_after()
