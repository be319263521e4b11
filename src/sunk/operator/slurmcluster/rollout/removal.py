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

RECHECK: Final = 30.0


class ClusterRemoval:
    def __init__(self, setting: Setting, *, clusters: Scoped[SlurmCluster], sets: Scoped[NodeSet]) -> None:
        self._recorder = setting.recorder
        self._clusters = clusters
        self._sets = sets

    async def with_finalizer(self, cluster: SlurmCluster) -> SlurmCluster:
        """Make sure that the cluster cannot vanish before its nodes have left."""
        if names.FINALIZER in cluster.metadata.finalizers:
            return cluster
        return await self._finalizers(cluster, (*cluster.metadata.finalizers, names.FINALIZER))

    async def proceed(self, cluster: SlurmCluster) -> Requeue | None:
        """Do the next step. slurmctld stays up to the last, for it has to say that nodes are idle."""
        left = self._sets.by("owner", cluster.metadata.uid)
        for node_set in left:
            await self._leave(cluster, node_set)
        if left:
            self._tell(cluster, left)
            return Requeue(after=RECHECK)
        if names.FINALIZER in cluster.metadata.finalizers:
            kept = tuple(name for name in cluster.metadata.finalizers if name != names.FINALIZER)
            await self._finalizers(cluster, kept)
        return None

    async def _leave(self, cluster: SlurmCluster, node_set: NodeSet) -> None:
        forced = cluster.metadata.annotations.get(names.FORCE_DELETION)
        if forced and node_set.metadata.annotations.get(names.FORCE_DELETION) != forced:
            change = Merge({"metadata": {"annotations": {names.FORCE_DELETION: forced}}})
            await self._sets.of(node_set.key).patch(node_set.key, change)
        if node_set.metadata.deletion_timestamp is None:
            await self._sets.of(node_set.key).delete(
                node_set.key, Deletion(preconditions=Preconditions(uid=node_set.metadata.uid))
            )

    def _tell(self, cluster: SlurmCluster, left: tuple[NodeSet, ...]) -> None:
        regarding = about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)
        names_left = ", ".join(sorted(node_set.metadata.name for node_set in left))
        note = f"waiting for the nodes of {names_left}: they leave when their jobs have ended"
        self._recorder.tell(regarding, "Leaving", note, action="Delete")

    async def _finalizers(self, cluster: SlurmCluster, wanted: tuple[str, ...]) -> SlurmCluster:
        at = {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version}
        change = Merge({"metadata": at | {"finalizers": list(wanted)}})
        return await self._clusters.of(cluster.key).patch(cluster.key, change)
