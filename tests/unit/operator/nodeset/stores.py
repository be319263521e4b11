"""The stores of the NodeSet controller, filled by hand as a watch would fill them, and an observer on them."""

from typing import Any

import msgspec
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import TEMPLATE

from sunk.kube.api.client import Client
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.view import Changed, Deleted
from sunk.kube.control.events import Recorder
from sunk.kube.core import NODES, PODS, Node, Pod
from sunk.kube.resource import Key, Record
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, by_owner
from sunk.operator.caches import by_node
from sunk.operator.nodeset.controller import by_member
from sunk.operator.nodeset.observe.fit import Demand, demand
from sunk.operator.nodeset.observe.snapshot import Observer, Snapshot
from sunk.operator.nodeset.observe.template import read
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

ANY_NODE = demand(read(msgspec.json.encode(TEMPLATE)))


class Stores:
    """To be made in a running loop and closed. Nothing in here sends a request."""

    def __init__(self, *, namespaces: tuple[str, ...] = ()) -> None:
        self._client = Client(Access(server="http://nowhere.invalid", tls=None, credentials=Nobody()))
        recorder = Recorder(self._client, reporter="test", instance="test")
        setting = Setting(client=self._client, recorder=recorder, may_write=lambda: True, namespaces=namespaces)
        self.nodes: Collection[Node] = Collection(self._client, NODES)
        self.pods: Collection[Pod] = Collection(self._client, PODS, indexes={"node": by_node})
        self.sets = Scoped(setting, NODESETS, indexes={"uid": lambda record: (record.metadata.uid,)})
        self.slices = Scoped(setting, NODESLICES, indexes={"owner": by_owner, "node": by_member})
        self.observer = Observer(sets=self.sets, slices=self.slices, nodes=self.nodes, pods=self.pods)
        self._version = 0

    async def close(self) -> None:
        await self._client.close()

    def put(self, *records: Record) -> None:
        """Have these be there."""
        for record in records:
            self._version += 1
            metadata = replace(record.metadata, resource_version=str(self._version))
            self._collection(record).store.take(Changed(replace(record, metadata=metadata)), version="")

    def remove(self, *records: Record) -> None:
        for record in records:
            self._version += 1
            metadata = replace(record.metadata, resource_version=str(self._version))
            self._collection(record).store.take(Deleted(replace(record, metadata=metadata)), version="")

    def take(self, owner: NodeSet, asked: Demand | None = ANY_NODE) -> Snapshot:
        return self.observer.snapshot(owner, asked)

    def _collection(self, record: Record) -> Collection[Any]:
        if isinstance(record, Node):
            return self.nodes
        if isinstance(record, Pod):
            return self.pods
        where: Scoped[Any] = self.sets if isinstance(record, NODESETS.record) else self.slices
        return where.of(Key(record.metadata.namespace, record.metadata.name))
