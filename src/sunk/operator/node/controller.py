"""The Node controller: one look at a Node, its NodeSet and its Pod, and what has to be written then.

The lock comes first (`sunk.operator.node.lockcontrol`), because a job waits for it. What Slurm says of the machine is one
more write. It has to wait until the locks of other Nodes that are asked for by now have had their turn.

A Node that is nobody's is wiped of what is ours, also of what was left there while no operator ran: at the start every
Node that carries something is looked at. A claim is nobody's if there is no such NodeSet, as when somebody has taken its
finalizer off. It holds if it is from a namespace that we do not look after; another operator does. Drains that are kept
are followed on any Node.

Which Pod is meant is what the NodeSet says, by the label on the Node and by owning the Pod. A Pod that only claims to be
on the Node could be anybody's.
"""

from datetime import UTC, datetime
from typing import Any, Final

from sunk.kube.api.patch import Strategic
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Effort, Requeue, Source
from sunk.kube.control.queue import Priority
from sunk.kube.core import Node, Pod, condition
from sunk.kube.errors import KubeError, NotFound
from sunk.kube.resource import Key, Record
from sunk.model import names
from sunk.model.contract import keptdrains
from sunk.model.contract.lock import LINGER
from sunk.objects.nodesets import NodeSet, claim_of, marked_by, owner_uid
from sunk.operator.caches import SharedCaches, by_compute, is_compute, shared_caches
from sunk.operator.keptdrains import KeptDrains, kept_drains
from sunk.operator.lockmetrics import lock_metrics
from sunk.operator.node.lockcontrol import LockControl, LockProgress, LockSubject
from sunk.operator.node.plan import Ownership, body, carries, plan
from sunk.service.part import Part, Setting

SHARE: Final = 4
"""A lock is three requests in a row and mostly waits for the server, so there may be more of them than of others: a job on
a thousand nodes waits for the last one."""
LATELY: Final = 5.0
"""Seconds. A NodeSet is believed to be gone if a look that is not older has not shown it."""
SLURM_ONLY: Final = "slurmOnly"


def nodes(setting: Setting, *, lock_linger: float = LINGER) -> Part:
    """Build the part of the operator that locks Nodes, and writes on them what Slurm says."""
    shared = setting.once(shared_caches)
    drains = setting.once(kept_drains)
    metrics = setting.once(lock_metrics)
    locks = LockControl(setting, shared, linger=lock_linger, metrics=metrics)
    reconciler = NodeReconciler(shared, drains, locks)
    sources: list[Source[Any, Key]] = [
        Source(shared.nodes.store, reconciler.itself),
        Source(shared.pods.store, _nobody),
    ]
    ours: tuple[Collection[Any], ...] = (*shared.sets.collections, *drains.collections)
    sources += [Source(one.store, _nobody) for one in ours]
    effort = Effort(workers=SHARE * setting.workers)
    controller: Controller[Key] = Controller("nodes", reconciler.reconcile, sources=sources, effort=effort)

    def hear_set(_: Key, before: NodeSet | None, after: NodeSet | None) -> None:
        if before is not None and _concerns(before, after):
            for node in reconciler.marked(before):
                controller.enqueue(node.key)

    def hear_pod(_: Key, before: Pod | None, after: Pod | None) -> None:
        # Called for every change of every Pod there is: what concerns nobody must cost nothing.
        pod = after or before
        if pod is not None and pod.spec.node_name in locks.pending:
            controller.enqueue(Key("", pod.spec.node_name))
        elif pod is not None and is_compute(pod):
            urgent = shared.pods.store.synced and _asks(before) != _asks(after)
            for node in {*_its_node(before), *_its_node(after)}:
                controller.enqueue(Key("", node), priority=Priority.FRESH if urgent else Priority.LATER)

    for one in shared.sets.collections:
        one.store.subscribe(hear_set)
    shared.pods.store.subscribe(hear_pod)
    drains.subscribe(lambda node: controller.enqueue(Key("", node)))
    follows: tuple[Collection[Any], ...] = (shared.nodes, shared.pods, *ours)
    return Part("nodes", follows=follows, controllers=(controller,), collectors=(metrics,))


