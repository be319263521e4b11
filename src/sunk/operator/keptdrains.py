"""Drains of people that outlive the Node object: ConfigMaps beside the SlurmCluster, a key for each Node.

A machine that is repaired for longer than a minute is often taken out of Kubernetes meanwhile (`kubectl delete node`). All
that was ours on its Node goes with the object, and Slurm forgets a node that has left. So the Node controller writes a
person's drain here as well, while it is on: at the departure nobody may be looking. When there is a Node of that name
again, it gets its line back. While the machine is away and its Node is still there, what is written here follows the
line: somebody may take it off, or an older version may have left it on the Node alone.

Why not in a NodeSlice: the machine may come back to another NodeSet of the cluster, and the first one may be gone. Why not
in the SlurmCluster: thousands of texts do not fit into one object. A ConfigMap is also something that people know how to
read and edit. Taking a key out lifts that drain for good while there is no Node of that name. While there is one, its own
line decides, and the key is written again: take the line off the Node then, or lift the drain in Slurm if the machine is
a node there.

There are as few ConfigMaps as it takes, `keptdrains.MOST` Nodes in each. Writes that come together share one patch.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import CONFIG_MAPS, ConfigMap, Node
from sunk.kube.errors import AlreadyExists, NotFound
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract import keptdrains
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

log = logging.getLogger(__name__)

SHARDS: Final = 64
"""ConfigMaps of one cluster, at most: a bound, since names of Nodes may be used once and never again."""
LABELS: Final = {names.MANAGED_BY: "sunk", names.COMPONENT: "kept-drains"}


def kept_drains(setting: Setting) -> "KeptDrains":
    """To be asked for by `setting.once(kept_drains)`."""
    return KeptDrains(setting)


class KeptDrains:
    def __init__(self, setting: Setting) -> None:
        self._client = setting.client
        labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
        self._maps: Final = Scoped(setting, CONFIG_MAPS, labels=labels, indexes={"node": _nodes})
        self._waiting: dict[Key, dict[str, str | None]] = {}
        self._writing: dict[Key, asyncio.Lock] = {}

    @property
    def collections(self) -> tuple[Collection[ConfigMap], ...]:
        return self._maps.collections

    def subscribe(self, enqueue: Callable[[str], None]) -> None:
        """Be called with the name of each Node of which something else is written."""

        def hear(_: Key, before: ConfigMap | None, after: ConfigMap | None) -> None:
            old, new = ({} if one is None else one.data for one in (before, after))
            for node in old.keys() | new.keys():
                if old.get(node) != new.get(node):
                    enqueue(node)

        for one in self.collections:
            one.store.subscribe(hear)

    # Reading

    def of(self, node: str, *, cluster: Key) -> keptdrains.KeptDrain | None:
        """What is written of a Node, whether or not there is one of that name."""
        for one in self._holding(node, cluster):
            if found := keptdrains.read_record(one.data[node]):
                return found
        return None

    def line(self, node: Node, *, cluster: Key) -> str | None:
        """The drain that is to be put on when the Node is a member of this cluster again.

        What the Node says itself counts, since a person may edit it there. Only one that is another object than the one
        that carried the drain has lost it.
        """
        if here := keptdrains.on_node(node.metadata.annotations, str(cluster)):
            return here
        found = self.of(node.metadata.name, cluster=cluster)
        return found.reason if found is not None and found.uid != node.metadata.uid else None

    def clusters(self, node: str) -> set[Key]:
        """Those in which something is written of a Node."""
        found = (one.metadata for one in self._maps.by("node", node))
        return {Key(at.namespace, at.labels.get(names.CLUSTER, "")) for at in found}

    def concern(self, node: Node) -> bool:
        """Whether a drain of this Node is kept, on itself or beside it."""
        return names.KEPT_DRAIN in node.metadata.annotations or bool(self._maps.by("node", node.metadata.name))

    def taken_off(self, node: Node, *, cluster: Key) -> bool:
        """Whether somebody took the line from the Node that had it."""
        found = self.of(node.metadata.name, cluster=cluster)
        return found is not None and found.uid == node.metadata.uid and self.line(node, cluster=cluster) is None

    def unwritten(self, node: Node) -> dict[Key, str]:
        """Lines of a Node that stand nowhere else, of clusters in our namespaces."""
        lines = keptdrains.read(node.metadata.annotations.get(names.KEPT_DRAIN, ""))
        keys = {Key(*where.split("/", 1)): reason for where, reason in lines.items()}
        name, uid = node.metadata.name, node.metadata.uid
        return {
            cluster: reason
            for cluster, reason in keys.items()
            if cluster.name and reason and self._maps.covers(cluster.namespace)
            if self.of(name, cluster=cluster) != keptdrains.KeptDrain(reason, uid=uid)
        }

    def _holding(self, node: str, cluster: Key) -> list[ConfigMap]:
        if not self._maps.covers(cluster.namespace):
            return []
        return [one for one in self._maps.of(cluster).store.by("node", node) if _is_of(one, cluster)]

    # Writing

    async def keep(self, node: Node, reason: str, *, cluster: Key) -> None:
        """Have it written that this Node has a drain, if it is not."""
        record = keptdrains.KeptDrain(reason, uid=node.metadata.uid)
        # Without a cluster there is no syncer, and nobody who could put it on again.
        if cluster.name and self.of(node.metadata.name, cluster=cluster) != record:
            await self._write(cluster, node.metadata.name, keptdrains.write_record(record))

    async def follow(self, node: Node, *, member_of: Key | None) -> None:
        """Write down what a Node says of clusters that it is not a member of: people edit it while the machine is away.

        A line may outlive its cluster, and gets nothing there that nobody would ever delete.
        """
        for cluster in self.clusters(node.metadata.name) - {member_of}:
            if self.taken_off(node, cluster=cluster):
                await self.forget(node.metadata.name, cluster=cluster)
        for cluster, reason in self.unwritten(node).items():
            if cluster != member_of and await self._owner(cluster):
                await self.keep(node, reason, cluster=cluster)

    async def forget(self, node: str, *, cluster: Key) -> None:
        if self._holding(node, cluster):
            await self._write(cluster, node, None)

    async def _write(self, cluster: Key, node: str, value: str | None) -> None:
        """Write it together with all that others want to be written by the time that it is our turn."""
        self._waiting.setdefault(cluster, {})[node] = value
        async with self._writing.setdefault(cluster, asyncio.Lock()):
            if self._is_written(cluster, node, value):
                return
            # Ours is not among them if somebody has taken it before, and failed.
            taken = self._waiting.pop(cluster, {}) | {node: value}
            for name, data in self._spread(cluster, taken).items():
                await self._put(cluster, name, data)

    def _is_written(self, cluster: Key, node: str, value: str | None) -> bool:
        found = {one.data[node] for one in self._holding(node, cluster)}
        return found == (set() if value is None else {value})

    def _spread(self, cluster: Key, wanted: Mapping[str, str | None]) -> dict[str, dict[str, str | None]]:
        """Which ConfigMap gets what: the one that has the Node already, or the first with room."""
        found: dict[str, dict[str, str | None]] = {}
        sizes = {one.metadata.name: len(one.data) for one in self._maps.of(cluster).store.all() if _is_of(one, cluster)}
        for node, value in wanted.items():
            places = [one.metadata.name for one in self._holding(node, cluster)]
            if not places and value is not None:
                places = [room(cluster, sizes)]
                sizes[places[0]] = sizes.get(places[0], 0) + 1
            for place in filter(None, places):
                found.setdefault(place, {})[node] = value
        return found

    async def _put(self, cluster: Key, name: str, data: dict[str, str | None]) -> None:
        key = Key(cluster.namespace, name)
        maps = self._maps.of(key)
        filled = {node: value for node, value in data.items() if value is not None}
        here = maps.store.get(key)  # one of that name without our labels is somebody else's
        if here is None:
            await self._create(cluster, key, filled)
            return
        try:
            await maps.patch(key, Merge({"metadata": {"uid": here.metadata.uid}, "data": data}))
        except NotFound:
            if filled:
                await self._create(cluster, key, filled)

    async def _create(self, cluster: Key, key: Key, data: dict[str, str]) -> None:
        at = {"name": key.name, "namespace": key.namespace, "labels": LABELS | {names.CLUSTER: cluster.name}}
        owner = await self._owner(cluster)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": at | owner, "data": data}
        try:
            await self._maps.of(key).create(key, body)
        except AlreadyExists:
            log.warning(
                "ConfigMap %s is not SUNK's but uses a name that SUNK needs to save drains: delete or rename it", key
            )
            raise

    async def _owner(self, cluster: Key) -> dict[str, Any]:
        """With the SlurmCluster all drains of its nodes end. A NodeSet may do without one."""
        try:
            found = await self._client.get(SLURMCLUSTERS, cluster.name, namespace=cluster.namespace)
        except NotFound:
            return {}
        reference = {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name, "name": cluster.name}
        return {"ownerReferences": [reference | {"uid": found.metadata.uid}]}


def _nodes(one: ConfigMap) -> tuple[str, ...]:
    return tuple(one.data)


def _is_of(one: ConfigMap, cluster: Key) -> bool:
    at = one.metadata
    return at.namespace == cluster.namespace and at.labels.get(names.CLUSTER, "") == cluster.name


def room(cluster: Key, sizes: Mapping[str, int]) -> str:
    """The first ConfigMap with room for one more; empty if there is none."""
    for number in range(SHARDS):
        name = f"{cluster.name}-kept-drains-{number}"
        if sizes.get(name, 0) < keptdrains.MOST:
            return name
    log.warning("%s: cannot save more drains of deleted Nodes: limit %s reached", cluster, SHARDS * keptdrains.MOST)
    return ""
