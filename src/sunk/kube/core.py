"""Kubernetes' own resources, as far as somebody here reads them. A field is added when it gets a reader.

What many objects say alike is held in one copy (`Shared`). The Pods of a template differ in their names and their
states and hardly in what they were asked to be; and the tolerations that Kubernetes itself gives stand in nearly every
Pod there is. Decoded by itself, each would have texts, tuples and dicts of its own. That is safe because records are
never changed.
"""

from collections.abc import Hashable
from datetime import datetime
from typing import Final, Generic, TypeVar

from msgspec import Struct, field, msgpack
from msgspec.structs import force_setattr

from sunk.kube.resource import Record, Resource
from sunk.model.kubernetes.quantity import Quantity

T = TypeVar("T")

MOST: Final = 4096
"""Different values that are remembered. When there are more, all are forgotten: who holds one keeps it."""


class Shared(Generic[T]):
    def __init__(self) -> None:
        self._known: dict[Hashable, T] = {}

    def one(self, value: T, *, key: Hashable) -> T:
        """Give the first value that came under this key; keys are equal exactly where values are."""
        if len(self._known) >= MOST:
            self._known.clear()
        return self._known.setdefault(key, value)


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class Resources(Struct, frozen=True, gc=False):
    """What is asked for. Limits have no reader: the API server has filled in requests from them."""

    requests: dict[str, Quantity] | None = None
    """Most containers ask for nothing, and an empty dict for each would be megabytes."""


class Container(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    image: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""
    """Of an init container: `Always` makes it a sidecar."""


_encode: Final = msgpack.Encoder().encode
_containers: Final[Shared[tuple[Container, ...]]] = Shared()
_tolerations: Final[Shared[tuple[Toleration, ...]]] = Shared()


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    restart_policy: str = "Always"
    host_network: bool = False
    overhead: dict[str, Quantity] | None = None
    resources: Resources = Resources()
    """Of the Pod as a whole; for CPU, memory and huge pages they go before those of its containers."""

    def __post_init__(self) -> None:
        # Encoded, because requests are a dict, which cannot be looked up.
        force_setattr(self, "containers", _containers.one(self.containers, key=_encode(self.containers)))
        force_setattr(self, "tolerations", _tolerations.one(self.tolerations, key=self.tolerations))


class Running(Struct, frozen=True, gc=False, rename="camel"):
    started_at: datetime | None = None


class Terminated(Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Waiting(Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""

    @property
    def starting(self) -> bool:
        """Whether nothing has gone wrong so far."""
        return self.reason in {"", "ContainerCreating", "PodInitializing"}


class ContainerState(Struct, frozen=True, gc=False):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """How it ended the last time, if it has been started again."""


class PodStatus(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = field(name="podIP", default="")
    start_time: datetime | None = None


class Pod(Record, frozen=True, gc=False, rename="camel"):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Struct, frozen=True, gc=False):
    type: str
    address: str


class NodeStatus(Struct, frozen=True, gc=False, rename="camel"):
    addresses: tuple[NodeAddress, ...] = ()
    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


class Node(Record, frozen=True, gc=False, rename="camel"):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    renew_time: datetime | None = None
    lease_transitions: int = 0


class Lease(Record, frozen=True, gc=False, rename="camel"):
    spec: LeaseSpec = LeaseSpec()


class NamespaceStatus(Struct, frozen=True, gc=False):
    phase: str = ""


class Namespace(Record, frozen=True, gc=False):
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Struct, frozen=True, gc=False, rename="camel"):
    type: str = "ClusterIP"
    cluster_ip: str = field(name="clusterIP", default="")
    load_balancer_class: str = ""


class Ingress(Struct, frozen=True, gc=False):
    ip: str = ""


class LoadBalancer(Struct, frozen=True, gc=False):
    ingress: tuple[Ingress, ...] = ()


class ServiceStatus(Struct, frozen=True, gc=False, rename="camel"):
    load_balancer: LoadBalancer = LoadBalancer()


class Service(Record, frozen=True, gc=False):
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class EndpointConditions(Struct, frozen=True, gc=False):
    ready: bool | None = None
    """Unknown counts as ready, says Kubernetes."""


class Endpoint(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(Record, frozen=True, gc=False):
    endpoints: tuple[Endpoint, ...] | None = None


class VolumeRequests(Struct, frozen=True, gc=False):
    requests: dict[str, str] = field(default_factory=dict)


class PersistentVolumeClaimSpec(Struct, frozen=True, gc=False, rename="camel"):
    access_modes: tuple[str, ...] = ()
    resources: VolumeRequests = VolumeRequests()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"


class Phase(Struct, frozen=True, gc=False):
    phase: str = ""


class PersistentVolumeClaim(Record, frozen=True, gc=False):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: Phase = Phase()


class ObjectReference(Struct, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Struct, frozen=True, gc=False, rename="camel"):
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    persistent_volume_reclaim_policy: str = ""


class PersistentVolume(Record, frozen=True, gc=False):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()


class ConfigMap(Record, frozen=True, gc=False, rename="camel"):
    data: dict[str, str] = field(default_factory=dict)
    binary_data: dict[str, str] = field(default_factory=dict)


PODS: Final = Resource(Pod, version="v1", plural="pods")
NODES: Final = Resource(Node, version="v1", plural="nodes", namespaced=False)
LEASES: Final = Resource(Lease, version="v1", plural="leases", group="coordination.k8s.io")
NAMESPACES: Final = Resource(Namespace, version="v1", plural="namespaces", namespaced=False)
SERVICES: Final = Resource(Service, version="v1", plural="services")
ENDPOINT_SLICES: Final = Resource(EndpointSlice, version="v1", plural="endpointslices", group="discovery.k8s.io")
CLAIMS: Final = Resource(PersistentVolumeClaim, version="v1", plural="persistentvolumeclaims")
VOLUMES: Final = Resource(PersistentVolume, version="v1", plural="persistentvolumes", namespaced=False)
CONFIG_MAPS: Final = Resource(ConfigMap, version="v1", plural="configmaps")
