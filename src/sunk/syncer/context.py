"""What every part of the syncer works with: both sides as last read, the way to write to each, and the settings.

The parts are

- `drains`: Kubernetes to Slurm (drains, features, `Extra`, requests of people),
- `conditions`: Slurm to Kubernetes (conditions and labels of Pods),
- `removal`: what may be deleted, and Slurm's records of what has left,
- `config`: that slurmctld runs what is wanted,
- `hooks`: what prologs of compute Pods are answered,
- `accounts`: which users have which account in slurmdbd,
- `visibility`: what the syncer reports about the cluster as a whole.

Each owns the fields that it writes and remembers nothing that reading both sides would not bring back.
"""

from collections.abc import Callable

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.cache.collection import Collection
from sunk.kube.control.events import Recorder
from sunk.kube.core import ConfigMap
from sunk.kube.resource import Key
from sunk.model.cluster.daemons import SyncerSettings
from sunk.objects.nodesets import NodeSet, NodeSlice
from sunk.objects.slurmclusters import SlurmCluster
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.syncer.pods import ComputePod


class Context(Struct, frozen=True):
    """What is shared. The process follows the collections and runs the mirror, also while another one leads."""

    namespace: str
    cluster: str
    client: Client
    recorder: Recorder
    may_write: Callable[[], bool]
    pods: Collection[ComputePod]
    slices: Collection[NodeSlice]
    sets: Collection[NodeSet]
    clusters: Collection[SlurmCluster]
    files: Collection[ConfigMap]
    """Only the ConfigMap that is slurmctld's configuration."""
    library: Library
    mirror: Mirror
    orders: Orders
    settings: SyncerSettings = SyncerSettings()

    def pod(self, name: str) -> ComputePod | None:
        """The Pod of a Slurm node: they have the same name."""
        return self.pods.store.get(Key(self.namespace, name))
