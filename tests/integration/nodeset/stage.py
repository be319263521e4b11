"""What tests of the NodeSet controller play with: a fleet of fake Nodes, the controller, and the hand of a syncer.

The controller is the operator's part itself, in this process, so that it can be killed at any await. The syncer does
not exist yet: what it is going to write into Pods and NodeSlices is written by the test, or by `Syncer` on its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, Self, TypeVar

from tests.conftest import Kube

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.exchange import Exchange, parts
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Stale
from sunk.kube.control.events import Recorder
from sunk.kube.core import NODES, PODS, Node, Pod, condition
from sunk.kube.errors import Conflict, NotFound
from sunk.kube.resource import Record, Resource
from sunk.kube.tasks import running
from sunk.local.fakekubelet import FLEET, FakeKubelet, NodeTraits, Settings, steer
from sunk.model import names
from sunk.model.contract import clearance
from sunk.model.nodeset import NODESET
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice
from sunk.operator.nodeset.act.batches import in_parallel
from sunk.operator.nodeset.controller import nodesets
from sunk.service.part import Build, Setting
from sunk.service.process import named

PATIENCE = 120.0
KUBERNETES = "node.kubernetes.io/"
T = TypeVar("T")


class Event(Record, frozen=True, gc=False):
    """An Event as people see it."""

    reason: str = ""
    note: str = ""
    type: str = ""


EVENTS = Resource(Event, group="events.k8s.io", version="v1", plural="events")


async def eventually(read: Callable[[], Awaitable[T]], holds: Callable[[T], bool], *, seconds: float = PATIENCE) -> T:
    """Read until it is so; fail with what was read last."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds(found := await read()):
        assert asyncio.get_running_loop().time() < deadline, f"still {found}"
        await asyncio.sleep(0.05)
    return found


