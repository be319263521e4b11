"""The fake kubelet as one running whole: a few watches, two queues, and workers between them.

Leases have a queue and workers of their own, because they must go out in time whatever else happens: in one line
with all other work they would wait behind a burst of Pods until the node controller gives their Nodes up.
"""

import asyncio
import logging
from typing import Final, NoReturn

from msgspec import Struct

from sunk.kube.api.client import Client, Scope
from sunk.kube.cache.view import Changed, Deleted, Event, Synced
from sunk.kube.cache.watch import watch
from sunk.kube.core import NODES, PODS, Node, Pod
from sunk.kube.resource import Key
from sunk.local.fakekubelet.actions import KubeletActions
from sunk.local.fakekubelet.binding import UNBOUND_PODS, UnboundPod
from sunk.local.fakekubelet.leases import LeaseRenewer
from sunk.local.fakekubelet.queue import DueQueue
from sunk.local.fakekubelet.settings import FLEET, Settings
from sunk.local.fakekubelet.state import FleetState
from sunk.model import loopclock

log = logging.getLogger(__name__)

LEASE_WORKERS: Final = 4


class NewNode(Struct, frozen=True):
    number: int


class NodeWork(Struct, frozen=True):
    name: str


class PodWork(Struct, frozen=True):
    key: Key


class Binding(Struct, frozen=True):
    key: Key


Work = NewNode | NodeWork | PodWork | Binding


class FakeKubelet:
    """Kubelet of every Node of one fleet. `run` it in a task; `ready` is set once all its Nodes are registered."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.settings = settings
        self.ready = asyncio.Event()
        self.state = FleetState()
        self._client = client
        self._actions = KubeletActions(client, settings, self.state)
        self._leases = LeaseRenewer(client, settings)
        self._work: DueQueue[Work] = DueQueue()
        self._renewals: DueQueue[str] = DueQueue()
        self._listed = (asyncio.Event(), asyncio.Event())
        self._unborn: set[int] = set()

    async def run(self) -> NoReturn:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_nodes(), name="fake kubelet: watch Nodes")
                group.create_task(self._watch_pods(), name="fake kubelet: watch Pods")
                if self.settings.binds:
                    group.create_task(self._watch_waiting(), name="fake kubelet: watch Pods that wait")
                for listed in self._listed:
                    await listed.wait()
                self._register_missing()
                for number in range(self.settings.workers):
                    group.create_task(self._work.serve(self._look), name=f"fake kubelet: worker {number}")
                for number in range(LEASE_WORKERS):
                    group.create_task(self._renewals.serve(self._beat), name=f"fake kubelet: leases {number}")
        finally:
            self._work.close()
            self._renewals.close()
        raise AssertionError("endless tasks have ended")

    async def clear(self) -> None:
        """Take the fleet away again; call it when `run` has been cancelled."""
        await self._actions.clear()

    def statistics(self) -> dict[str, int]:
        return {
            "nodes": len(self.state.nodes),
            "pods": len(self.state.pods),
            "unregistered": len(self._unborn),
            "work": len(self._work),
            "leases due": len(self._renewals),
            "renewals": self._leases.renewals,
        }

    async def _watch_nodes(self) -> None:
        async with watch(self._client, NODES, Scope(labels=f"{FLEET}={self.settings.fleet}")) as events:
            async for event in events:
                self._on_node(event)

    async def _watch_pods(self) -> None:
        async with watch(self._client, PODS, Scope(fields="spec.nodeName!=")) as events:
            async for event in events:
                self._on_pod(event)

    async def _watch_waiting(self) -> None:
        async with watch(self._client, UNBOUND_PODS, Scope(fields="spec.nodeName=")) as events:
            async for event in events:
                self._on_waiting(event)

    def _on_node(self, event: Event[Node]) -> None:
        match event:
            case Changed(node):
                self._see_node(node)
            case Deleted(node):
                # As a real kubelet, which registers at its start only and does not argue with who deletes its Node.
                self.state.forget_node(node.metadata.name)
                self._renewals.forget(node.metadata.name)
                self._leases.forget(node.metadata.name)
            case Synced():
                self._listed[0].set()

    def _see_node(self, node: Node) -> None:
        name = node.metadata.name
        self._work.add(NodeWork(name))
        for key in self.state.pinned_to.get(name, ()):
            self._work.add(Binding(key))
        if self.state.see_node(node):
            self._renewals.add(name)
            for key in self.state.by_node.get(name, ()):
                self._work.add(PodWork(key))

    def _on_pod(self, event: Event[Pod]) -> None:
        match event:
            case Changed(pod):
                news = self.state.see_pod(pod, clock=loopclock.now())
                if news and pod.spec.node_name in self.state.nodes:
                    self._work.add(PodWork(pod.key))
            case Deleted(pod):
                self.state.forget_pod(pod)
                self._work.forget(PodWork(pod.key))
            case Synced():
                self._listed[1].set()

    def _on_waiting(self, event: Event[UnboundPod]) -> None:
        match event:
            case Changed(pod):
                if self.state.see_waiting(pod):
                    self._work.add(Binding(pod.key))
            case Deleted(pod):  # or bound: then it is no longer among those that wait
                self.state.forget_waiting(pod)

    def _register_missing(self) -> None:
        settings = self.settings
        self._unborn = {n for n in range(settings.nodes) if settings.name_of(n) not in self.state.nodes}
        for number in sorted(self._unborn):
            self._work.add(NewNode(number))
        self._tell_ready()

    async def _look(self, work: Work) -> float | None:
        match work:
            case PodWork(key):
                return await self._actions.tend_pod(key)
            case Binding(key):
                await self._actions.bind(key)
            case NodeWork(name):
                await self._actions.tend_node(name)
            case NewNode(number):
                self._see_node(await self._actions.register(number))
                self._unborn.discard(number)
                self._tell_ready()
        return None

    def _tell_ready(self) -> None:
        if not self._unborn and not self.ready.is_set():
            log.info("fleet %s: %d Nodes are registered", self.settings.fleet, len(self.state.nodes))
            self.ready.set()

    async def _beat(self, name: str) -> float | None:
        node = self.state.nodes.get(name)
        if node is None or self._actions.node_behaviour(node).silent:
            return None
        return await self._leases.renew(node.metadata)
