"""The shell of the fake kubelet: it watches, asks the pure parts what to do, and does it.

Two agendas with workers of their own. Leases must go out in time whatever else happens, so that they never stand in
line behind a burst of Pods. All other work is keyed by object: a worker looks at the newest that is known of it, takes
one step, takes in the answer, and looks again until there is nothing left to do but wait.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime
from typing import NoReturn, TypeVar

from msgspec import Struct

from sunk.kube.client import Client, Deletion, Preconditions, Scope
from sunk.kube.core import LEASES, NODES, PODS, Node, Pod
from sunk.kube.errors import AlreadyExists, KubeError, NotFound
from sunk.kube.patch import Strategic
from sunk.kube.resource import Key
from sunk.kube.view import Changed, Deleted, Event, Synced
from sunk.kube.watch import watch
from sunk.local.fakekubelet import nodes, pods, reports
from sunk.local.fakekubelet.agenda import Agenda
from sunk.local.fakekubelet.memory import Known, Memory
from sunk.local.fakekubelet.pods import Admit, Now, Remove, Report, Step, Wait
from sunk.local.fakekubelet.pulse import Pulse
from sunk.local.fakekubelet.settings import FLEET, Settings
from sunk.local.fakekubelet.steering import BadAnnotation, Habits, overridden
from sunk.model.refusal import Refusal

log = logging.getLogger(__name__)

LEASE_WORKERS = 4
RETRY = 0.5
RETRY_MOST = 10.0

K = TypeVar("K", bound=Hashable)


class NodeWork(Struct, frozen=True):
    name: str


class PodWork(Struct, frozen=True):
    key: Key


class NewNode(Struct, frozen=True):
    number: int


Work = NodeWork | PodWork | NewNode


class FakeKubelet:
    """Kubelet of all Nodes of one fleet. `run` it in a task; `ready` is set once every Node is registered."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.settings = settings
        self.ready = asyncio.Event()
        self.memory = Memory()
        self._client = client
        self._pulse = Pulse(client, settings)
        self._work: Agenda[Work] = Agenda()
        self._beats: Agenda[str] = Agenda()
        self._failures: dict[Work | str, int] = {}
        self._synced = [asyncio.Event(), asyncio.Event()]
        self._unborn: set[str] = set()

    async def run(self) -> NoReturn:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_nodes(), name="fake kubelet: watch nodes")
                group.create_task(self._watch_pods(), name="fake kubelet: watch pods")
                for synced in self._synced:
                    await synced.wait()
                self._register()
                for number in range(self.settings.workers):
                    group.create_task(self._serve(self._work, self._do), name=f"fake kubelet: worker {number}")
                for number in range(LEASE_WORKERS):
                    group.create_task(self._serve(self._beats, self._beat), name=f"fake kubelet: leases {number}")
        finally:
            self._work.close()
            self._beats.close()
        raise AssertionError("a group of endless tasks has ended")

    async def clear(self) -> None:
        """Take the fleet away: Pods at once, then Nodes and leases, each by as few requests as there are kinds."""
        for name in self.memory.nodes:
            for key in tuple(self.memory.by_node.get(name, ())):
                await self._delete_now(key)
        ours = f"{FLEET}={self.settings.fleet}"
        await self._client.delete_all(NODES, Scope(labels=ours))
        await self._client.delete_all(LEASES, Scope(namespace=nodes.LEASE_NAMESPACE, labels=ours))

    async def _delete_now(self, key: Key) -> None:
        try:
            await self._client.delete(PODS, key.name, Deletion(grace_period_seconds=0), namespace=key.namespace)
        except NotFound:
            pass

    # What is read

    async def _watch_nodes(self) -> None:
        async with watch(self._client, NODES, Scope(labels=f"{FLEET}={self.settings.fleet}")) as events:
            async for event in events:
                self._on_node(event)

    async def _watch_pods(self) -> None:
        async with watch(self._client, PODS, Scope(fields="spec.nodeName!=")) as events:
            async for event in events:
                self._on_pod(event)

    def _on_node(self, event: Event[Node]) -> None:
        match event:
            case Changed(node):
                name = node.metadata.name
                if self.memory.see_node(node):
                    self._beats.add(name)
                    for key in self.memory.by_node.get(name, ()):
                        self._work.add(PodWork(key))
                self._work.add(NodeWork(name))
            case Deleted(node):
                # As a real kubelet: it registers at its start only, and does not argue with who deletes its Node.
                self.memory.forget_node(node.metadata.name)
                self._beats.forget(node.metadata.name)
                self._pulse.forget(node.metadata.name)
            case Synced():
                self._synced[0].set()

    def _on_pod(self, event: Event[Pod]) -> None:
        match event:
            case Changed(pod):
                if self.memory.see_pod(pod, clock=_clock()) and pod.spec.node_name in self.memory.nodes:
                    self._work.add(PodWork(pod.key))
            case Deleted(pod):
                self.memory.forget_pod(pod)
                self._work.forget(PodWork(pod.key))
            case Synced():
                self._synced[1].set()

    # What is done

    def _register(self) -> None:
        for number in range(self.settings.nodes):
            name = self.settings.name_of(number)
            if name not in self.memory.nodes:
                self._unborn.add(name)
                self._work.add(NewNode(number))
        self._note_born("")

    async def _serve(self, agenda: Agenda[K], act: Callable[[K], Awaitable[None]]) -> NoReturn:
        while True:
            key = await agenda.take()
            try:
                await act(key)
                self._failures.pop(key, None)
            except KubeError as error:
                agenda.add(key, at=_clock() + self._patience(key, error))
            finally:
                agenda.put_down(key)
