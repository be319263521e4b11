"""What fake Nodes and their leases look like, and what a kubelet does next about its own Node. Pure."""

from datetime import UTC, datetime
from typing import Any, Final

from sunk.kube.core import Node, condition
from sunk.kube.resource import Metadata
from sunk.local.fakekubelet.behaviour import Behaviour
from sunk.local.fakekubelet.settings import FLEET, Settings

LEASE_NAMESPACE: Final = "kube-node-lease"
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")


def body(settings: Settings, number: int, *, wall: datetime) -> dict[str, Any]:
    """Build a Node complete with its status: the only moment at which the API takes both in one write."""
    name = settings.name_of(number)
    trait = settings.trait(name)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **settings.labels,
        **trait.labels,
        FLEET: settings.fleet,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": settings.taints + trait.taints},
        "status": _status(settings, name=name, address=settings.numbered(number), wall=wall),
    }


def plan(
    node: Node, *, settings: Settings, behaviour: Behaviour, address: str, wall: datetime
) -> dict[str, Any] | None:
    """Return what has to be written into a Node's status: nothing, if it says what its kubelet would say."""
    if behaviour.silent:
        return None
    found = condition(node.status.conditions, "Ready")
    if not node.status.capacity or found is None:
        return _status(settings, name=node.metadata.name, address=address, wall=wall, ready=behaviour.ready)
    if (found.status == "True") == behaviour.ready and found.status != "Unknown":
        return None
    # The node controller turns all of them to Unknown when a lease runs out, so all are said again.
    return {"conditions": _conditions(ready=behaviour.ready, wall=wall)}


def lease(node: Metadata, *, settings: Settings, version: str, wall: datetime) -> dict[str, Any]:
    """Build a renewed lease; it belongs to its Node, so that it goes with it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    metadata = {
        "name": node.name,
        "namespace": LEASE_NAMESPACE,
        "labels": {FLEET: settings.fleet},
        "ownerReferences": [owner],
    }
    return {
        "metadata": metadata | ({"resourceVersion": version} if version else {}),
        "spec": {
            "holderIdentity": node.name,
            "leaseDurationSeconds": round(settings.grace),
            "renewTime": _micro(wall),
        },
    }


def _micro(wall: datetime) -> str:
    # Written by hand: the API wants six digits always, and msgspec leaves them out once in a million times.
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _status(settings: Settings, *, name: str, address: str, wall: datetime, ready: bool = True) -> dict[str, Any]:
    return {
        "capacity": settings.capacity(name),
        "allocatable": settings.capacity(name),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": _conditions(ready=ready, wall=wall),
        "nodeInfo": _INFO,
    }


def _conditions(*, ready: bool, wall: datetime) -> list[dict[str, Any]]:
    state = ("True", "KubeletReady") if ready else ("False", "KubeletNotReady")
    said = {"Ready": state} | dict.fromkeys(_PRESSURES, ("False", "KubeletHasNoPressure"))
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "said by the fake kubelet",
            "lastHeartbeatTime": wall,
            "lastTransitionTime": wall,
        }
        for kind, (status, reason) in said.items()
    ]


_INFO: Final = {
    "machineID": "fake",
    "systemUUID": "fake",
    "bootID": "fake",
    "kernelVersion": "fake",
    "osImage": "fake",
    "containerRuntimeVersion": "fake://1",
    "kubeletVersion": "v1.36.3-fake",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}
