"""The only module of the fake kubelet that writes Nodes and Pods: it asks what to do and does that."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from sunk.kube.api import subresource
from sunk.kube.api.client import Client, Deletion, Preconditions
from sunk.kube.api.patch import Strategic
from sunk.kube.core import LEASES, NODES, PODS, Node, Pod
from sunk.kube.errors import AlreadyExists, Conflict, NotFound
from sunk.kube.resource import Key, R, Resource
from sunk.local.fakekubelet import nodes, pods
from sunk.local.fakekubelet.behaviour import BadAnnotation, Behaviour, overridden
from sunk.local.fakekubelet.binding import fits, pinned
from sunk.local.fakekubelet.settings import FLEET, Settings
from sunk.local.fakekubelet.state import FleetState, PodState
from sunk.model import loopclock
from sunk.model.refusal import Refusal

log = logging.getLogger(__name__)

STEPS_AT_ONCE: Final = 8
"""A Pod takes three at most. More mean that somebody undoes what we write, and then we go slowly."""


class KubeletActions:
    def __init__(self, client: Client, settings: Settings, state: FleetState) -> None:
        self._client = client
        self._settings = settings
        self._state = state

    async def register(self, number: int) -> Node:
        """Create a Node, or find it created by an earlier try; one of somebody else's is left alone."""
        name = self._settings.name_of(number)
        try:
            return await self._client.create(NODES, nodes.body(self._settings, number, wall=_wall()))
        except AlreadyExists:
            node = await self._client.get(NODES, name)
        if node.metadata.labels.get(FLEET) != self._settings.fleet:
            raise Refusal(f'Node "{name}" does not belong to this fleet: delete it or rename the fleet')
        return node

    async def tend_node(self, name: str) -> None:
        """Make a Node's status say what its kubelet would say."""
        node = self._state.nodes.get(name)
        if node is None:
            return
        behaviour = self.node_behaviour(node)
        address = self._state.address_for(node, settings=self._settings)
        status = nodes.plan(node, settings=self._settings, behaviour=behaviour, address=address, wall=_wall())
        if status is None:
            return
        body = {"metadata": {"uid": node.metadata.uid}, "status": status}
        with suppress(NotFound):
            self._state.see_node(await self._client.patch(NODES, name, Strategic(body), subresource="status"))

    async def tend_pod(self, key: Key) -> float | None:
        """Take every step that is due for a Pod; return when the next one is."""
        for _ in range(STEPS_AT_ONCE):
            known = self._state.pods.get(key)
            step = self._plan(known) if known else None
            match step:
                case pods.Wait(until):
                    return until
                case pods.Admit():
                    self._state.admit(key, clock=_clock())
                case pods.ReportStatus(status) if known:
                    await self._report(known.pod, status)
                case pods.RemovePod() if known:
                    await self._remove(known.pod)
                    return None  # what remains of it, if finalizers hold it, the watch will say
                case _:
                    return None
        return _clock() + 1.0

    async def bind(self, key: Key) -> None:
        """Bind a Pod to the Node that it is pinned to, if it would be let onto it; else its Node's news ask again."""
        pod = self._state.waiting.get(key)
        node = self._state.nodes.get(pinned(pod)) if pod else None
        if pod is None or node is None or not fits(pod, node):
            return
        with suppress(NotFound, Conflict):  # gone, or bound by somebody else, or another has taken its name
            await subresource.bind(self._client, key, uid=pod.metadata.uid, node=node.metadata.name)
        self._state.forget_waiting(pod)

    def node_behaviour(self, node: Node) -> Behaviour:
        """Read how a Node itself behaves. That it should not be ready is not about its Pods, and theirs not about it."""
        usual = replace(self._settings.behaviour, ready=True)
        try:
            return overridden(usual, node.metadata.annotations)
        except BadAnnotation as bad:
            log.error("Node %s: %s", node.metadata.name, bad)  # noqa: TRY400 - it is a user's typo
            return usual

    async def clear(self) -> None:
        """Take the fleet away: its Pods without grace, for nobody is left to stop them, then leases and Nodes.

        Each by a request of its own: the server works off the deletion of a whole collection one by one as well, but
        in a single request that outlasts every patience. Left to the garbage collector, leases would take minutes.
        """
        keys = [key for name in self._state.nodes for key in self._state.by_node.get(name, ())]
        await self._delete_all(PODS, keys)
        await self._delete_all(LEASES, [Key(nodes.LEASE_NAMESPACE, name) for name in self._state.nodes])
        await self._delete_all(NODES, [Key("", name) for name in self._state.nodes])

    async def _delete_all(self, resource: Resource[R], keys: Iterable[Key]) -> None:
        deleted = iter(keys)
        async with asyncio.TaskGroup() as group:
            for number in range(self._settings.workers):
                group.create_task(self._delete(resource, deleted), name=f"fake kubelet: clear {number}")

    async def _delete(self, resource: Resource[R], deleted: Iterator[Key]) -> None:
        for key in deleted:
            with suppress(NotFound):
                await self._client.delete(resource, key.name, Deletion(grace_period_seconds=0), namespace=key.namespace)

    def _plan(self, known: PodState) -> pods.Step:
        pod = known.pod
        node = self._state.nodes.get(pod.spec.node_name)
        host = self._state.host(pod.spec.node_name)
        if node is None or host is None:
            return None
        now = pods.Now(clock=_clock(), wall=_wall())
        return pods.plan(pod, host=host, behaviour=self._pod_behaviour(pod, node), times=known.times, now=now)

    def _pod_behaviour(self, pod: Pod, node: Node) -> Behaviour:
        usual = self._settings.behaviour
        try:
            here = replace(overridden(usual, node.metadata.annotations), ready=usual.ready)
            return overridden(here, pod.metadata.annotations)
        except BadAnnotation as bad:
            log.error("Pod %s on Node %s: %s", pod.key, node.metadata.name, bad)  # noqa: TRY400 - it is a user's typo
            return replace(usual, refuse="BadAnnotation")

    async def _report(self, pod: Pod, status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        patch = Strategic(body)
        namespace = pod.metadata.namespace
        try:
            written = await self._client.patch(
                PODS, pod.metadata.name, patch, namespace=namespace, subresource="status"
            )
        except NotFound:
            self._state.forget_pod(pod)
        else:
            self._state.see_pod(written, clock=_clock())

    async def _remove(self, pod: Pod) -> None:
        how = Deletion(grace_period_seconds=0, preconditions=Preconditions(uid=pod.metadata.uid))
        try:
            await self._client.delete(PODS, pod.metadata.name, how, namespace=pod.metadata.namespace)
        except (NotFound, Conflict):  # gone, or another has taken its name
            self._state.forget_pod(pod)


def _clock() -> float:
    return loopclock.now()


def _wall() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
