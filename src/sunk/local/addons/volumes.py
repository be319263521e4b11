"""Volumes for claims: folders of this machine.

All nodes of a local cluster share this machine's file system, so a folder is on every node at once. The default class
binds at once and lets a Pod follow its volume anywhere. The other behaves as disks in a node do: it waits for the
first Pod and then ties the volume to that Pod's node.

They are volumes of the kind `local`, for which the kubelet does what it does for those of a cloud: where a Pod names an
fsGroup it gives the files to that group. On a hostPath it would not, and a folder would have to be open to everybody.
"""

import asyncio
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Source
from sunk.kube.core import PersistentVolume, PersistentVolumeClaim
from sunk.kube.resource import Key

PROVISIONER: Final = "local.sunk/host-folder"
ANYWHERE: Final = "host-folder"
ON_NODE: Final = "host-folder-on-node"
ASKED_OF: Final = "volume.kubernetes.io/storage-provisioner"
MADE_BY: Final = "pv.kubernetes.io/provisioned-by"
CHOSEN_NODE: Final = "volume.kubernetes.io/selected-node"
PERMISSIONS: Final = 0o755
"""Of root, as a file system is that was just made."""


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


class MakeVolume(msgspec.Struct, frozen=True):
    """A claim waits for its volume."""

    name: str
    claim: PersistentVolumeClaim


class RemoveVolume(msgspec.Struct, frozen=True):
    """A volume's claim is gone, and its data goes with it."""

    name: str


def plan(
    claims: Iterable[PersistentVolumeClaim], volumes: Iterable[PersistentVolume]
) -> Iterator[MakeVolume | RemoveVolume]:
    """Say what is missing and what is over. A volume is named after its claim's uid, so it is made only once."""
    ours = {each.metadata.name: each for each in volumes if each.metadata.annotations.get(MADE_BY) == PROVISIONER}
    for claim in claims:
        name = f"claim-{claim.metadata.uid}"
        waits = claim.status.phase == "Pending" and not claim.metadata.deletion_timestamp
        if waits and _ready_for_us(claim) and name not in ours:
            yield MakeVolume(name=name, claim=claim)
    for name, volume in ours.items():
        if volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete":
            yield RemoveVolume(name=name)


def _ready_for_us(claim: PersistentVolumeClaim) -> bool:
    notes = claim.metadata.annotations
    placed = claim.spec.storage_class_name != ON_NODE or CHOSEN_NODE in notes
    return notes.get(ASKED_OF) == PROVISIONER and claim.spec.volume_mode == "Filesystem" and placed


def volume(make: MakeVolume, *, folder: Path) -> dict[str, Any]:
    claim, spec = make.claim.metadata, make.claim.spec
    node = claim.annotations.get(CHOSEN_NODE) if spec.storage_class_name == ON_NODE else None
    # A volume of this kind has to say where it is, so it says everywhere.
    key, value = ("kubernetes.io/hostname", node) if node else ("kubernetes.io/os", "linux")
    match = {"key": key, "operator": "In", "values": [value]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": make.name, "annotations": {MADE_BY: PROVISIONER}},
        "spec": {
            "accessModes": list(spec.access_modes),
            "capacity": {"storage": spec.resources.requests.get("storage", "1Gi")},
            "claimRef": {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid},
            "local": {"path": str(folder / make.name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.storage_class_name,
        },
    }


def controller(
    claims: Collection[PersistentVolumeClaim], volumes: Collection[PersistentVolume], *, folder: Path
) -> Controller[str]:
    """Look at all of them whenever one changes: there are few, and a volume belongs to two kinds of objects."""

    async def reconcile(_: str) -> None:
        for action in list(plan(claims.store.all(), volumes.store.all())):
            await _carry_out(action, volumes=volumes, folder=folder)

    sources = [Source(store, lambda _: ("all",)) for store in (claims.store, volumes.store)]
    return Controller("volumes", reconcile, sources=sources)


async def _carry_out(action: MakeVolume | RemoveVolume, *, volumes: Collection[PersistentVolume], folder: Path) -> None:
    path, key = folder / action.name, Key("", action.name)
    if isinstance(action, MakeVolume):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(PERMISSIONS)
        await volumes.create(key, volume(action, folder=folder))
    else:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        await volumes.delete(key)
