"""What a Pod or a workload can be asked besides being changed: to go away, to go somewhere, to grow.

An eviction or a binding is never sent twice by itself, see `sunk.kube.api.retry`.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sunk.kube.api.client import Client, Deletion
from sunk.kube.api.patch import Merge
from sunk.kube.core import PODS
from sunk.kube.resource import Key, Record, Resource


async def evict(client: Client, pod: Key, how: Deletion) -> None:
    """Ask for a Pod's end as `kubectl drain` does, so that disruption budgets have a say.

    Where one says no, or none can be computed just now, this raises TooManyRequests with the time to wait.
    """
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}, "deleteOptions": how}
    await client.post(PODS.path(pod.namespace, pod.name, subresource="eviction"), body)


async def bind(client: Client, pod: Key, *, uid: str, node: str) -> None:
    """Put exactly this Pod on a Node. Raises Conflict if it is on one already, or is another Pod of that name.

    The answer is a Status and no Binding, whatever the API's own description says.
    """
    body = {"metadata": {"name": pod.name, "uid": uid}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    await client.post(PODS.path(pod.namespace, pod.name, subresource="binding"), body)


class ScaleSpec(Struct, frozen=True, gc=False):
    replicas: int = 0


class ScaleStatus(Struct, frozen=True, gc=False):
    replicas: int = 0
    selector: str = ""


class Scale(Record, frozen=True, gc=False):
    """How many there should be and are, of anything that has a number of replicas."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


async def scale(client: Client, resource: Resource[Any], key: Key) -> Scale:
    return await client.get(_scales(resource), key.name, namespace=key.namespace, subresource="scale")


async def rescale(
    client: Client, resource: Resource[Any], key: Key, *, replicas: int, resource_version: str = ""
) -> Scale:
    """Set the number of replicas; with a resourceVersion, only if nothing has changed since it was read."""
    metadata = {"metadata": {"resourceVersion": resource_version}} if resource_version else {}
    patch = Merge({"spec": {"replicas": replicas}} | metadata)
    return await client.patch(_scales(resource), key.name, patch, namespace=key.namespace, subresource="scale")


def _scales(resource: Resource[Any]) -> Resource[Scale]:
    return replace(resource, record=Scale)
