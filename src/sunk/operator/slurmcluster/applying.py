"""Bring the objects of a cluster to what they should be: applied, with a name of our own as the manager of the fields.

Server-side apply leaves alone what others have set (`kubectl rollout restart` puts an annotation into the template of a
Deployment) and takes away what we no longer say. An object that is applied as it is costs a request and changes
nothing, so nothing is remembered here.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sunk.kube.client import Client, Deletion, Preconditions, Scope
from sunk.kube.core import CONFIG_MAPS, SERVICES
from sunk.kube.errors import NotFound
from sunk.kube.patch import Apply
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.objects.members import NODESETS
from sunk.operator.slurmcluster.availability import Workload

MANAGER: Final = "sunk-slurmcluster"

DEPLOYMENTS: Final = Resource(Workload, group="apps", version="v1", plural="deployments")
STATEFULSETS: Final = Resource(Workload, group="apps", version="v1", plural="statefulsets")
CLAIMS: Final = Resource(Record, version="v1", plural="persistentvolumeclaims")
ACCOUNTS: Final = Resource(Record, version="v1", plural="serviceaccounts")
ROLES: Final = Resource(Record, group="rbac.authorization.k8s.io", version="v1", plural="roles")
BINDINGS: Final = Resource(Record, group="rbac.authorization.k8s.io", version="v1", plural="rolebindings")
BUDGETS: Final = Resource(Record, group="policy", version="v1", plural="poddisruptionbudgets")
POLICIES: Final = Resource(Record, group="networking.k8s.io", version="v1", plural="networkpolicies")
KINDS: Final[dict[str, Resource[Any]]] = {
    "ConfigMap": CONFIG_MAPS,
    "Service": SERVICES,
    "PersistentVolumeClaim": CLAIMS,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFULSETS,
    "PodDisruptionBudget": BUDGETS,
    "NetworkPolicy": POLICIES,
    "ServiceAccount": ACCOUNTS,
    "Role": ROLES,
    "RoleBinding": BINDINGS,
    "NodeSet": NODESETS,
}
PRUNED: Final = (
    *("NodeSet", "StatefulSet", "Deployment", "Service", "ConfigMap"),
    *("PodDisruptionBudget", "NetworkPolicy", "RoleBinding", "Role", "ServiceAccount"),
)
"""What is taken away when it is no longer wanted. Claims and Secrets hold what nobody could bring back."""


async def apply(client: Client, objects: Iterable[dict[str, Any]]) -> None:
    for body in objects:
        at = body["metadata"]
        patch = Apply(body, manager=MANAGER, force=True)
        await client.patch(KINDS[body["kind"]], at["name"], patch, namespace=at["namespace"])


async def prune(client: Client, objects: Sequence[dict[str, Any]], *, namespace: str, cluster: str, uid: str) -> int:
    """Delete what is of this cluster, by label and owner, and not among the objects. Returns how much that was."""
    wanted = {(body["kind"], body["metadata"]["name"]) for body in objects}
    count = 0
    for kind in PRUNED:
        ours = Scope(namespace=namespace, labels=f"{names.CLUSTER}={cluster},{names.MANAGED_BY}=sunk")
        for found in (await client.list(KINDS[kind], ours)).items:
            if (kind, found.metadata.name) not in wanted and _owned(found, uid):
                count += await _delete(client, KINDS[kind], found)
    return count


def _owned(found: Record, uid: str) -> bool:
    return any(one.controller and one.uid == uid for one in found.metadata.owner_references)


async def _delete(client: Client, resource: Resource[Any], found: Record) -> bool:
    if found.metadata.deletion_timestamp is not None:
        return False
    at = Preconditions(uid=found.metadata.uid, resource_version=found.metadata.resource_version)
    how = Deletion(preconditions=at, propagation_policy="Background")
    try:
        await client.delete(resource, found.metadata.name, how, namespace=found.metadata.namespace)
    except NotFound:
        return False
    return True
