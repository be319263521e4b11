"""Write who is a member: the slices of a NodeSet."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import to_builtins

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Merge
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key
from sunk.model.nodeslice import NODESLICE
from sunk.objects.nodesets import NodeSet, NodeSlice, ours, owned_by, slice_name
from sunk.operator.nodeset.decide.slices import Shard, SliceWrites, shards
from sunk.service.scoped import Scoped


class SliceControl:
    """The door to the slices of NodeSets."""

    def __init__(self, slices: Scoped[NodeSlice]) -> None:
        self._slices: Final = slices

    async def write(self, owner: NodeSet, found: Sequence[NodeSlice], writes: SliceWrites) -> int:
        """Write the slices, in the order that no reader can misunderstand. Returns their number.

        Every write is made on the condition that the slice still is as it was found: the entries were decided on it,
        and a leader that was paused in between must not put back what another has changed since.
        """
        there = {one.metadata.name: one for one in found}
        before = shards(found)
        for shard in (*writes.shards, *_of_another_cluster(owner, found, writes.shards)):
            key = _key(owner, shard.number)
            await self._put(owner, key, shard, there=there.get(key.name))
        for number in writes.empty:
            await self._remove(there[_key(owner, number).name])
        numbers = {shard.number for shard in (*before, *writes.shards)}
        return len(numbers - set(writes.empty))

    async def close(self, found: Sequence[NodeSlice]) -> None:
        """Delete the slices of a set that nobody is a member of any more.

        Kubernetes would do it too, when the set is gone, in its own time: a set that is created again under the same name
        had to wait for that, since its slices are called the same.
        """
        for node_slice in found:
            await self._remove(node_slice)

    async def _put(self, owner: NodeSet, key: Key, shard: Shard, *, there: NodeSlice | None) -> None:
        if there is None:
            await self._slices.of(key).create(key, _body(owner, key, shard))
            return
        at = {"uid": there.metadata.uid, "resourceVersion": there.metadata.resource_version}
        change = {"metadata": at, "spec": {"entries": to_builtins(shard.entries), "cluster": owner.spec.cluster}}
        await self._slices.of(key).patch(key, Merge(change))

    async def _remove(self, there: NodeSlice) -> None:
        at = Preconditions(uid=there.metadata.uid, resource_version=there.metadata.resource_version)
        try:
            await self._slices.of(there.key).delete(there.key, Deletion(preconditions=at))
        except NotFound:
            return


def _of_another_cluster(owner: NodeSet, found: Iterable[NodeSlice], writes: Iterable[Shard]) -> list[Shard]:
    """Slices that need no change of entries, but say no cluster, or another one than the set does by now."""
    written = {shard.number for shard in writes}
    stale = (one for one in found if one.spec.cluster != owner.spec.cluster)
    return [shard for shard in shards(stale) if shard.number not in written]


def _key(owner: NodeSet, number: int) -> Key:
    return Key(owner.metadata.namespace, slice_name(owner.metadata.name, number))


def _body(owner: NodeSet, key: Key, shard: Shard) -> dict[str, Any]:
    return {
        "apiVersion": NODESLICE.api_version,
        "kind": NODESLICE.name,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": ours(owner),
            "ownerReferences": [owned_by(owner)],
        },
        "spec": {
            "nodeSet": owner.metadata.name,
            "nodeSetUid": owner.metadata.uid,
            "cluster": owner.spec.cluster,
            "entries": to_builtins(shard.entries),
        },
    }
