"""Which Pods on a Node stand in the way of its lock.

All that Kubernetes work is, but for

- what tolerates the taint without an end, as agents of the Node do. A toleration for some seconds is none: its Pod would
  run on beside the job. Where several match, Kubernetes goes by the first;
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

from sunk.kube.core import ContainerStatus, Pod, PodSpec
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.model.contract.lock import LockRequest
from sunk.model.kubernetes.taints import holds_out

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


def tenant(pod: Pod) -> Tenant:
    """A Pod as the caches have it, which is less: of its containers only the plain ones."""
    told = pod.status
    status = TenantStatus(phase=told.phase, container_statuses=told.container_statuses)
    return Tenant(metadata=pod.metadata, spec=pod.spec, status=status)


def in_the_way(pods: Iterable[Tenant], request: LockRequest, *, compute: str, strict: bool) -> tuple[Tenant, ...]:
    """The Pods that have to go before the Node is locked for its compute Pod, which has the uid `compute`."""
    return tuple(pod for pod in pods if pod.metadata.uid != compute and _counts(pod, request, strict=strict))


def _counts(pod: Tenant, request: LockRequest, *, strict: bool) -> bool:
    if MIRROR in pod.metadata.annotations or (pod.status.phase in FINISHED and not (strict and terminates(pod))):
        return False
    if _stays(pod, request):
        return False
    return strict or not (terminates(pod) and has_ended(pod))


def _stays(pod: Tenant, request: LockRequest) -> bool:
    # Whoever does not tolerate the taint is told to go by Kubernetes, whatever the annotation says, and may take its time.
    if not holds_out(pod.spec.tolerations):
        return False
    # Compared as text: what anybody may write there need not be a number, nor one that Python would read.
    return not placed_by_slurm(pod) or pod.metadata.annotations[names.JOB_ID] in map(str, request.job_ids)


def placed_by_slurm(pod: Tenant) -> bool:
    return names.JOB_ID in pod.metadata.annotations


def terminates(pod: Tenant) -> bool:
    return pod.metadata.deletion_timestamp is not None


def has_ended(pod: Tenant) -> bool:
    """By what the kubelet says of each container. One that is yet to start may have started since."""
    containers = pod.status.all_containers
    return bool(containers) and all(container.state.terminated is not None for container in containers)
