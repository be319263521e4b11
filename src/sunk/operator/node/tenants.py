"""Which Pods on a Node stand in the way of its lock.

All that Kubernetes work is, but for

- what tolerates the taint without an end, as agents of the Node do. A toleration for some seconds is none: its Pod would
  run on beside the job;
- mirror Pods, which nobody can evict, and Pods that have finished;
- the Node's own compute Pod;
- Pods that Slurm has placed here by a job that holds this Node now. One whose job does not is an orphan, and counts though
  it tolerates the taint: its allocation is gone, and somebody else's job is about to start.

A Pod that is told to go counts until all its containers have ended. For a strict lock it counts until its object is gone:
a kubelet has to admit another Pod then, and until that moment it gives away nothing that the first one had.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from sunk.kube.core import ContainerStatus, PodSpec, Toleration
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.model.contract import lock

MIRROR: Final = "kubernetes.io/config.mirror"
FINISHED: Final = frozenset({"Succeeded", "Failed"})


class TenantStatus(Struct, frozen=True, gc=False, rename="camel"):
    """As far as it says whether something runs. Every kind of container does."""

    phase: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def all_containers(self) -> tuple[ContainerStatus, ...]:
        return (*self.container_statuses, *self.init_container_statuses, *self.ephemeral_container_statuses)


class Tenant(Record, frozen=True, gc=False, rename="camel"):
    """A Pod, as it is read to decide about a lock."""

    spec: PodSpec = PodSpec()
    status: TenantStatus = TenantStatus()


TENANTS: Final = Resource(Tenant, version="v1", plural="pods")


def in_the_way(pods: Iterable[Tenant], request: lock.LockRequest, *, compute: str, strict: bool) -> tuple[Tenant, ...]:
    """The Pods that have to go before the Node is locked for its compute Pod, which has the uid `compute`."""
    return tuple(pod for pod in pods if pod.metadata.uid != compute and _counts(pod, request, strict=strict))


def _counts(pod: Tenant, request: lock.LockRequest, *, strict: bool) -> bool:
    terminating = pod.metadata.deletion_timestamp is not None
    if MIRROR in pod.metadata.annotations or (pod.status.phase in FINISHED and not (strict and terminating)):
        return False
    if _stays(pod, request):
        return False
    return strict or not (terminating and _ended(pod))


def _stays(pod: Tenant, request: lock.LockRequest) -> bool:
    job = pod.metadata.annotations.get(names.JOB_ID)
    if job is not None:
        return job.isdecimal() and int(job) in request.job_ids
    return any(tolerates(toleration) for toleration in pod.spec.tolerations)


def tolerates(toleration: Toleration) -> bool:
    """Whether it holds against the lock for as long as that lasts."""
    if toleration.toleration_seconds is not None or toleration.effect not in {"", lock.TAINT_EFFECT}:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", names.LOCK}
    return toleration.key == names.LOCK and toleration.value == lock.TAINT_VALUE


def _ended(pod: Tenant) -> bool:
    """By what the kubelet says of each container. One that is yet to start may have started since."""
    containers = pod.status.all_containers
    return bool(containers) and all(container.state.terminated is not None for container in containers)
