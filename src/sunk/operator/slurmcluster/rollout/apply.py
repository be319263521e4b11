"""Bring the objects of a cluster to what they should be: applied, with a name of our own as the manager of the fields.

Server-side apply leaves alone what others have set (`kubectl rollout restart` puts an annotation into the template of a
Deployment) and takes away what we no longer say. An object that is applied as it is costs a request and changes
nothing.

By force, since our fields are ours; so first of all the object has to be. One of our name that somebody else has made is
never taken over: it is named, and a person decides. An object is ours if the SlurmCluster controls it, by uid; one that
outlives the cluster, if it carries our labels. Whose it is is asked once, and its uid kept: it goes along with what is
applied, so that another of the same name is not met.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from sunk.kube.api.client import Client, Deletion, Preconditions, Scope
from sunk.kube.api.patch import Apply
from sunk.kube.core import CONFIG_MAPS, SERVICES
from sunk.kube.errors import Conflict, Invalid, NotFound
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NODESETS
from sunk.operator.slurmcluster.rollout.status import Workload

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


_RENAME: Final = "Delete or rename it, or choose another name for the SlurmCluster."
_ADVICE: Final = {
    "PersistentVolumeClaim": "If this cluster should use its data, set it as existingClaim; otherwise rename one of the two."
}

At = tuple[str, str, str, str]
"""Namespace, cluster, kind and name."""
Known = dict[At, str]
"""The uid of each object that was found to be ours; empty where there was none."""


async def check_owned(client: Client, objects: Iterable[dict[str, Any]], *, known: Known) -> None:
    """Refuse to go on where an object of somebody else has the name of one of ours."""
    for body in objects:
        if not known.get(_at(body)):
            known[_at(body)] = await _uid(client, body)


async def apply(client: Client, objects: Iterable[dict[str, Any]], *, known: Known | None = None) -> None:
    held = {} if known is None else known
    for body in objects:
        if _at(body) not in held:
            held[_at(body)] = await _uid(client, body)
        try:
            await _apply(client, body, held)
        except (Conflict, Invalid, NotFound):
            # Perhaps it is another by now. If it is not, the same refusal comes again and is the answer.
            held[_at(body)] = await _uid(client, body)
            await _apply(client, body, held)


async def _apply(client: Client, body: dict[str, Any], known: Known) -> None:
    at, uid = body["metadata"], known.pop(_at(body))
    wanted = body | {"metadata": at | ({"uid": uid} if uid else {})}
    patch = Apply(wanted, manager=MANAGER, force=True)
    made = await client.patch(KINDS[body["kind"]], at["name"], patch, namespace=at["namespace"])
    known[_at(body)] = made.metadata.uid


def _at(body: dict[str, Any]) -> At:
    at = body["metadata"]
    return at["namespace"], at["labels"].get(names.CLUSTER, ""), body["kind"], at["name"]


async def _uid(client: Client, body: dict[str, Any]) -> str:
    """The uid of our object; empty if there is none. One of somebody else is refused."""
    kind, at = body["kind"], body["metadata"]
    try:
        record: Record = await client.get(replace(KINDS[kind], record=Record), at["name"], namespace=at["namespace"])
    except NotFound:
        return ""
    if not _is_ours(record, body):
        told = f"{kind} {at['namespace']}/{at['name']} already exists and does not belong to this SlurmCluster: nothing was changed."
        raise Refusal(f"{told} {_ADVICE.get(kind, _RENAME)}")
    return record.metadata.uid


def _is_ours(record: Record, body: dict[str, Any]) -> bool:
    owners = {owner["uid"] for owner in body["metadata"].get("ownerReferences", ())}
    if owners:
        return any(_owned(record, uid) for uid in owners)
    marks = (names.CLUSTER, names.MANAGED_BY)
    return all(record.metadata.labels.get(key) == body["metadata"]["labels"].get(key) for key in marks)


async def prune(client: Client, objects: Sequence[dict[str, Any]], *, namespace: str, cluster: str, uid: str) -> int:
    """Delete what is of this cluster, by label and owner, and not among the objects. Returns how much that was."""
    wanted = {(body["kind"], body["metadata"]["name"]) for body in objects}
    count = 0
    for kind in PRUNED:
        ours = Scope(namespace=namespace, labels=f"{names.CLUSTER}={cluster},{names.MANAGED_BY}=sunk")
        for record in (await client.list(KINDS[kind], ours)).items:
            if (kind, record.metadata.name) not in wanted and _owned(record, uid):
                count += await _delete(client, KINDS[kind], record)
    return count


def _owned(record: Record, uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in record.metadata.owner_references)


async def _delete(client: Client, resource: Resource[Any], record: Record) -> bool:
    if record.metadata.deletion_timestamp is not None:
        return False
    at = Preconditions(uid=record.metadata.uid, resource_version=record.metadata.resource_version)
    deletion = Deletion(preconditions=at, propagation_policy="Background")
    try:
        await client.delete(resource, record.metadata.name, deletion, namespace=record.metadata.namespace)
    except NotFound:
        return False
    return True
