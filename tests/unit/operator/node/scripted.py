"""One Node, its compute Pod and others beside it, and the control of its lock between them.

`World` is what an API server would have: it applies patches, refuses those of another version, and lets something happen
before each request. The caches hear of it when `deliver` is called, as by a watch that may be late.
"""

import copy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from sunk.kube.api.client import Client, Listing, Scope
from sunk.kube.api.patch import Json
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.cache.store import Store
from sunk.kube.cache.view import Changed, Deleted, Synced
from sunk.kube.control.events import Recorder
from sunk.kube.core import NODES, Node, Pod
from sunk.kube.errors import Conflict, Invalid, NotFound, Status
from sunk.kube.resource import Key, R, Resource
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import LockAnswer, LockRequest
from sunk.model.nodeset import NODESET
from sunk.operator.caches import shared_caches
from sunk.operator.lockmetrics import LockMetrics, lock_metrics
from sunk.operator.node.lock import is_tainted
from sunk.operator.node.lockcontrol import LockControl, LockProgress, LockSubject
from sunk.operator.node.tenants import Tenant, in_the_way
from sunk.service.part import Setting

NODE, COMPUTE = "node-1", "gpu-1"
NOWHERE = Access(server="http://nowhere.invalid", tls=None, credentials=Nobody())
OWNER = {"apiVersion": NODESET.api_version, "kind": NODESET.name, "name": "gpu", "uid": "set", "controller": True}
STARTED = datetime(2026, 11, 18, 10, tzinfo=UTC)


