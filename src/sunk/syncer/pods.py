"""Compute Pods as the syncer reads them: less than the operator needs of any Pod, and the time of a verification more.

A Pod is ours if a NodeSet of this cluster controls it, by uid. Labels do not make it one, since anybody may write them,
and do not make it none: one that lost its labels runs on, and so do its jobs. No selector of the API server knows owners,
so all Pods of the namespace are followed and the others are not kept.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct, field

from sunk.kube.api.client import Client, Scope
from sunk.kube.cache.collection import Collection, Fit
from sunk.kube.core import ContainerStatus
from sunk.kube.resource import Record, Resource
from sunk.objects.nodesets import NodeSet, owner_uid


class ComputePodCondition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_probe_time: datetime | None = None
    last_heartbeat_time: datetime | None = None
    """No field of Pod conditions by Kubernetes' own schema, which drops it; read for those who write it elsewhere."""


class ComputePodSpec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class ComputePodStatus(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    pod_ip: str = field(name="podIP", default="")
    start_time: datetime | None = None
    """When the kubelet took it on."""
    conditions: tuple[ComputePodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class ComputePod(Record, frozen=True, gc=False, rename="camel"):
    spec: ComputePodSpec = ComputePodSpec()
    status: ComputePodStatus = ComputePodStatus()


COMPUTE_PODS: Final = Resource(ComputePod, version="v1", plural="pods")


def compute_pods(client: Client, sets: Collection[NodeSet], *, cluster: str, namespace: str) -> Collection[ComputePod]:
    """The compute Pods of a cluster, as long as the collection of its NodeSets is followed."""

    def fits(pod: ComputePod) -> Fit:
        uid = owner_uid(pod)
        if not uid:
            return Fit.NO
        held = pods.store.get(pod.key)
        if held is not None and (held.metadata.uid, owner_uid(held)) == (pod.metadata.uid, uid):
            return Fit.YES  # a NodeSet that is lost from view does not take its Pods along
        owners = sets.store.by("uid", uid)
        if not owners:
            return Fit.NOT_YET
        return Fit.YES if owners[0].spec.cluster == cluster else Fit.NO

    pods = Collection(client, COMPUTE_PODS, Scope(namespace=namespace), fits=fits)
    sets.store.subscribe(lambda *_: pods.reconsider())
    return pods


def condition(pod: ComputePod, kind: str) -> ComputePodCondition | None:
    return next((condition for condition in pod.status.conditions if condition.type == kind), None)


def holds(pod: ComputePod, kind: str) -> bool:
    present = condition(pod, kind)
    return present is not None and present.status == "True"


def finished(pod: ComputePod) -> bool:
    """All its containers are dead and stay so."""
    return pod.status.phase in {"Failed", "Succeeded"}


def terminating(pod: ComputePod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def ready(pod: ComputePod) -> bool:
    return holds(pod, "Ready") and not terminating(pod)