class NodeReconciler:
    """Brings one Node at a time to what it should say."""

    def __init__(self, shared: SharedCaches, drains: KeptDrains, locks: LockControl) -> None:
        self._drains = drains
        self._locks = locks
        self._nodes = shared.nodes
        self._pods = shared.pods
        self._sets = shared.sets

    async def reconcile(self, key: Key) -> Requeue | None:
        node = self._nodes.store.get(key)
        if node is None or not carries(node) or self._is_of_another(node):
            self._locks.forget(key.name)
            if node is not None:
                await self._drains.follow(node, member_of=None)
            return None
        owner = self._owner(node)
        if owner is None and marked_by(node):
            for one in self._sets.collections:
                await one.catch_up(within=LATELY)
            if self._owner(node) or self._nodes.store.get(key) is not node:
                return Requeue(after=0)
        try:
            progress = await self._follow_lock(key, owner)
        except KubeError:
            await self._say(key, owner)  # whatever keeps a lock from being written, this need not wait for it
            raise
        if progress.wrote:
            return Requeue(after=0)  # behind all that is asked for by now
        wait = await self._say(key, owner)
        soonest = min((seconds for seconds in (progress.wait, wait) if seconds is not None), default=None)
        return None if soonest is None else Requeue(after=soonest)

    # The lock

    async def _follow_lock(self, key: Key, owner: NodeSet | None) -> LockProgress:
        if owner is None:
            return await self._locks.leave(lambda: self._unless_owned(key))
        return await self._locks.follow(lambda: self._subject(key, owner))

    def _subject(self, key: Key, owner: NodeSet) -> LockSubject | None:
        """The Node as it is now, if it still belongs to this NodeSet."""
        node = self._nodes.store.get(key)
        found = None if node is None else self._owner(node)
        if node is None or found is None or not _is_same(found, owner):
            return None
        return LockSubject(node, self._pod(node, found), slurm_only=found.spec.sharing == SLURM_ONLY)

    def _unless_owned(self, key: Key) -> Node | None:
        node = self._nodes.store.get(key)
        return None if node is None or self._owner(node) is not None or self._is_of_another(node) else node

    # What Slurm says

    async def _say(self, key: Key, owner: NodeSet | None) -> float | None:
        """Write it, and keep the drains of people. Gives the seconds until there may be more to write."""
        node = self._nodes.store.get(key)
        if node is None or not _is_same(self._owner(node), owner):
            return None if node is None else 0.0
        member = self._member(node, owner)
        change = plan(node, member, now=datetime.now(UTC))
        # Forgotten there first and kept there last: whoever dies in between finds the Node to be right.
        cluster = None if member is None else cluster_key(member)
        if cluster is not None and (change.over or self._drains.taken_off(node, cluster=cluster)):
            await self._drains.forget(key.name, cluster=cluster)
        if change:
            try:
                node = await self._nodes.patch(key, Strategic(body(node, change)), status=True)
            except NotFound:  # gone with all that was on it
                return None
        if cluster is not None and (line := keptdrains.on_node(node.metadata.annotations, str(cluster))):
            await self._drains.keep(node, line, cluster=cluster)
        await self._drains.follow(node, member_of=cluster)
        return change.wait

    # Whose it is

    def itself(self, node: Node) -> tuple[Key, ...]:
        return (node.key,) if carries(node) or self._drains.concern(node) else ()

    def marked(self, owner: NodeSet) -> tuple[Node, ...]:
        """Nodes that carry the claim of a NodeSet, or its labels."""
        marks = {owner.metadata.uid, str(owner.key)}
        return tuple(node for node in self._nodes.store.all() if marked_by(node) in marks)

    def _is_of_another(self, node: Node) -> bool:
        return bool(marked_by(node)) and not self._sets.covers(node.metadata.labels.get(names.NAMESPACE, ""))

    def _owner(self, node: Node) -> NodeSet | None:
        claim, label = claim_of(node), node.metadata.labels.get
        if claim:
            return next(iter(self._sets.by("uid", claim)), None)
        if not label(names.NODESET):
            return None
        # Somebody has taken the claim off. The NodeSet controller puts it back, or takes the labels off too.
        return self._sets.get(Key(label(names.NAMESPACE, ""), label(names.NODESET, "")))

    def _member(self, node: Node, owner: NodeSet | None) -> Ownership | None:
        if owner is None:
            return None
        at = owner.metadata
        cluster = keptdrains.cluster(namespace=at.namespace, name=owner.spec.cluster)
        found = self._drains.line(node, cluster=Key(at.namespace, owner.spec.cluster))
        return Ownership(cluster=cluster, pod=self._pod(node, owner), kept_drain=found)

    def _pod(self, node: Node, owner: NodeSet) -> Pod | None:
        name = node.metadata.labels.get(names.POD, "")
        pod = self._pods.store.get(Key(owner.metadata.namespace, name))
        return pod if pod is not None and is_compute(pod) and owner_uid(pod) == owner.metadata.uid else None


def _its_node(pod: Pod | None) -> tuple[str, ...]:
    return () if pod is None else by_compute(pod)


def _asks(pod: Pod | None) -> tuple[str | None, str | None]:
    """All that a lock depends on."""
    if pod is None:
        return None, None
    said = condition(pod.status.conditions, names.SLURM_RUNNING)
    return pod.metadata.annotations.get(names.LOCK_REQUEST), None if said is None else said.status


def _concerns(before: NodeSet, after: NodeSet | None) -> bool:
    """Whether the Nodes of a set have to be looked at: it is gone, or it shares them with other work in another way."""
    return after is None or not _is_same(before, after) or before.spec.sharing != after.spec.sharing


def _is_same(one: NodeSet | None, other: NodeSet | None) -> bool:
    return one is other or (one is not None and other is not None and one.metadata.uid == other.metadata.uid)


def cluster_key(member: Ownership) -> Key:
    namespace, _, name = member.cluster.partition("/")
    return Key(namespace, name)


def _nobody(_: Record) -> tuple[Key, ...]:
    return ()
