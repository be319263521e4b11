"""Everything that an overview is made of, read once or followed for as long as somebody looks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.insight.status.locks import DATED_NODES, DatedNode, lock_written
from sunk.kube.api.client import EVERYWHERE, Client, Scope
from sunk.kube.cache.collection import Collection
from sunk.kube.core import PODS, Node, Pod
from sunk.kube.errors import Forbidden, KubeError, NotFound
from sunk.kube.resource import R, Resource
from sunk.model import names
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster
from sunk.operator.slurmcluster.rollout.apply import DEPLOYMENTS, STATEFULSETS
from sunk.operator.slurmcluster.rollout.status import Workload

PERIOD: Final = 5.0
"""How often the API server is asked whether it is still there, and ages are redrawn."""
PATIENCE: Final = 30.0
"""How long the first read by a watch may take."""
CALM: Final = 0.3
"""Changes come in crowds, and nobody reads faster."""
_OURS: Final = f"{names.MANAGED_BY}={names.SUNK}"
_COMPUTE: Final = f"{names.COMPONENT}={names.COMPUTE}"


class ClusterSnapshot(Struct, frozen=True):
    """`nodes` is None if whoever asks may not read Nodes."""

    clusters: tuple[SlurmCluster, ...] = ()
    workloads: tuple[Workload, ...] = ()
    sets: tuple[NodeSet, ...] = ()
    slices: tuple[NodeSlice, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] | None = None
    lock_times: Mapping[str, datetime] = {}
    """By Node: when its lock last changed, as far as that is known."""


async def read(client: Client, namespace: str) -> ClusterSnapshot:
    """Read it all; everywhere if the namespace is empty."""
    where, ours = Scope(namespace=namespace), Scope(namespace=namespace, labels=_OURS)
    # One after the other: each takes milliseconds, and the first refusal is the one that is told.
    found = ClusterSnapshot(
        clusters=await _ours(client, SLURMCLUSTERS, where),
        sets=await _ours(client, NODESETS, where),
        slices=await _ours(client, NODESLICES, where),
        workloads=(*await _all(client, DEPLOYMENTS, ours), *await _all(client, STATEFULSETS, ours)),
        pods=await _all(client, PODS, Scope(namespace=namespace, labels=_COMPUTE)),
    )
    # Nodes last: a lock that a Pod asks for may be answered by then, and never the other way round.
    nodes = await _nodes(client)
    return replace(found, nodes=nodes, lock_times=_lock_times(nodes or ()))


async def _all(client: Client, resource: Resource[R], scope: Scope) -> tuple[R, ...]:
    return (await client.list(resource, scope)).items


async def _ours(client: Client, resource: Resource[R], scope: Scope) -> tuple[R, ...]:
    try:
        return await _all(client, resource, scope)
    except NotFound as unknown:
        raise Refusal(
            f'the cluster has no resource {resource.plural}: install the chart "sunk", or use another context'
        ) from unknown


async def _nodes(client: Client) -> tuple[DatedNode, ...] | None:
    """A person who works in one namespace may well have no right to them."""
    with suppress(Forbidden):
        return await _all(client, DATED_NODES, EVERYWHERE)
    return None


def _lock_times(nodes: Iterable[DatedNode]) -> dict[str, datetime]:
    return {node.metadata.name: at for node in nodes if (at := lock_written(node)) is not None}


class SnapshotFollower:
    """The same, kept up to date by watches. `trouble` says why what is shown may not be so."""

    def __init__(self, client: Client, namespace: str, *, nodes: bool) -> None:
        where, ours = Scope(namespace=namespace), Scope(namespace=namespace, labels=_OURS)
        self._client = client
        self._clusters = Collection(client, SLURMCLUSTERS, where)
        self._deployments = Collection(client, DEPLOYMENTS, ours)
        self._statefulsets = Collection(client, STATEFULSETS, ours)
        self._sets = Collection(client, NODESETS, where)
        self._slices = Collection(client, NODESLICES, where)
        self._pods = Collection(client, PODS, Scope(namespace=namespace, labels=_COMPUTE))
        self._nodes = Collection(client, DATED_NODES) if nodes else None
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.trouble = ""

    async def changes(self) -> AsyncGenerator[ClusterSnapshot]:
        """What there is, at every change and every few seconds."""
        async with self._running():
            while True:
                yield self._found()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD):
                        await self._changed.wait()
                await asyncio.sleep(CALM)
                self._changed.clear()
                self._expect_alive()
                await self._look()

    async def _look(self) -> None:
        try:
            await self._client.request("GET", "/version")
            self.trouble = ""
        except KubeError as lost:
            self.trouble = f"The API server does not answer; this is the last known state. ({lost})"

    def _found(self) -> ClusterSnapshot:
        nodes = self._nodes.store.all() if self._nodes else None
        return ClusterSnapshot(
            clusters=self._clusters.store.all(),
            workloads=(*self._deployments.store.all(), *self._statefulsets.store.all()),
            sets=self._sets.store.all(),
            slices=self._slices.store.all(),
            pods=self._pods.store.all(),
            nodes=nodes,
            lock_times=_lock_times(nodes or ()),
        )

    @property
    def _all(self) -> tuple[Collection[Any], ...]:
        control = (self._clusters, self._deployments, self._statefulsets)
        return (*control, self._sets, self._slices, self._pods, *((self._nodes,) if self._nodes else ()))

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        self._tasks = [asyncio.create_task(one.run(), name=one.store.name) for one in self._all]
        for one in self._all:
            one.store.subscribe(lambda *_: self._changed.set())
        try:
            await self._complete()
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _complete(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                for one in self._all:
                    await one.store.complete()
        except TimeoutError:
            late = ", ".join(one.store.name for one in self._all if not one.store.synced)
            raise Refusal(
                f"{late} could be read but not watched within {PATIENCE:.0f} s: get the right to watch, or omit --watch"
            ) from None

    def _expect_alive(self) -> None:
        """A task that ends by itself is a fault, and what it fed would look like a quiet day."""
        for task in self._tasks:
            if task.done():
                raise Refusal(f"{task.get_name()} is no longer watched ({task.exception()}): start again")


async def follow(client: Client, namespace: str) -> AsyncGenerator[tuple[ClusterSnapshot, str]]:
    """What there is now and after every change, and why it may be old.

    Read once first: a watch would wait for a CustomResourceDefinition, and a person wants to hear that there is none.
    """
    first = await read(client, namespace)
    yield first, ""
    following = SnapshotFollower(client, namespace, nodes=first.nodes is not None)
    async with aclosing(following.changes()) as changes:
        async for found in changes:
            yield found, following.trouble
