"""The NodeSet controller: reads, decides, and carries out.

One reconcile takes a snapshot of the stores, has `plan` decide on it, and writes, in an order in which every place to die
in is one to go on from:

1. Nodes that join are claimed. Of two sets that want a Node only one gets it.
2. Slices say who is a member, and Pods of new members are made. The name is decided by then, and both carry it.
3. Pods are marked, unmarked, deleted; each delete with the uid and resourceVersion that it was decided on.
4. Nodes that are nobody's any more lose the claim.
5. The status says what was found, and which generation of the spec that was about.

A claim without an entry, an entry without a Pod and a Pod without an entry are all found again by the next snapshot.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself, owner
from sunk.kube.resource import Key, Record
from sunk.model import loopclock, names
from sunk.model.nodeset import NODESET
from sunk.objects.nodesets import NODESLICES, REVISIONS, NodeSet, NodeSlice, by_owner
from sunk.operator.caches import shared_caches
from sunk.operator.keptdrains import kept_drains
from sunk.operator.nodeset.act.executor import Executor
from sunk.operator.nodeset.act.podbuilder import PodBuilders
from sunk.operator.nodeset.decide.plan import plan
from sunk.operator.nodeset.decide.podactions import Moment
from sunk.operator.nodeset.observe.snapshot import Observer
from sunk.operator.nodeset.observe.triggers import Triggers
from sunk.service.part import Part, Setting
from sunk.service.scoped import Scoped

log = logging.getLogger(__name__)

JOIN_BATCH: Final = 500
"""At most so many Nodes join in one reconcile; then a new snapshot is taken."""
AGAIN: Final = 0.05
MENDED: Final = 30.0
"""Seconds until a reconcile that checks whether somebody has mended what no event tells of: a class that was missing, a name in use."""
_OURS: Final = f"{names.MANAGED_BY}=sunk"


def nodesets(setting: Setting, *, cordon_reason: str = names.CORDON_REASON) -> Part:
    """Build the part of the operator that looks after NodeSets."""
    shared = setting.once(shared_caches)
    nodes, pods, sets = shared.nodes, shared.pods, shared.sets
    slices = Scoped(setting, NODESLICES, indexes={"owner": by_owner, "node": by_member})
    revisions = Scoped(setting, REVISIONS, labels=_OURS, indexes={"owner": by_owner})
    observer = Observer(sets=sets, slices=slices, nodes=nodes, pods=pods, now=setting.client.clock.now)

    def moment() -> Moment:
        now = setting.client.clock.now()
        return Moment(now, since=now - timedelta(seconds=loopclock.now() - controller.began))

    executor = Executor(
        setting,
        nodes=nodes,
        pods=pods,
        sets=sets,
        slices=slices,
        revisions=revisions,
        observer=observer,
        cordon_reason=cordon_reason,
        moment=moment,
    )
    reconciler = NodeSetReconciler(
        observer=observer, builders=PodBuilders(setting.client), executor=executor, sets=sets, moment=moment
    )
    for collection in sets.collections:
        collection.store.subscribe(reconciler.forget)
    of_set = owner(NODESET.name)
    sources: list[Source[Any, Key]] = [Source(collection.store, itself) for collection in sets.collections]
    sources += [Source(collection.store, of_set) for collection in slices.collections]
    read: tuple[Collection[Any], ...] = (*revisions.collections, *setting.once(kept_drains).collections)
    sources += [Source(collection.store, _nobody) for collection in read]
    sources += [Source(pods.store, of_set), Source(nodes.store, _nobody)]
    effort = Effort(workers=setting.workers, patience=300.0)
    controller: Controller[Key] = Controller("nodesets", reconciler.reconcile, sources=sources, effort=effort)
    Triggers(sets, enqueue=controller.enqueue).listen(nodes=nodes.store, pods=pods.store)
    follows: tuple[Collection[Any], ...] = (nodes, pods, *sets.collections, *slices.collections, *read)
    return Part("nodesets", follows=follows, controllers=(controller,))


class NodeSetReconciler:
    """Brings one NodeSet at a time to what it should be."""

    def __init__(
        self,
        *,
        observer: Observer,
        builders: PodBuilders,
        executor: Executor,
        sets: Scoped[NodeSet],
        moment: Callable[[], Moment],
    ) -> None:
        self._observer = observer
        self._builders = builders
        self._executor = executor
        self._sets = sets
        self._moment = moment

    async def reconcile(self, key: Key) -> Requeue | None:
        node_set = self._sets.get(key)
        if node_set is None:
            return None
        node_set = await self._executor.ensure_finalizer(node_set)
        prepared = await self._builders.prepare(node_set)
        if not _is_same(node_set, self._sets.get(key)):
            return None  # it has changed while the template was tried, so the next reconcile is due already
        snapshot = self._observer.snapshot(node_set, prepared.demand)
        usable, moment = not prepared.problem, self._moment()
        todo = plan(node_set, snapshot, revision=prepared.revision, usable=usable, batch=JOIN_BATCH, moment=moment)
        if todo.finished:
            await self._executor.finish_deletion(node_set, snapshot.slices)
            return None
        waiting = await self._executor.execute(node_set, todo, snapshot=snapshot, prepared=prepared)
        waits = [snapshot.wait, waiting, MENDED if prepared.problem or snapshot.refused else None]
        waits.append(AGAIN if len(todo.joins) < len(todo.membership.joins) else None)
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return None if soonest is None else Requeue(after=soonest)

    def forget(self, key: Key, before: NodeSet | None, after: NodeSet | None) -> None:
        """Remember nothing of a set that is no more. Told by the store, since it may end while another process leads."""
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._builders.forget(key)
            self._observer.forget(before.metadata.uid)


def _is_same(node_set: NodeSet, other: NodeSet | None) -> bool:
    return other is not None and node_set.metadata.resource_version == other.metadata.resource_version


def by_member(node_slice: NodeSlice) -> tuple[str, ...]:
    return tuple(entry.node for entry in node_slice.spec.entries)


def _nobody(_: Record) -> tuple[Key, ...]:
    return ()