class Operator:
    """The operator's part for NodeSets, or other parts, in one namespace. `writes` is what it has sent and got done."""

    def __init__(
        self, kube: Kube, *, namespaces: tuple[str, ...] = (), builds: tuple[Build, ...] = (nodesets,)
    ) -> None:
        self._kube = kube
        self._builds = builds
        self._namespaces = namespaces or (kube.namespace,)
        self._task: asyncio.Task[None] | None = None
        self._follows: dict[str, Collection[Any]] = {}
        self.leads = True
        self.writes: list[Exchange] = []
        self.times: list[float] = []
        self.tried: list[Exchange] = []

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    def start(self) -> None:
        assert self._task is None
        self._follows = {}
        self._task = asyncio.create_task(self._run(), name="operator")

    async def kill(self) -> None:
        """End it wherever it stands."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        reach = access.from_kubeconfig(self._kube.kubeconfig)
        async with (
            Client(reach, observe=self._observe) as client,
            Client(reach) as aside,
            Recorder(aside, reporter="sunk.coreweave.com/operator") as recorder,
        ):
            may_write = lambda: self.leads  # noqa: E731 - it is one
            setting = Setting(client, recorder, may_write, namespaces=self._namespaces, workers=4)
            parts = [build(setting) for build in self._builds]
            self._follows = named(parts)
            follows = {f"follow {name}": one.run() for name, one in self._follows.items()}
            controls = {f"control {one.name}": one.run() for part in parts for one in part.controllers}
            async with running(follows | controls):
                await asyncio.Event().wait()

    async def caught_up(self) -> None:
        """Have it know all that was written up to now.

        Its watches run at different speeds: it may hear of a later change of one kind before an earlier one of another.
        """

        async def follows() -> dict[str, Collection[Any]]:
            return self._follows

        for one in (await eventually(follows, bool)).values():
            await eventually(partial(_proven, one), bool)

    def _observe(self, exchange: Exchange) -> None:
        if exchange.method != "GET":
            self.tried.append(exchange)
            if 0 < exchange.code < 300:
                self.writes.append(exchange)
                self.times.append(asyncio.get_running_loop().time())

    def deleted(self) -> list[str]:
        """Pods that it has had deleted."""
        return [parts(one.path)[1] for one in self.writes if one.verb == "delete" and one.resource == "pods"]

    def sent(self, verb: str) -> list[float]:
        """When it has sent for Pods to be deleted, or created, the trial of the template included."""
        both = zip(self.writes, self.times, strict=True)
        return [when - one.seconds for one, when in both if one.verb == verb and one.resource == "pods"]

    async def answered(self, wanted: Callable[[list[Exchange]], bool]) -> None:
        """Wait for the answers to its writes: what they have changed can be read before it has heard of them itself."""

        async def writes() -> list[Exchange]:
            return self.writes

        await eventually(writes, wanted)

    async def has_deleted(self, count: int) -> list[str]:
        """Wait until it has had so many Pods deleted."""
        await self.answered(lambda _: len(self.deleted()) >= count)
        return self.deleted()

    def creations(self) -> int:
        """How often it has tried to create a Pod for good or on trial."""
        return sum(one.verb == "create" and one.resource == "pods" for one in self.tried)


class Stage:
    """One namespace, one fleet, and what tests do and ask."""

    def __init__(self, kube: Kube, kubelet: FakeKubelet) -> None:
        self.kube = kube
        self.client = kube.client
        self.namespace = kube.namespace
        self.kubelet = kubelet
        self.fleet = kubelet.settings.fleet
        self.nodes = [kubelet.settings.name_of(number) for number in range(kubelet.settings.nodes)]

    async def open(self) -> None:
        """Wait for Kubernetes to let Pods onto the Nodes: each is tainted at first, though it is ready."""

        async def tainted() -> list[str]:
            found = await self.client.list(NODES, Scope(labels=f"{FLEET}={self.fleet}"))
            fresh = [node for node in found.items if any(one.key.startswith(KUBERNETES) for one in node.spec.taints)]
            return [node.metadata.name for node in fresh]

        await eventually(tainted, lambda found: not found)

    async def close(self) -> None:
        """Let the NodeSets go though no operator is left to do it: a namespace that waits for them costs much CPU."""
        for one in (await self.client.list(NODESETS, Scope(namespace=self.namespace))).items:
            name = one.metadata.name
            with suppress(NotFound):
                await self.client.patch(
                    NODESETS, name, Merge({"metadata": {"finalizers": None}}), namespace=self.namespace
                )
                await self.client.delete(NODESETS, name, namespace=self.namespace)

    # NodeSets

    def template(self, *, pool: str = "", spec: Any = None, **annotations: str | None) -> dict[str, Any]:
        """A template for the Nodes of this fleet, or of one pool of it."""
        asked = [{"key": FLEET, "operator": "In", "values": [self.fleet]}]
        asked += [{"key": "pool", "operator": "In", "values": [pool]}] if pool else []
        required = {"nodeSelectorTerms": [{"matchExpressions": asked}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        slurmd = {"name": "slurmd", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        return {
            "metadata": {"annotations": annotations},
            "spec": {"affinity": affinity, "containers": [slurmd]} | (spec or {}),
        }

    async def create(
        self, name: str = "gpu", *, annotations: dict[str, str] | None = None, template: Any = None, **spec: Any
    ) -> NodeSet:
        body = {
            "apiVersion": NODESET.api_version,
            "kind": NODESET.name,
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"template": template or self.template()} | spec,
        }
        return await self.client.create(NODESETS, body, namespace=self.namespace)

    async def change(self, name: str = "gpu", **spec: Any) -> NodeSet:
        return await self.client.patch(NODESETS, name, Merge({"spec": spec}), namespace=self.namespace)

    async def annotate(self, name: str = "gpu", **marks: str | None) -> NodeSet:
        wanted = {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in marks.items()}
        patch = Merge({"metadata": {"annotations": wanted}})
        return await self.client.patch(NODESETS, name, patch, namespace=self.namespace)

    async def nodeset(self, name: str = "gpu") -> NodeSet:
        return await self.client.get(NODESETS, name, namespace=self.namespace)

    async def settled(self, ready: int, name: str = "gpu") -> NodeSet:
        """Wait until so many nodes are ready and nothing else is under way."""

        def holds(found: NodeSet) -> bool:
            told = found.status
            same = told.observed_generation == found.metadata.generation
            return same and told.number_ready == ready and told.members == ready and not says(found, "Progressing")

        return await eventually(lambda: self.nodeset(name), holds)

    async def told(self, kind: str, *, holds: bool, name: str = "gpu") -> str:
        """Wait until a condition says so; give its message."""

        def said(one: NodeSet) -> bool:
            return any(each.type == kind and each.status == str(holds) for each in one.status.conditions)

        return message(await eventually(lambda: self.nodeset(name), said), kind)

    async def events(self, reason: str) -> list[Event]:
        found = await self.client.list(EVENTS, Scope(namespace=self.namespace))
        return [one for one in found.items if one.reason == reason]

    async def event(self, reason: str) -> str:
        return (await eventually(lambda: self.events(reason), bool))[0].note

    # Members

    async def slices(self) -> list[NodeSlice]:
        found = await self.client.list(NODESLICES, Scope(namespace=self.namespace))
        return sorted(found.items, key=lambda one: one.metadata.name)

    async def entries(self) -> dict[str, Entry]:
        return {entry.name: entry for one in await self.slices() for entry in one.spec.entries}

    async def states(self) -> dict[str, str]:
        return {name: entry.state for name, entry in (await self.entries()).items()}

    async def pods(self) -> dict[str, Pod]:
        scope = Scope(namespace=self.namespace, labels=f"{names.COMPONENT}={names.COMPUTE}")
        return {pod.metadata.name: pod for pod in (await self.client.list(PODS, scope)).items}

    async def pod(self, name: str) -> Pod:
        return await self.client.get(PODS, name, namespace=self.namespace)

    async def running(self, name: str) -> Pod:
        async def read() -> Pod | None:
            with suppress(NotFound):
                return await self.pod(name)
            return None

        found = await eventually(read, lambda pod: pod is not None and pod.status.phase == "Running")
        assert found is not None
        return found

    async def marked(self) -> dict[str, str]:
        """Pods that have to go, and why."""
        pods = (await self.pods()).items()
        marks = {name: pod.metadata.annotations.get(names.PENDING_DELETION) for name, pod in pods}
        return {name: why for name, why in marks.items() if why}

    # Nodes

    async def refuse(self, name: str, why: str) -> None:
        """Have a Node refuse all Pods, and wait until its kubelet knows: it hears of Pods by another watch."""
        await steer(self.client, NODES, name, refuse=why)

        async def told() -> dict[str, str]:
            return self.kubelet.state.nodes[name].metadata.annotations

        await eventually(told, lambda found: why in found.values())

    async def node(self, name: str) -> Node:
        return await self.client.get(NODES, name)

    async def label(self, name: str, **labels: str | None) -> None:
        await self.client.patch(NODES, name, Merge({"metadata": {"labels": labels}}))

    async def cordon(self, name: str, *, on: bool = True) -> None:
        await self.client.patch(NODES, name, Merge({"spec": {"unschedulable": on or None}}))

    async def taint(self, name: str, key: str, *, effect: str = "NoSchedule", on: bool = True) -> None:
        """Put a taint or take it off, by a read and a write that depends on it."""
        while True:
            node = await self.node(name)
            others = [one for one in node.spec.taints if one.key != key]
            taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in others]
            taints += [{"key": key, "effect": effect}] if on else []
            version = {"resourceVersion": node.metadata.resource_version}
            with suppress(Conflict):
                await self.client.patch(NODES, name, Merge({"metadata": version, "spec": {"taints": taints}}))
                return

    async def add_node(self, name: str, *, address: str = "", **labels: str) -> Node:
        """A Node of the fleet, ready when this returns."""
        body: dict[str, Any] = {"metadata": {"name": name, "labels": {FLEET: self.fleet} | labels}}
        if address:
            where = [{"type": "InternalIP", "address": address}]
            size = {"cpu": "128", "memory": "1Ti", "pods": "250"}
            body["status"] = {"addresses": where, "capacity": size, "allocatable": size}
        await self.client.create(NODES, body)
        return await eventually(lambda: self.node(name), lambda node: says(node, "Ready") and not node.spec.taints)

    # The syncer's hand

    async def say(self, pod: str, **conditions: bool) -> None:
        """Write what Slurm says about a node: SlurmRunning, SlurmDrain."""
        said = [{"type": kind, "status": str(status)} for kind, status in conditions.items()]
        body = Strategic({"status": {"conditions": said}})
        await self.client.patch(PODS, pod, body, namespace=self.namespace, subresource="status")

    async def clear(self, pod: str) -> None:
        """Say that a node is drained and idle."""
        patch = Merge({"metadata": {"annotations": {names.CLEAR_TO_DELETE: clear_now(self.client)}}})
        await self.client.patch(PODS, pod, patch, namespace=self.namespace)

    async def release(self, *freed: str, refused: Iterable[tuple[str, str]] = ()) -> None:
        """Say that Slurm has no record of them any more, and which ones it does not let go."""
        for one in await self.slices():
            here = {entry.name for entry in one.spec.entries}
            status = {
                "released": [name for name in freed if name in here],
                "refused": [{"name": name, "reason": why} for name, why in refused if name in here],
            }
            patch = Merge({"status": status})
            await self.client.patch(
                NODESLICES, one.metadata.name, patch, namespace=self.namespace, subresource="status"
            )

    @asynccontextmanager
    async def syncer(self, *, pause: float = 0.02) -> AsyncIterator["Syncer"]:
        """A syncer that answers by itself for as long as the block lasts, after so many seconds."""
        syncer = Syncer(self.client, self.namespace, pause=pause)
        async with running(syncer.duties()):
            yield syncer


class Syncer:
    """Clears what has to go unless a job runs there, and releases what has gone. `answers` off: it is away."""

    def __init__(self, client: Client, namespace: str, *, pause: float) -> None:
        self._pause = pause
        self._client = client
        self._pods = Collection(client, PODS, Scope(namespace=namespace))
        self._slices = Collection(client, NODESLICES, Scope(namespace=namespace))
        self.answers = True

    def duties(self) -> dict[str, Any]:
        return {"pods": self._pods.run(), "slices": self._slices.run(), "answer": self._answer_for_ever()}

    async def _answer_for_ever(self) -> None:
        await self._pods.store.complete()
        await self._slices.store.complete()
        while True:
            if self.answers:  # what is refused is tried again
                await in_parallel(self._slices.store.all(), self._free)
                await in_parallel([pod for pod in self._pods.store.all() if _is_idle(pod)], self._clear, most=16)
            await asyncio.sleep(self._pause)

    async def _clear(self, pod: Pod) -> None:
        at = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        change = {"annotations": {names.CLEAR_TO_DELETE: clear_now(self._client)}}
        await self._pods.patch(pod.key, Merge({"metadata": at | change}))

    async def _free(self, one: NodeSlice) -> None:
        """Release exactly those that are leaving and have no Pod, by a fresh look at the latter."""
        leaving = [entry.name for entry in one.spec.entries if entry.state == "leaving"]
        there = {pod.metadata.name for pod in self._pods.store.all()}
        freed = tuple(name for name in leaving if name not in there)
        if freed != one.status.released:
            at = {"uid": one.metadata.uid, "resourceVersion": one.metadata.resource_version}
            await self._slices.patch(one.key, Merge({"metadata": at, "status": {"released": freed}}), status=True)


async def _proven(collection: Collection[Any]) -> bool:
    """Whether it is up to date. An API server that is starved may not answer in the time that there is for it."""
    with suppress(Stale):
        await collection.catch_up()
        return True
    return False


def clear_now(client: Client) -> str:
    """A clearance as the syncer would write it at this moment."""
    # A clock that was heard of once is known to a second, and an operator that has just begun believes nothing of before.
    return clearance.write("1:drained", read=client.clock.now() + timedelta(seconds=2))


def _is_idle(pod: Pod) -> bool:
    marks = pod.metadata.annotations
    return names.PENDING_DELETION in marks and names.CLEAR_TO_DELETE not in marks and not says(pod, "SlurmRunning")


def says(record: Any, kind: str) -> bool:
    found = condition(record.status.conditions, kind)
    return found is not None and found.status == "True"


def message(record: Any, kind: str) -> str:
    found = condition(record.status.conditions, kind)
    return "" if found is None else found.message


def fleet_of(kube: Kube, *, nodes: int = 3, traits: dict[int, NodeTraits] | None = None, **more: Any) -> Settings:
    """A fleet whose addresses lie in a network that follows from its name, as its Pods' names do not."""
    plain = Settings(nodes=nodes, fleet=kube.namespace, **more)
    by_name = {plain.name_of(number): trait for number, trait in (traits or {}).items()}
    return Settings(nodes=nodes, fleet=kube.namespace, traits=by_name, **more)
