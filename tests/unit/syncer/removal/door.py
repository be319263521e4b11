"""A guard between two scripted sides that write down, in one list, what they are asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import convert
from msgspec.structs import replace
from tests.unit.syncer.builders import HERE
from tests.unit.syncer.scripted import NOWHERE, Slurm, Stage
from tests.unit.syncer.stores import complete, newest

from sunk.kube.api.client import Client, Listing
from sunk.kube.cache.store import Store
from sunk.kube.errors import Conflict, NotFound, Status
from sunk.kube.resource import Key, Resource
from sunk.model import hostlist
from sunk.model.nodeslice import NodeSliceStatus
from sunk.objects.nodesets import NODESETS, NODESLICES
from sunk.slurm.errors import SlurmError
from sunk.slurm.records import Node, Table, Tables
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.pods import COMPUTE_PODS, ComputePod
from sunk.syncer.removal.blockers import drain_blocker
from sunk.syncer.removal.guard import DeletedRecords, Guard


class ScriptedKube(Client):
    """An API server that has these Pods, and writes down what it is asked."""

    pods: dict[str, ComputePod]
    steps: list[str]
    patches: list[dict[str, Any]]
    refusals: Iterator[Exception]
    meanwhile: Callable[[], Awaitable[None]]
    """What happens while it is asked."""
    stores: dict[Resource[Any], Store[Any]]

    async def get(self, resource: Resource[Any], name: str, **_: Any) -> Any:
        self.steps.append(f"get {name}")
        await self.meanwhile()
        if name not in self.pods:
            raise NotFound(Status(code=404), asked=f"{resource.plural} {name}")
        return self.pods[name]

    async def list(self, resource: Resource[Any], *scope: Any, **_: Any) -> Any:
        """One Pod if its name is given, as `Collection.confirm` does."""
        _, _, name = scope[0].fields.partition("metadata.name=")
        self.steps.append(f"list {resource.plural} {name}".rstrip())
        await self.meanwhile()
        stored = self.pods.values() if resource is COMPUTE_PODS else self.stores[resource].all()
        found = (record for record in stored if name in {"", record.metadata.name})
        return Listing(tuple(found), resource_version=newest())

    async def patch(self, resource: Resource[Any], name: str, patch: Any, **where: Any) -> Any:
        self.steps.append(f"patch {resource.plural}/{name}")
        assert where["subresource"] == "status"
        if (refusal := next(self.refusals, None)) is not None:
            self.pods[name] = newer(self.pods[name])
            raise refusal
        self.patches.append(patch.body)
        return (
            self._patched_pod(name, patch.body) if resource is COMPUTE_PODS else self._patched_slice(name, patch.body)
        )

    def _patched_pod(self, name: str, body: dict[str, Any]) -> ComputePod:
        metadata = self.pods[name].metadata
        merged = {**metadata.annotations, **body["metadata"]["annotations"]}
        kept = {key: value for key, value in merged.items() if value is not None}
        self.pods[name] = newer(replace(self.pods[name], metadata=replace(metadata, annotations=kept)))
        return self.pods[name]

    def _patched_slice(self, name: str, body: dict[str, Any]) -> Any:
        stored = self.stores[NODESLICES].get(Key(HERE, name))
        assert stored is not None
        return newer(replace(stored, status=convert(body["status"], NodeSliceStatus)))


class WatchedSlurm(Slurm):
    """Writes down in the same list what it is asked."""

    steps: list[str]
    during_order: Callable[[], None]
    """What happens while rows are read for an order."""
    busy: frozenset[str] = frozenset()
    """Nodes that it does not delete."""

    async def all_nodes(self) -> Table[Node]:
        table = await super().all_nodes()
        self.during_order()
        return table

    async def everything(self, since: Any) -> Tables:
        if not any(since.values()):
            self.steps.append("read Slurm")
        return await super().everything(since)

    def delete_nodes(self, names: str) -> None:
        self.steps.append(f"delete {names}")
        if self.busy & set(hostlist.expand(names)):
            raise SlurmError(2061, asked=f"delete {names}")
        super().delete_nodes(names)


class Door:
    """Both sides, the guard between them, and what was asked."""

    def __init__(self, *rows: Any, pods: tuple[ComputePod, ...] = ()) -> None:
        self.slurm, self.kube = WatchedSlurm(*rows), ScriptedKube(NOWHERE)
        self.steps: list[str] = []
        self.slurm.steps = self.kube.steps = self.steps
        self.kube.patches, self.kube.refusals = [], iter(())
        self.kube.meanwhile, self.slurm.during_order = _nothing, lambda: None
        self.kube.pods = {pod.metadata.name: newer(pod) for pod in pods}
        self.stage = Stage(self.slurm, client=self.kube)
        self.context = replace(self.stage.context, may_write=self._may_write)
        self.kube.stores = {NODESLICES: self.context.slices.store, NODESETS: self.context.sets.store}
        self.jobs_by_node = JobsByNode(self.context.mirror.jobs)
        self.guard = Guard(self.context, self.jobs_by_node)
        self.stage.put(*self.kube.pods.values())

    def _may_write(self) -> bool:
        self.steps.append("leads?")
        return self.stage.leads

    def row(self, name: str) -> Node:
        node = self.context.mirror.nodes.get(name)
        assert node is not None
        return node

    async def delete(self, *node_names: str, podless: bool = False) -> DeletedRecords:
        permit = await self.guard.permit()
        self.steps.clear()
        seen = {name: self.row(name) for name in node_names}
        return await permit.delete_records(seen, drain_blocker=drain_blocker, podless=podless)


@asynccontextmanager
async def door(*rows: Any, pods: tuple[ComputePod, ...] = ()) -> AsyncIterator[Door]:
    """Slurm is read, and nothing has been asked yet."""
    made = Door(*rows, pods=pods)
    made.stage.complete()
    complete(made.context.sets.store)
    try:
        async with made.context.mirror.running():
            await asyncio.sleep(1)
            made.steps.clear()
            yield made
    finally:
        await made.kube.close()


async def _nothing() -> None:
    pass


def newer(record: Any) -> Any:
    return replace(record, metadata=replace(record.metadata, resource_version=newest()))


def conflict() -> Conflict:
    return Conflict(Status(code=409), asked="patch")


def as_seen(record: Any) -> dict[str, str]:
    return {"uid": record.metadata.uid, "resourceVersion": record.metadata.resource_version}
