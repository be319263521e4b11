"""Pods of a Node, and which of them have to leave it before a job may start there.

The rules are written separately from those of the operator, which locks Nodes: `sunk verify` judges it by them.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Client, Scope
from sunk.kube.core import ContainerStatus, Toleration
from sunk.kube.errors import Forbidden
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.model.contract.lock import TAINT_EFFECT, TAINT_VALUE

BY_NODE: Final = "node"
"""Index of a store of them."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_TEMPLATE_HASH: Final = "pod-template-hash"


class NodePodSpec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    termination_grace_period_seconds: int = 30


class NodePodStatus(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class NodePod(Record, frozen=True, gc=False, rename="camel"):
    """A Pod of anybody's, as far as the lock depends on it."""

    spec: NodePodSpec = NodePodSpec()
    status: NodePodStatus = NodePodStatus()


NODE_PODS: Final = Resource(NodePod, version="v1", plural="pods")


class Workload(Struct, frozen=True, order=True):
    """What a Pod belongs to, and what people would change."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


async def on_node(client: Client, node: str) -> tuple[NodePod, ...] | None:
    """The Pods of a Node in all namespaces; None if whoever asks may not list them."""
    try:
        return (await client.list(NODE_PODS, Scope(fields=f"spec.nodeName={node}"))).items
    except Forbidden:
        return None


def by_node(pod: NodePod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def ended(pod: NodePod) -> bool:
    return pod.status.phase in _ENDED


def runs(pod: NodePod) -> bool:
    """Whether a container runs, by the kubelet's word; those that prepare or debug count too."""
    return any(one.state.running is not None for one in _containers(pod)) and not ended(pod)


def _containers(pod: NodePod) -> tuple[ContainerStatus, ...]:
    told = pod.status
    return (*told.container_statuses, *told.init_container_statuses, *told.ephemeral_container_statuses)


def terminating(pod: NodePod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def toleration_of(tolerations: Iterable[Toleration]) -> Toleration | None:
    """The toleration that decides how long a Pod stays under the lock: the first that matches, as Kubernetes has it."""
    for one in tolerations:
        about = one.key in {"", names.LOCK} and one.effect in {"", TAINT_EFFECT}
        if about and (one.operator == "Exists" or (one.key and one.value == TAINT_VALUE)):
            return one
    return None


def tolerates(tolerations: Iterable[Toleration]) -> bool:
    """Whether a lock leaves a Pod in place for good: with `tolerationSeconds` it is evicted too, only later."""
    found = toleration_of(tolerations)
    return found is not None and found.toleration_seconds is None


def evictable(pod: NodePod, *, jobs: frozenset[int] | None) -> bool:
    """Whether a lock for these jobs has to wait for the Pod; None if it is not known which they are.

    A kubelet's own Pods and our compute Pods stay. So does a Pod that Slurm has started, while its job holds the Node.
    """
    return not ended(pod) and not _stays(pod, jobs=jobs)


def in_the_way(pod: NodePod, *, jobs: frozenset[int], strict: bool) -> bool:
    """Whether a lock for these jobs waits for the Pod now: until its containers have ended, or until it is gone."""
    if _stays(pod, jobs=jobs) or (ended(pod) and not (strict and terminating(pod))):
        return False
    # What is yet to start may have started since.
    over = [one.state.terminated is not None for one in _containers(pod)]
    return strict or not (terminating(pod) and over and all(over))


def _stays(pod: NodePod, *, jobs: frozenset[int] | None) -> bool:
    if _MIRROR in pod.metadata.annotations or _is_compute(pod):
        return True
    job = pod.metadata.annotations.get(names.JOB_ID)
    if job is not None:
        return jobs is None or job in {str(each) for each in jobs}
    return tolerates(pod.spec.tolerations)


def _is_compute(pod: NodePod) -> bool:
    labels, owners = pod.metadata.labels, pod.metadata.owner_references
    ours = any(one.controller and one.api_version.startswith(f"{names.GROUP}/") for one in owners)
    return ours and labels.get(names.COMPONENT) == names.COMPUTE


def overdue(pod: NodePod, *, now: datetime) -> bool:
    """Whether it should be gone: the deletion timestamp is when its grace period ends."""
    end = pod.metadata.deletion_timestamp
    return end is not None and end < now


def workload(pod: NodePod) -> Workload:
    """What it belongs to. A ReplicaSet is named after its Deployment and the hash that its Pods have as a label."""
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    at = pod.metadata.namespace
    if owner is None:
        return Workload("Pod", at, pod.metadata.name)
    tail = f"-{pod.metadata.labels.get(_TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and tail != "-" and owner.name.endswith(tail):
        return Workload("Deployment", at, owner.name.removesuffix(tail))
    return Workload(owner.kind, at, owner.name)
