"""Names and labels of a cluster's objects."""

from typing import Any, Final

from msgspec import Struct

from sunk.model import names
from sunk.model.contract import people
from sunk.operator.slurmcluster.resolve import ResolvedCluster

INSTANCE: Final = "app.kubernetes.io/instance"
SUNK: Final = names.SUNK
CONFIG_HASH: Final = names.CONFIG_HASH
"""Annotation of a Pod template: hash of that part of the configuration which only a restart brings into force; and of
the ConfigMap: hash of all of it."""


SCRIPTS_HASH: Final = names.SCRIPTS_HASH
"""Annotation of Pods: hash of the scripts that run when they start."""


class Component(Struct, frozen=True):
    """A component of a cluster, under the names by which people and dashboards find it."""

    app: str
    name: str


CONTROLLER: Final = Component("slurmctld", name="controller")
ACCOUNTING: Final = Component("slurmdbd", name="accounting")
DATABASE: Final = Component("slurm-mysql", name="mysql")
LOGIN: Final = Component("sshd", name="login")
REST: Final = Component("slurmrestd", name="rest")
SYNCER: Final = Component("sunk-syncer", name="syncer")
DIRECTORY: Final = Component("sunk-directory", name=people.AGENT)
COMPUTE: Final = Component(names.SLURMD, name=names.COMPUTE)
CONFIGURATION: Final = Component("slurm", name="configuration")


def labels(cluster: ResolvedCluster, component: Component) -> dict[str, str]:
    return selector(cluster, component) | {
        names.PART_OF: cluster.name,
        names.MANAGED_BY: SUNK,
        INSTANCE: cluster.name,
    }


def selector(cluster: ResolvedCluster, component: Component) -> dict[str, str]:
    """What finds the Pods of a component. Kubernetes lets nobody change it later."""
    return {names.APP: component.app, names.COMPONENT: component.name, names.CLUSTER: cluster.name}


def metadata(
    cluster: ResolvedCluster,
    component: Component,
    *,
    name: str = "",
    annotations: dict[str, str] | None = None,
    owned: bool = True,
) -> dict[str, Any]:
    """The metadata of an object; its name is that of the component unless given. What is not owned outlives the cluster."""
    made: dict[str, Any] = {
        "name": cluster.named(name or component.name),
        "namespace": cluster.namespace,
        "labels": labels(cluster, component),
    }
    if annotations:
        made["annotations"] = annotations
    return made | ({"ownerReferences": [_owner(cluster)]} if owned and cluster.uid else {})


def _owner(cluster: ResolvedCluster) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "SlurmCluster",
        "name": cluster.name,
        "uid": cluster.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
