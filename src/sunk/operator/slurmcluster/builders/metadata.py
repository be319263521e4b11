"""Names and labels of a cluster's objects."""

from typing import Any, Final

from msgspec import Struct

from sunk.model import names
from sunk.operator.slurmcluster.view import Cluster

INSTANCE: Final = "app.kubernetes.io/instance"
SUNK: Final = names.SUNK
CONFIG_HASH: Final = names.CONFIG_HASH
"""Annotation of a Pod template: hash of that part of the configuration which only a restart brings into force; and of
the ConfigMap: hash of all of it."""


class Part(Struct, frozen=True):
    """A part of a cluster, under the names by which people and dashboards find it."""

    app: str
    component: str


CONTROLLER: Final = Part("slurmctld", component="controller")
ACCOUNTING: Final = Part("slurmdbd", component="accounting")
DATABASE: Final = Part("slurm-mysql", component="mysql")
LOGIN: Final = Part("sshd", component="login")
REST: Final = Part("slurmrestd", component="rest")
SYNCER: Final = Part("sunk-syncer", component="syncer")
COMPUTE: Final = Part(names.SLURMD, component=names.COMPUTE)
CONFIGURATION: Final = Part("slurm", component="configuration")


def labels(cluster: Cluster, part: Part) -> dict[str, str]:
    return selector(cluster, part) | {
        names.PART_OF: cluster.name,
        names.MANAGED_BY: SUNK,
        INSTANCE: cluster.name,
    }


def selector(cluster: Cluster, part: Part) -> dict[str, str]:
    """What finds the Pods of a part. Kubernetes lets nobody change it later."""
    return {names.APP: part.app, names.COMPONENT: part.component, names.CLUSTER: cluster.name}


def metadata(
    cluster: Cluster, part: Part, *, name: str = "", annotations: dict[str, str] | None = None, owned: bool = True
) -> dict[str, Any]:
    """The metadata of an object; its name is that of the part unless told. What is not owned outlives the cluster."""
    made: dict[str, Any] = {
        "name": cluster.named(name or part.component),
        "namespace": cluster.namespace,
        "labels": labels(cluster, part),
    }
    if annotations:
        made["annotations"] = annotations
    return made | ({"ownerReferences": [_owner(cluster)]} if owned and cluster.uid else {})


def _owner(cluster: Cluster) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "SlurmCluster",
        "name": cluster.name,
        "uid": cluster.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
