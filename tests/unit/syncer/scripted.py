"""Both sides by a script: stores filled by hand, and a slurmctld that takes orders about nodes and writes them down."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from msgspec import convert, json
from msgspec.structs import replace
from tests.unit.slurm.scripted import Server, gone
from tests.unit.syncer.builders import CLUSTER, HERE, entry, member, pod, row, slice_of, snapshot
from tests.unit.syncer.stores import complete, newest, put

from sunk.kube.api.client import Client, Listing
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import Store
from sunk.kube.control.events import Recorder
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import NotFound, Status
from sunk.kube.resource import Key, Resource
from sunk.model import hostlist
from sunk.model.contract import drains
from sunk.model.nodeslice import MOST_ENTRIES, NodeSliceStatus
from sunk.objects.nodesets import NODESETS, NODESLICES
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.slurm.errors import SlurmError, UnknownName
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import Expected, NodeChange, Watched
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.slurm.records import Node, Table
from sunk.slurm.states import NodeFlag
from sunk.syncer.context import Context
from sunk.syncer.drains import extra
from sunk.syncer.drains.controller import DrainController
from sunk.syncer.hooks.hello import Hello
from sunk.syncer.members import Members
from sunk.syncer.pods import COMPUTE_PODS

T = TypeVar("T")
LATENCY = 0.002
NOWHERE = Access(server="http://nowhere.invalid", tls=None, credentials=Nobody())


class Slurm(Server):
    """Stands where a Library does."""

    def __init__(self, *rows: Node) -> None:
        super().__init__(*rows)
        self.told: list[NodeChange] = []
        self.refuses: Callable[[NodeChange], Exception | None] = lambda _: None
        self.in_between: Callable[[NodeChange], tuple[Node, ...]] = lambda _: ()
        """What others do between the last look and the order, as it is seen."""
        self.breaks: Callable[[NodeChange], SlurmError | None] = lambda _: None
        """What comes instead of an answer to an order that was carried out."""
        self.falls_silent = False
        """Once, when the next order for a single node is carried out and not answered yet."""

    @property
    def wire(self) -> "Slurm":
        return self

    async def call(self, blocking: Callable[[], T], *, asked: str) -> T:
        await asyncio.sleep(LATENCY)
        if self.away is not None:
            raise self.away
        assert asked
        return blocking()

    async def all_nodes(self) -> Table[Node]:
        await asyncio.sleep(LATENCY)
        if self.away is not None:
            raise self.away
        return Table(rows=tuple(self.now["nodes"].values()), updated=self.clock, unreadable=self.unreadable)

    def update_nodes(self, change: NodeChange) -> None:
        if (refusal := self.refuses(change)) is not None:
            raise refusal
        self._carry_out(change)
        if (broken := self.breaks(change)) is not None:
            raise broken

    def _carry_out(self, change: NodeChange) -> None:
        self.told.append(change)
        for name in hostlist.expand(change.names):
            found = self.node(name)
            if found is None:
                raise UnknownName(2018, asked=f"update {name}")
            self.put(self._changed_row(found, change))

    def delete_nodes(self, names: str) -> None:
        self.drop(*hostlist.expand(names))

    def update_if(self, change: NodeChange, expected: Expected) -> Watched:
        """As C does it: nothing is sent if the node is another one by now."""
        before = self.node(change.names)
        if before is None:
            raise UnknownName(2018, asked=f"update {change.names}")
        flags = before.state_bits & expected.flags, before.reason, before.reason_time
        if flags != (expected.state & expected.flags, expected.reason, expected.reason_time):
            return Watched((before,))
        between = self.in_between(change)
        try:
            self.update_nodes(change)
        except SlurmError as trouble:
            return Watched((before, *between), trouble=trouble)
        if self.falls_silent:
            self.falls_silent, self.away = False, gone()
            return Watched((before, *between), trouble=gone())
        after = self.node(change.names)
        assert after is not None
        return Watched((before, *between, after))

    def _changed_row(self, node: Node, change: NodeChange) -> Node:
        bits = node.state_bits
        if change.state == NodeFlag.DRAIN.value:
            bits |= NodeFlag.DRAIN.value
            bits &= ~NodeFlag.FAIL.value
        if change.state == NodeFlag.FAIL.value:
            bits = bits & ~NodeFlag.DRAIN.value | NodeFlag.FAIL.value
        if change.state == NodeFlag.UNDRAIN.value:
            bits &= ~(NodeFlag.DRAIN | NodeFlag.FAIL).value
        features = node.features if change.features is None else tuple(filter(None, change.features.split(",")))
        return replace(
            node,
            state_bits=bits,
            reason=node.reason if change.reason is None else change.reason,
            reason_time=node.reason_time if change.reason is None else self.clock,
            extra=node.extra if change.extra is None else change.extra,
            features=features,
        )

    def drains(self) -> list[tuple[str, str | None]]:
        """The orders about drains: to whom, and the reason; None where one is taken back."""
        about = {NodeFlag.DRAIN.value, NodeFlag.UNDRAIN.value}
        return [(change.names, change.reason) for change in self.told if change.state in about]

    def is_drained(self, name: str) -> bool:
        found = self.node(name)
        return found is not None and found.state.draining

    def node(self, name: str) -> Node | None:
        found: Node | None = self._tables["nodes"].get(name)
        return found


class NoPods(Client):
    """Answers as a Kubernetes without Pods whose other objects are those of the stage, and takes the status of slices."""

    stage: "Stage"

    async def get(self, resource: Resource[Any], name: str, **_: Any) -> Any:
        raise NotFound(Status(code=404), asked=f"{resource.plural} {name}")

    async def list(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        context = self.stage.context
        stores: dict[Resource[Any], Store[Any]] = {NODESLICES: context.slices.store, NODESETS: context.sets.store}
        return Listing(tuple(stores[resource].all()) if resource in stores else (), resource_version=newest())

    async def patch(self, resource: Resource[Any], name: str, patch: Any, **_: Any) -> Any:
        assert resource is NODESLICES
        one = self.stage.context.slices.store.get(Key(HERE, name))
        assert one is not None
        newer = replace(one.metadata, resource_version=newest())
        return replace(one, metadata=newer, status=convert(patch.body["status"], NodeSliceStatus))


class Stage:
    """A `DrainController` between two scripted sides. Nothing in here sends a request to Kubernetes, unless to `client`."""

    def __init__(self, slurm: Slurm, *, client: Client | None = None) -> None:
        self.slurm = slurm
        self.leads = True
        self.reconfigures = 0
        self.client = client or Client(NOWHERE)
        if isinstance(self.client, NoPods):
            self.client.stage = self
        library = cast("Library", slurm)
        mirror = Mirror(slurm)
        self.context = Context(
            namespace=HERE,
            cluster=CLUSTER,
            client=self.client,
            recorder=Recorder(self.client, reporter="test", instance="test"),
            may_write=lambda: self.leads,
            pods=Collection(self.client, COMPUTE_PODS),
            slices=Collection(self.client, NODESLICES),
            sets=Collection(self.client, NODESETS),
            clusters=Collection(self.client, SLURMCLUSTERS),
            files=Collection(self.client, CONFIG_MAPS),
            library=library,
            mirror=mirror,
            orders=Orders(library, mirror=mirror),
        )
        self.members = Members(self.context.slices.store, cluster=CLUSTER)
        self.hello = Hello(mirror, leads=lambda: self.leads, lift=lambda name: self.drains.enqueue(name))  # noqa: PLW0108
        self.drains = DrainController(
            self.context, self.members, want_reconfigure=self._count, is_reached=self.hello.is_reached
        )

    def _count(self, _: frozenset[str]) -> None:
        self.reconfigures += 1

    def put(self, *records: Any) -> None:
        for each in records:
            store: Any = self.context.pods.store if isinstance(each, COMPUTE_PODS.record) else self.context.slices.store
            put(store, each)

    def complete(self) -> None:
        complete(self.context.sets.store)
        complete(self.context.pods.store)
        complete(self.context.slices.store)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.drains.run(), name="drains")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), task.exception()


def known(name: str, **values: Any) -> Node:
    """An idle node of a member whose Pod is ready, marked as such."""
    found = snapshot(of=pod(name), on=row(name))
    ours = extra.wanted(replace(found, member=member(name)))
    return row(name, extra=json.encode({drains.EXTRA_KEY: ours}).decode(), **values)


@asynccontextmanager
async def staged(names: Iterable[str], *, rows: Iterable[Node] = ()) -> AsyncIterator[Stage]:
    """Members with a ready Pod and an idle node each, for a worker that has done all there was to do."""
    everybody = list(names)
    given = {each.name: each for each in rows}
    stage = Stage(Slurm(*(given.get(name) or known(name) for name in everybody)))
    for start in range(0, len(everybody), MOST_ENTRIES):
        some = everybody[start : start + MOST_ENTRIES]
        stage.put(slice_of(*map(entry, some), name=f"set-{start}"))
    stage.put(*map(pod, everybody))
    stage.complete()
    try:
        async with stage.context.mirror.running(), stage.running():
            await asyncio.sleep(5)
            stage.slurm.told.clear()
            yield stage
    finally:
        await stage.client.close()
