"""Create, mark and delete compute Pods. No other module does."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import Node, Pod
from sunk.kube.errors import AlreadyExists, KubeError, NotFound
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.contract.features import features
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NodeSet, owner_uid
from sunk.operator.keptdrains import KeptDrains
from sunk.operator.nodeset.act.batches import in_parallel, slow_start
from sunk.operator.nodeset.act.podbuilder import PodBuilder
from sunk.operator.nodeset.decide.podactions import DeletionMark, FeatureChange, Moment, PodRemoval
from sunk.operator.podannotations import at_creation

log = logging.getLogger(__name__)

CONCURRENCY: Final = 32


class NameTaken(KubeError):  # noqa: N818 - as below
    """A Pod of somebody else is in the way."""


class TooOld(KubeError):  # noqa: N818 - as above
    """A clearance, or a request for a new Pod, got too old while other things were done. It is asked for again."""


class NotLeading(KubeError):  # noqa: N818 - named as in sunk.kube.errors
    """Somebody else may lead by now, so nothing is deleted."""


class PodControl:
    """The door to compute Pods: every delete carries the uid and resourceVersion that it was decided on."""

    def __init__(
        self,
        *,
        pods: Collection[Pod],
        nodes: Collection[Node],
        drains: KeptDrains,
        cordon_reason: str,
        may_write: Callable[[], bool],
    ) -> None:
        self._drains = drains
        self._cordon_reason = cordon_reason
        self._pods = pods
        self._nodes = nodes
        self._may_write = may_write

    async def create(self, owner: NodeSet, entries: Sequence[Entry], builder: PodBuilder) -> list[Exception]:
        """Make Pods, few at first; those made before something went wrong stay."""
        in_the_way: list[Exception] = []

        async def make(entry: Entry) -> None:
            key = Key(owner.metadata.namespace, entry.name)
            node = self._nodes.store.get(Key("", entry.node))
            found = features(owner.spec.features, node.metadata.labels if node else {})
            drain = self._drains.line(node, cluster=Key(key.namespace, owner.spec.cluster)) if node else None
            marks = at_creation(node, kept_drain=drain, reason_key=self._cordon_reason)
            try:
                await self._pods.create(key, builder.pod(entry.name, node=entry.node, features=found, marks=marks))
            except AlreadyExists:
                if not self._is_ours(owner, key):
                    told = f"Pod {key} does not belong to this NodeSet and blocks a name it needs: delete it"
                    in_the_way.append(NameTaken(told))

        # What is in the way of one Pod is no sign for the others, so it does not end the batches.
        return await slow_start(entries, make) + in_the_way

    def _is_ours(self, owner: NodeSet, key: Key) -> bool:
        """The Pod that has the name already is one of the set after all, seen late."""
        found = self._pods.store.get(key)
        return found is None or owner_uid(found) == owner.metadata.uid

    async def mark(self, marks: Sequence[DeletionMark]) -> list[Exception]:
        async def patch(mark: DeletionMark) -> None:
            at = {"uid": mark.pod.metadata.uid, "resourceVersion": mark.pod.metadata.resource_version}
            # Who turns round is cleared of nothing: the next mark wants a clearance of its own.
            void = {names.CLEAR_TO_DELETE: None} if mark.reason is None else {}
            change = {"metadata": at | {"annotations": {names.PENDING_DELETION: mark.reason} | void}}
            with suppress(NotFound):
                await self._pods.patch(mark.pod.key, Merge(change))

        return await in_parallel(marks, patch, most=CONCURRENCY)

    async def update_features(self, changes: Sequence[FeatureChange]) -> list[Exception]:
        """Have Pods carry other features."""

        async def patch(change: FeatureChange) -> None:
            at = {"uid": change.pod.metadata.uid, "resourceVersion": change.pod.metadata.resource_version}
            with suppress(NotFound):
                await self._pods.patch(
                    change.pod.key, Merge({"metadata": at | {"annotations": {names.FEATURES: change.features}}})
                )

        return await in_parallel(changes, patch, most=CONCURRENCY)

    async def renew_clearances(self, pods: Sequence[Pod]) -> list[Exception]:
        """Take clearances off, so that the syncer looks at Slurm again and gives new ones."""

        async def patch(pod: Pod) -> None:
            at = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
            with suppress(NotFound):
                await self._pods.patch(
                    pod.key, Merge({"metadata": at | {"annotations": {names.CLEAR_TO_DELETE: None}}})
                )

        return await in_parallel(pods, patch, most=CONCURRENCY)

    async def remove(self, removals: Sequence[PodRemoval], moment: Callable[[], Moment]) -> list[Exception]:
        """Delete Pods that have to go. Much may have been written before it is their turn, and clearances get old."""

        async def delete(removal: PodRemoval) -> None:
            if removal.upon_clearance and (why := moment().clearance_fault(removal.pod)):
                raise TooOld(
                    f"Pod {removal.pod.key} not deleted: its clear-to-delete annotation is no longer valid ({why})"
                )
            await self._delete(removal.pod)

        return await in_parallel(removals, delete, most=CONCURRENCY)

    async def recreate(self, pods: Sequence[Pod], moment: Callable[[], Moment]) -> list[Exception]:
        """Delete Pods that ended, or that the syncer asks to have replaced; requests get old as clearances do."""

        async def delete(pod: Pod) -> None:
            if not moment().may_recreate(pod):
                raise TooOld(f"Pod {pod.key} was not replaced: the request is too old")
            await self._delete(pod)

        return await in_parallel(pods, delete, most=CONCURRENCY)

    async def _delete(self, pod: Pod) -> None:
        """Delete a Pod as it was read: one that has changed since is looked at again first."""
        if not self._may_write():
            raise NotLeading(f"Pod {pod.key} was not deleted: another replica may be the leader by now")
        at = Preconditions(uid=pod.metadata.uid, resource_version=pod.metadata.resource_version)
        with suppress(NotFound):
            await self._pods.delete(pod.key, Deletion(preconditions=at))
