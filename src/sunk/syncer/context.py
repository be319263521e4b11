"""What every part of the syncer stands on: both sides as last read, the way to write to each, and how it is set up.

One look decides for all nodes that changed; the parts are

- `downward`: Kubernetes to Slurm (drains, features, extra, orders of people),
- `upward`: Slurm to Kubernetes (conditions and labels of Pods),
- `removal`: what may be deleted, and Slurm's records of what has left,
- `configuration`: that slurmctld runs what is wanted.

Each owns the fields that it writes and remembers nothing that reading both sides would not bring back.
"""

from collections.abc import Callable

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.cache.collection import Collection
from sunk.kube.control.events import Recorder
from sunk.kube.core import ConfigMap
from sunk.kube.resource import Key
from sunk.objects.clusters import SlurmCluster
from sunk.objects.members import NodeSet, NodeSlice
from sunk.slurm.libslurm.library import Library
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.orders.nodes import Orders
from sunk.syncer.pods import ComputePod


class Manner(Struct, frozen=True):
    """How the syncer behaves; times in seconds. The chart sets these under `syncer.config.syncer`."""

    clean_up: bool = True
    """Delete Slurm's record of nodes that have left."""
    not_ready_after: float = 5.0
    """A Pod that is not ready for so long drains its node."""
    wave_share: float = 0.2
    """If more than this share of the Pods stop being ready together, they wait for `wave_delay` instead."""
    wave_delay: float = 60.0
    skew: float = 5.0
    """How far the clocks of Slurm and Kubernetes may be apart."""
    calm: float = 5.0
    """After an undrain a node does not respond for a moment; so long that is not told."""
    gather: float = 0.2
    """The least time between two rounds of orders, so that many changes share a call."""
    restart_unknown_after: float = 60.0
    """A Pod that is ready for so long, and that Slurm does not know, is started anew."""
    forget_after: float = 60.0
    """A record that was ours, and is in no NodeSlice for so long, is deleted."""


class Ground(Struct, frozen=True):
    """What is shared. Collections are followed and the mirror is run by the process, also while another one leads."""

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
    """Of the one ConfigMap that is slurmctld's configuration."""
    library: Library
    mirror: Mirror
    orders: Orders
    manner: Manner = Manner()

    def pod(self, name: str) -> ComputePod | None:
        """The Pod of a Slurm node: they have the same name."""
        return self.pods.store.get(Key(self.namespace, name))
