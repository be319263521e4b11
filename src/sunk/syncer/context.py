"""What every part of the syncer works with: both sides as last read, the way to write to each, and the settings.

The parts are

- `drains`: Kubernetes to Slurm (drains, features, `Extra`, requests of people),
- `conditions`: Slurm to Kubernetes (conditions and labels of Pods),
- `removal`: what may be deleted, and Slurm's records of what has left,
- `config`: that slurmctld runs what is wanted,
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
from sunk.objects.nodesets import NodeSet, NodeSlice
from sunk.objects.slurmclusters import SlurmCluster
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.syncer.pods import ComputePod


class Settings(Struct, frozen=True):
    """How the syncer behaves; times in seconds. The chart sets these under `syncer.config.syncer`."""

    clean_up: bool = True
    """Delete Slurm's record of nodes that have left."""
    not_ready_after: float = 5.0
    """A node is drained after its Pod has not been ready for this long."""
    wave_share: float = 0.2
    """If more than this share of the Pods stop being ready together, they wait for `wave_delay` instead."""
    wave_delay: float = 60.0
    skew: float = 5.0
    """How far the clocks of Slurm and Kubernetes may be apart."""
    calm: float = 5.0
    """Ignore NOT_RESPONDING for this long after an undrain."""
    gather: float = 0.2
    """The least time between two rounds of orders, so that many changes share a call."""
    restart_unknown_after: float = 60.0
    """A Pod that is ready is replaced after Slurm has not known it for this long."""
    forget_after: float = 60.0
    """A record that was ours is deleted after it has been in no NodeSlice for this long."""


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
    settings: Settings = Settings()

    def pod(self, name: str) -> ComputePod | None:
        """The Pod of a Slurm node: they have the same name."""
        return self.pods.store.get(Key(self.namespace, name))
