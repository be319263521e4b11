"""The Pod controller: a cordon of a Node becomes an annotation of its compute Pod, by which the syncer drains.

So does the lock of the Node, by which the syncer lets jobs start.

It stands between a person's cordon and Slurm, so the way is short: an event about a Node wakes a worker for its Pod,
which compares two records and sends one patch. Nothing is read from the server, and nothing waits for anything else.

It should hear of a Node before others do, and therefore listens from the moment it is built: who is woken first runs
first, and a snapshot of a great NodeSet, which a cordon asks for as well, takes longer than all of this. To the parts of
the operator it belongs as the first one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Effort, Requeue, Source
from sunk.kube.core import Node, Pod
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key, Record
from sunk.model import loopclock, names
from sunk.model.contract import lock
from sunk.objects.computepods import node_of
from sunk.operator.caches import SharedCaches, has_owner, is_compute, shared_caches
from sunk.operator.keptdrains import KeptDrains, kept_drains
from sunk.operator.lockmetrics import LockMetrics, lock_metrics
from sunk.operator.podannotations import annotation_changes, differences, lock_copy
from sunk.service.part import Part, Setting

SHARE: Final = 4
"""A look is one small patch that mostly waits for the server, so there may be more of them than of others."""

UNSEEN: Final = 5.0
"""Seconds until a look at whether there is a NodeSet that a Pod names as its owner."""

MOMENT: Final = 0.5
"""Seconds for which a lock has to be pending before its Pod says so. On an empty Node it is over sooner, and the copy would
be a write for nothing."""


def pods(setting: Setting, *, cordon_reason: str = names.CORDON_REASON) -> Part:
    """Build the part of the operator that tells compute Pods what their Nodes say."""
    shared, drains = setting.once(shared_caches), setting.once(kept_drains)
    ours: tuple[Collection[Any], ...] = (*shared.sets.collections, *drains.collections)
    reconciler = PodReconciler(shared, drains, setting.once(lock_metrics), cordon_reason=cordon_reason)
    sources: list[Source[Any, Key]] = [
        Source(shared.pods.store, reconciler.itself),
        Source(shared.nodes.store, _nobody),
        *(Source(one.store, _nobody) for one in ours),
    ]
    effort = Effort(workers=SHARE * setting.workers)
    controller: Controller[Key] = Controller("pods", reconciler.reconcile, sources=sources, effort=effort)

    def listen(_: Key, before: Node | None, after: Node | None) -> None:
        if after is not None and (before is None or _concerns(before, after)):
            for key in reconciler.on_it(after):
                controller.enqueue(key)

    shared.nodes.store.subscribe(listen)
    follows: tuple[Collection[Any], ...] = (shared.nodes, shared.pods, *ours)
    return Part("pods", follows=follows, controllers=(controller,))


class PodReconciler:
    """Brings one Pod at a time to what it should carry."""

    def __init__(self, shared: SharedCaches, drains: KeptDrains, metrics: LockMetrics, *, cordon_reason: str) -> None:
        self._drains = drains
        self._metrics = metrics
        self._pending: dict[Key, float] = {}
        """Since when the lock of a Pod's Node is pending, while the Pod does not say so."""
        self._nodes = shared.nodes
        self._pods = shared.pods
        self._sets = shared.sets
        self._reason_key = cordon_reason

    def itself(self, pod: Pod) -> tuple[Key, ...]:
        """A compute Pod in a namespace that we look after."""
        return (pod.key,) if is_compute(pod) and self._sets.covers(pod.metadata.namespace) else ()

    def on_it(self, node: Node) -> Iterator[Key]:
        for pod in self._pods.store.by("compute", node.metadata.name):
            yield from self.itself(pod)

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.store.get(key)
        if pod is None or not is_compute(pod):
            self._pending.pop(key, None)
            return None
        if not has_owner(pod, self._sets):
            # Invented, or a NodeSet that was made a moment ago by someone who led before us.
            return Requeue(after=UNSEEN)
        node = self._nodes.store.get(Key("", node_of(pod)))
        change = annotation_changes(pod, node, kept_drain=self._kept_drain(pod, node), reason_key=self._reason_key)
        copied = differences(pod, lock_copy(pod, node))
        wait = self._until_copied(key, copied)
        if wait is None:
            change |= copied
        if change:
            try:
                # The uid is enough: whatever else changes on the Pod changes nothing about this.
                await self._pods.patch(key, Merge({"metadata": {"uid": pod.metadata.uid, "annotations": change}}))
            except NotFound:
                return None
            if copied and wait is None:
                self._metrics.wrote("copy")
        return None if wait is None else Requeue(after=wait)

    def _until_copied(self, key: Key, copied: Mapping[str, str | None]) -> float | None:
        """Seconds for which `pending` has still to last; none if there is nothing to wait for."""
        if copied.get(names.LOCK) != lock.PENDING:
            self._pending.pop(key, None)
            return None
        left = self._pending.setdefault(key, loopclock.now()) + MOMENT - loopclock.now()
        return left if left > 0 else None

    def _kept_drain(self, pod: Pod, node: Node | None) -> str | None:
        cluster = Key(pod.metadata.namespace, pod.metadata.labels.get(names.CLUSTER, ""))
        return None if node is None else self._drains.line(node, cluster=cluster)


def _concerns(before: Node, after: Node) -> bool:
    """Kubelets write to their Nodes all the time, and hardly ever what a Pod has to be told."""
    return (
        before.spec.unschedulable != after.spec.unschedulable
        or before.metadata.annotations != after.metadata.annotations
        or before.metadata.uid != after.metadata.uid
    )


def _nobody(_: Record) -> tuple[Key, ...]:
    return ()
