"""Volumes for claims: folders of this machine.

All nodes of a local cluster share this machine's file system, so a folder is on every node at once. The default class
binds at once and lets a Pod follow its volume anywhere. The other behaves as disks in a node do: it waits for the
first Pod and then ties the volume to that Pod's node.
"""

import asyncio
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from sunk.kube.client import Client
from sunk.kube.core import CLAIMS, VOLUMES, PersistentVolume, PersistentVolumeClaim
from sunk.kube.errors import AlreadyExists, KubeError, NotFound
from sunk.kube.resource import Key, R, Resource
from sunk.kube.view import Changed, Deleted
from sunk.kube.watch import watch
from sunk.local.progress import note

PROVISIONER: Final = "local.sunk/host-folder"
ANYWHERE: Final = "host-folder"
ON_NODE: Final = "host-folder-on-node"
ASKED_OF: Final = "volume.kubernetes.io/storage-provisioner"
MADE_BY: Final = "pv.kubernetes.io/provisioned-by"
CHOSEN_NODE: Final = "volume.kubernetes.io/selected-node"
READ_WRITE_BY_ALL: Final = 0o777


def classes() -> Iterator[dict[str, Any]]:
    for name, binding in ((ANYWHERE, "Immediate"), (ON_NODE, "WaitForFirstConsumer")):
        default = str(name == ANYWHERE).lower()
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default}},
            "provisioner": PROVISIONER,
            "volumeBindingMode": binding,
            "reclaimPolicy": "Delete",
        }


class Make(msgspec.Struct, frozen=True):
    """A claim waits for its volume."""

    name: str
    claim: PersistentVolumeClaim


class Remove(msgspec.Struct, frozen=True):
    """A volume's claim is gone, and its data goes with it."""

    name: str


def plan(claims: Iterable[PersistentVolumeClaim], volumes: Iterable[PersistentVolume]) -> Iterator[Make | Remove]:
    """Say what is missing and what is over. A volume is named after its claim's uid, so it is made only once."""
    ours = {each.metadata.name: each for each in volumes if each.metadata.annotations.get(MADE_BY) == PROVISIONER}
    for claim in claims:
        name = f"claim-{claim.metadata.uid}"
        waits = claim.status.phase == "Pending" and not claim.metadata.deletion_timestamp
        if waits and _ready_for_us(claim) and name not in ours:
            yield Make(name=name, claim=claim)
    for name, volume in ours.items():
        if volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete":
            yield Remove(name=name)


def _ready_for_us(claim: PersistentVolumeClaim) -> bool:
    notes = claim.metadata.annotations
    placed = claim.spec.storage_class_name != ON_NODE or CHOSEN_NODE in notes
    return notes.get(ASKED_OF) == PROVISIONER and claim.spec.volume_mode == "Filesystem" and placed


def volume(make: Make, *, folder: Path) -> dict[str, Any]:
    claim, spec = make.claim.metadata, make.claim.spec
    node = claim.annotations.get(CHOSEN_NODE) if spec.storage_class_name == ON_NODE else None
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}}} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": make.name, "annotations": {MADE_BY: PROVISIONER}},
        "spec": {
            "accessModes": list(spec.access_modes),
            "capacity": {"storage": spec.resources.requests.get("storage", "1Gi")},
            "claimRef": {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid},
            "hostPath": {"path": str(folder / make.name), "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.storage_class_name,
            **affinity,
        },
    }


async def serve(kube: Client, *, folder: Path) -> None:
    claims: dict[Key, PersistentVolumeClaim] = {}
    volumes: dict[Key, PersistentVolume] = {}
    news = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(kube, CLAIMS, claims, news=news), name="claims")
        tasks.create_task(_follow(kube, VOLUMES, volumes, news=news), name="volumes")
        while True:
            await news.wait()
            news.clear()
            for action in list(plan(claims.values(), volumes.values())):
                await _carry_out(kube, action, folder=folder)


async def _follow(kube: Client, resource: Resource[R], known: dict[Key, R], *, news: asyncio.Event) -> None:
    async with watch(kube, resource) as events:
        async for event in events:
            if isinstance(event, Changed):
                known[event.object.key] = event.object
            elif isinstance(event, Deleted):
                known.pop(event.object.key, None)
            news.set()


async def _carry_out(kube: Client, action: Make | Remove, *, folder: Path) -> None:
    path = folder / action.name
    try:
        if isinstance(action, Make):
            path.mkdir(parents=True, exist_ok=True)
            # A folder has no owner that Kubernetes would change for a Pod, and Pods run as anybody.
            path.chmod(READ_WRITE_BY_ALL)
            await kube.create(VOLUMES, volume(action, folder=folder))
        else:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            await kube.delete(VOLUMES, action.name)
    except (AlreadyExists, NotFound):
        pass  # done before; our copy has not heard of it yet
    except KubeError as trouble:
        note(f"{type(action).__name__} {action.name}: {trouble}")
