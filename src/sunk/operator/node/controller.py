"""The Node controller: one look at a Node, its NodeSet and its Pod, and at most one write.

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
from sunk.kube.core import Node, Pod
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key, Record
from sunk.model import names
from sunk.model.contract import keptdrains
from sunk.objects.nodesets import NodeSet, claim_of, marked_by, owner_uid
from sunk.operator.caches import SharedCaches, by_compute, is_compute, shared_caches
from sunk.operator.keptdrains import KeptDrains, kept_drains
from sunk.operator.node.plan import Ownership, body, carries, plan
from sunk.service.part import Part, Setting

LATELY: Final = 5.0
"""Seconds. A NodeSet is believed to be gone if a look that is not older has not shown it."""


def nodes(setting: Setting) -> Part:
    """Build the part of the operator that writes on Nodes what Slurm says."""
    shared = setting.once(shared_caches)
    drains = setting.once(kept_drains)
    reconciler = NodeReconciler(shared, drains)
    sources: list[Source[Any, Key]] = [
        Source(shared.nodes.store, reconciler.itself),
        Source(shared.pods.store, _its_node),
    ]
    ours: tuple[Collection[Any], ...] = (*shared.sets.collections, *drains.collections)
    sources += [Source(one.store, _nobody) for one in ours]
    effort = Effort(workers=setting.workers)
    controller: Controller[Key] = Controller("nodes", reconciler.reconcile, sources=sources, effort=effort)

    def gone(_: Key, before: NodeSet | None, after: NodeSet | None) -> None:
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            for node in reconciler.marked(before):
                controller.enqueue(node.key)

    for one in shared.sets.collections:
        one.store.subscribe(gone)
    drains.subscribe(lambda node: controller.enqueue(Key("", node)))
    return Part("nodes", follows=(shared.nodes, shared.pods, *ours), controllers=(controller,))


class NodeReconciler:
    """Brings one Node at a time to what it should say."""

    def __init__(self, shared: SharedCaches, drains: KeptDrains) -> None:
        self._drains = drains
        self._nodes = shared.nodes
        self._pods = shared.pods
        self._sets = shared.sets

    async def reconcile(self, key: Key) -> Requeue | None:
        node = self._nodes.store.get(key)
        if node is None:
            return None
        if not carries(node) or self._is_of_another(node):
            await self._drains.follow(node, member_of=None)
            return None
        owner = self._owner(node)
        if owner is None and marked_by(node):
            for one in self._sets.collections:
                await one.catch_up(within=LATELY)
            if self._owner(node) or self._nodes.store.get(key) is not node:
                return Requeue(after=0)
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
        return None if change.wait is None else Requeue(after=change.wait)

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


def _its_node(pod: Pod) -> tuple[Key, ...]:
    return tuple(Key("", name) for name in by_compute(pod))


def cluster_key(member: Ownership) -> Key:
    namespace, _, name = member.cluster.partition("/")
    return Key(namespace, name)


def _nobody(_: Record) -> tuple[Key, ...]:
    return ()
