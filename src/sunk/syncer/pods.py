"""Compute Pods as the syncer reads them: less than the operator needs of any Pod, and the time of a verification more."""

from datetime import datetime
from typing import Final

from msgspec import Struct, field

from sunk.kube.core import ContainerStatus
from sunk.kube.resource import Record, Resource


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_probe_time: datetime | None = None
    last_heartbeat_time: datetime | None = None
    """No field of Pod conditions by Kubernetes' own schema, which drops it; read for those who write it elsewhere."""


class Spec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class Status(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    pod_ip: str = field(name="podIP", default="")
    start_time: datetime | None = None
    """When the kubelet took it on."""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class ComputePod(Record, frozen=True, gc=False, rename="camel"):
    spec: Spec = Spec()
    status: Status = Status()


COMPUTE_PODS: Final = Resource(ComputePod, version="v1", plural="pods")


def condition(pod: ComputePod, kind: str) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == kind), None)


def holds(pod: ComputePod, kind: str) -> bool:
    found = condition(pod, kind)
    return found is not None and found.status == "True"


def finished(pod: ComputePod) -> bool:
    """All its containers are dead and stay so."""
    return pod.status.phase in {"Failed", "Succeeded"}


def terminating(pod: ComputePod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def ready(pod: ComputePod) -> bool:
    return holds(pod, "Ready") and not terminating(pod)