class World(Client):
    """The server's side."""

    def __init__(self) -> None:
        super().__init__(NOWHERE)
        self.version = 0
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.steps: list[str] = []
        self.locked_beside: list[tuple[str, ...]] = []
        """Who was in the way whenever the Node was said to be locked."""
        self.meanwhile: Callable[[str], None] = lambda _: None
        """What happens just before a request is served."""
        self.drops_taints = False

    # What others do

    def put_node(self, *, uid: str = "node", **meta: Any) -> None:
        self.nodes[NODE] = self._new({"name": NODE, "uid": uid} | meta, {"spec": {}})

    def put_pod(self, name: str = COMPUTE, *, uid: str = "", **meta: Any) -> None:
        owned = {"ownerReferences": [OWNER]} if name == COMPUTE else {}
        metadata = {"name": name, "namespace": "team", "uid": uid or name, "annotations": {}} | owned | meta
        running = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
        self.pods[name] = self._new(metadata, {"spec": {"nodeName": NODE}, "status": running})

    def remove_pod(self, name: str) -> None:
        self.version += 1
        self.pods.pop(name, None)

    def ask(self, request: LockRequest, *, running: str = "", since: datetime = STARTED) -> None:
        """Write the request and the condition in one patch, as the syncer does."""
        pod = self.touch(self.pods[COMPUTE])
        pod["metadata"]["annotations"][names.LOCK_REQUEST] = lock.write(request)
        said = {"type": names.SLURM_RUNNING, "status": running, "lastTransitionTime": since}
        pod["status"]["conditions"] = [said] if running else []

    def touch(self, tree: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        tree["metadata"]["resourceVersion"] = str(self.version)
        return tree

    def _new(self, metadata: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
        return self.touch({"metadata": metadata} | rest)

    # What it is asked

    async def list(self, resource: Resource[Any], scope: Any = None, **_: Any) -> Any:
        assert isinstance(scope, Scope)
        field, value = scope.fields.split("=")
        self.steps.append(f"list {resource.plural} by {field}")
        self.meanwhile(self.steps[-1])
        trees = self.nodes if resource is NODES else self.pods
        found = [tree for tree in trees.values() if value in {tree["metadata"]["name"], tree["spec"].get("nodeName")}]
        items = tuple(msgspec.convert(tree, resource.record) for tree in found)
        return Listing(items, resource_version=str(self.version))

    async def patch(self, resource: Resource[Any], name: str, patch: Any, **_: Any) -> Any:
        assert isinstance(patch, Json)
        assert resource is NODES
        self.meanwhile(f"patch {name}")
        if name not in self.nodes:
            raise NotFound(Status(code=404), asked=f"PATCH {name}")
        before = self.nodes[name]
        after = applied(before, msgspec.to_builtins(patch.body))
        if after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise Conflict(Status(code=409), asked=f"PATCH {name}")
        if self.drops_taints:
            after["spec"]["taints"] = []
        self.nodes[name] = self.touch(after)
        self.steps.append(self._told(self.nodes[name]))
        return msgspec.convert(self.nodes[name], Node)

    def _told(self, tree: dict[str, Any]) -> str:
        node = msgspec.convert(tree, Node)
        answer = lock.answer(node.metadata.annotations)
        if answer is None or answer == LockAnswer():
            return "wiped"
        if answer.state in lock.HELD:
            self.locked_beside.append(self.in_the_way())
        return f"{answer.state} {answer.number}{' tainted' * is_tainted(node)}"

    def in_the_way(self) -> tuple[str, ...]:
        """Whoever the lock has to wait for, as everything is at this moment."""
        compute = self.pods[COMPUTE]["metadata"]
        request = lock.read(compute["annotations"].get(names.LOCK_REQUEST)) or LockRequest()
        tenants = [msgspec.convert(tree, Tenant) for tree in self.pods.values()]
        found = in_the_way(tenants, request, compute=compute["uid"], strict=request.strict)
        return tuple(pod.metadata.name for pod in found)


def applied(tree: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """What a JSON patch makes of an object; Invalid if it does not fit."""
    made = copy.deepcopy(tree)
    for one in operations:
        *path, last = (part.replace("~1", "/") for part in one["path"].split("/")[1:])
        at: Any = made
        for part in path:
            at = at.get(part) if isinstance(at, dict) else None
        fits = at is not None and (one["op"] == "add" or (last in at if isinstance(at, dict) else int(last) < len(at)))
        if not fits or (one["op"] == "test" and at[last] != one["value"]):
            raise Invalid(Status(code=422), asked=str(one))
        _apply(at, last, one)
    return made


def _apply(at: Any, last: str, one: dict[str, Any]) -> None:
    match one["op"], at:
        case "remove", list():
            del at[int(last)]
        case "remove", _:
            del at[last]
        case "add", list():
            at.append(one["value"])
        case (("add" | "replace"), _):
            at[last] = one["value"]


class Scene:
    """The world, the caches of it, and the control of the lock. To be made in a running loop and closed."""

    def __init__(self, *, linger: float = 10.0, slurm_only: bool = False) -> None:
        self.world = World()
        recorder = Recorder(self.world, reporter="test", instance="test")
        self.recorder = recorder
        self._setting = Setting(client=self.world, recorder=recorder, may_write=lambda: True)
        self._linger = linger
        self._slurm_only = slurm_only
        self.shared = self._setting.once(shared_caches)
        self.metrics: LockMetrics = self._setting.once(lock_metrics)
        self.restart()
        for collection in (self.shared.nodes, self.shared.pods):
            collection.store.take(Synced(), version="")
        self.world.put_node()
        self.world.put_pod()
        self.deliver()

    async def close(self) -> None:
        await self.world.close()

    def restart(self) -> None:
        """Begin with nothing remembered, as a process does."""
        self.control = LockControl(self._setting, self.shared, linger=self._linger, metrics=self.metrics)

    def deliver(self) -> None:
        """Have the caches know all."""
        _deliver(self.shared.nodes.store, self.world.nodes, Node, version=str(self.world.version))
        _deliver(self.shared.pods.store, self.world.pods, Pod, version=str(self.world.version))

    async def follow(self) -> LockProgress:
        return await self.control.follow(self._read)

    async def leave(self) -> LockProgress:
        return await self.control.leave(lambda: self.shared.nodes.store.get(Key("", NODE)))

    def _read(self) -> LockSubject | None:
        node = self.shared.nodes.store.get(Key("", NODE))
        pod = self.shared.pods.store.get(Key("team", COMPUTE))
        return None if node is None else LockSubject(node, pod, slurm_only=self._slurm_only)

    # What is seen

    @property
    def node(self) -> Node:
        return msgspec.convert(self.world.nodes[NODE], Node)

    @property
    def answer(self) -> LockAnswer | None:
        return lock.answer(self.node.metadata.annotations)

    def notes(self) -> Iterator[str]:
        """Events that were told and not yet written."""
        for matter in self.recorder._unwritten:  # noqa: SLF001 - nobody writes them here
            yield f"{matter.reason}: {matter.note}"

    def count(self, name: str, **labels: str) -> float:
        registry = CollectorRegistry()
        registry.register(self.metrics)
        return registry.get_sample_value(f"sunk_operator_{name}", labels) or 0.0


def _deliver(store: Store[R], trees: dict[str, dict[str, Any]], kind: type[R], *, version: str) -> None:
    for record in [one for one in store.all() if one.metadata.name not in trees]:
        gone = replace(record.metadata, resource_version=version)
        store.take(Deleted(replace(record, metadata=gone)), version=version)
    store.take(*(Changed(msgspec.convert(tree, kind)) for tree in trees.values()), version=version)


def idle_for(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)
