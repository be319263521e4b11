"""How a SlurmCluster ends: its nodes first, when their jobs are over, and everything else after them."""

from typing import Final

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Merge
from sunk.kube.control.controller import Requeue
from sunk.kube.control.events import about
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.objects.nodesets import NodeSet
from sunk.objects.slurmclusters import SlurmCluster
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

LOOK_AGAIN: Final = 30.0


class Removal:
    def __init__(self, setting: Setting, *, clusters: Scoped[SlurmCluster], sets: Scoped[NodeSet]) -> None:
        self._recorder = setting.recorder
        self._clusters = clusters
        self._sets = sets

    async def guarded(self, found: SlurmCluster) -> SlurmCluster:
        """Make sure that the cluster cannot vanish before its nodes have left."""
        if names.FINALIZER in found.metadata.finalizers:
            return found
        return await self._finalizers(found, (*found.metadata.finalizers, names.FINALIZER))

    async def go_on(self, found: SlurmCluster) -> Requeue | None:
        """Do the next step. slurmctld stays up to the last, for it has to say that nodes are idle."""
        left = self._sets.by("owner", found.metadata.uid)
        for one in left:
            await self._leave(found, one)
        if left:
            self._tell(found, left)
            return Requeue(after=LOOK_AGAIN)
        if names.FINALIZER in found.metadata.finalizers:
            kept = tuple(one for one in found.metadata.finalizers if one != names.FINALIZER)
            await self._finalizers(found, kept)
        return None

    async def _leave(self, found: SlurmCluster, one: NodeSet) -> None:
        forced = found.metadata.annotations.get(names.FORCE_DELETION)
        if forced and one.metadata.annotations.get(names.FORCE_DELETION) != forced:
            change = Merge({"metadata": {"annotations": {names.FORCE_DELETION: forced}}})
            await self._sets.of(one.key).patch(one.key, change)
        if one.metadata.deletion_timestamp is None:
            await self._sets.of(one.key).delete(one.key, Deletion(preconditions=Preconditions(uid=one.metadata.uid)))

    def _tell(self, found: SlurmCluster, left: tuple[NodeSet, ...]) -> None:
        regarding = about(found, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
        names_left = ", ".join(sorted(one.metadata.name for one in left))
        note = f"waits for the nodes of {names_left} to leave, which they do when their jobs have ended"
        self._recorder.tell(regarding, "Leaving", note, action="Delete")

    async def _finalizers(self, found: SlurmCluster, wanted: tuple[str, ...]) -> SlurmCluster:
        at = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        change = Merge({"metadata": at | {"finalizers": list(wanted)}})
        return await self._clusters.of(found.key).patch(found.key, change)
