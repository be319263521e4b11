"""A stolen token of a syncer on a real API server that has the policies of the chart: what it is of no use for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Struct, json
from tests import policies
from tests.conftest import Kube

from sunk.kube.api.client import Client, Deletion
from sunk.kube.api.patch import Merge, Patch, Strategic
from sunk.kube.core import LEASES, NODES, PODS
from sunk.kube.errors import Forbidden
from sunk.kube.resource import Record, Resource
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names
from sunk.model.cluster.kind import OF_SYNCER, SLURMCLUSTER
from sunk.model.contract import syncerwrites
from sunk.model.nodeset import NODESET
from sunk.model.nodeslice import NODESLICE
from sunk.objects.nodesets import NODESETS, NODESLICES, owned_by
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.operator.slurmcluster.rollout.apply import KINDS

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(Record, group=RBAC, version="v1", plural="clusterroles", namespaced=False)
CLUSTER_BINDINGS = Resource(Record, group=RBAC, version="v1", plural="clusterrolebindings", namespaced=False)
OURS, THEIRS = "slurm", "other"
TIME = "2026-01-01T00:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": TIME}
DIED = [{"name": "slurmd", "image": "none", "imageID": "", "ready": False, "restartCount": 1}]
DIED[0] |= {"state": {"terminated": {"exitCode": 0, "message": "forged"}}}


class Thief(Struct, frozen=True):
    """Who has the token of the syncer of the cluster `slurm`."""

    client: Client
    kube: Kube

    async def writes(self, name: str, patch: Patch, *, resource: Resource[Any] = PODS) -> None:
        await self.client.patch(resource, name, patch, namespace=self.kube.namespace, subresource="status")

    async def fails(self, name: str, patch: Patch, *, resource: Resource[Any] = PODS, because: str) -> None:
        with pytest.raises(Forbidden, match=because):
            await self.writes(name, patch, resource=resource)


@pytest.fixture
async def thief(policed: LocalCluster, kube: Kube) -> AsyncIterator[Thief]:
    assert policed is kube.cluster
    token = await policies.account(kube.client, kube.namespace, cluster=OURS)
    async with policies.speaking(kube.kubeconfig, token, namespace=kube.namespace) as client:
        yield Thief(client, kube)


async def node_set(kube: Kube, cluster: str) -> dict[str, Any]:
    """Make a NodeSet, and give the reference by which it owns something."""
    kind = {"apiVersion": NODESET.api_version, "kind": NODESET.name, "metadata": {"name": f"{cluster}-cpu"}}
    spec = {"cluster": cluster, "template": {"spec": {"containers": [{"name": "slurmd", "image": "none"}]}}}
    made = await kube.client.create(NODESETS, kind | {"spec": spec}, namespace=kube.namespace)
    return owned_by(made) | {"blockOwnerDeletion": False}


async def compute_pod(kube: Kube, *owners: dict[str, Any], name: str = "a1", cluster: str = OURS) -> None:
    """Make a Pod that runs, by the word of its kubelet."""
    labels = {"app": "x"} | ({names.CLUSTER: cluster} if cluster else {})
    notes = {names.PENDING_DELETION: "scale-in", names.ORDER: "{}"}
    at = {"name": name, "labels": labels, "annotations": notes, "ownerReferences": list(owners)}
    spec = {"containers": [{"name": "slurmd", "image": "none"}]}
    await kube.client.create(PODS, {"metadata": at, "spec": spec}, namespace=kube.namespace)
    status = {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [READY]}
    await kube.client.patch(PODS, name, Strategic({"status": status}), namespace=kube.namespace, subresource="status")


def condition(kind: str, status: str = "True") -> Strategic:
    said = {"type": kind, "status": status, "reason": "Said", "lastTransitionTime": TIME}
    return Strategic({"status": {"conditions": [said]}})


def metadata(**fields: Any) -> Merge:
    return Merge({"metadata": fields})


async def test_all_that_a_syncer_writes_on_its_pods_passes(thief: Thief) -> None:
    await compute_pod(thief.kube, await node_set(thief.kube, OURS))
    for kind in syncerwrites.POD_CONDITIONS:
        await thief.writes("a1", condition(kind))
        await thief.writes("a1", condition(kind, "False"))
    for value in ("true", "false", None):
        await thief.writes("a1", metadata(labels=dict.fromkeys(syncerwrites.POD_LABELS, value)))
        await thief.writes("a1", metadata(annotations=dict.fromkeys(syncerwrites.POD_ANNOTATIONS, value)))


async def test_it_writes_to_a_pod_that_lost_its_labels_and_to_one_that_ends(thief: Thief) -> None:
    kube = thief.kube
    await compute_pod(kube, await node_set(kube, OURS), cluster="")
    await thief.writes("a1", condition(names.SLURM_DRAIN))
    await kube.client.patch(PODS, "a1", metadata(finalizers=["example.com/held"]), namespace=kube.namespace)
    await kube.client.delete(PODS, "a1", Deletion(grace_period_seconds=30), namespace=kube.namespace)
    await thief.writes("a1", condition(names.SLURM_DRAIN, "False"))
    await thief.writes("a1", metadata(labels={names.RUNNING: "false"}))
    await kube.client.patch(PODS, "a1", metadata(finalizers=None), namespace=kube.namespace)


FORGED_STATUS: list[Patch] = [
    Merge({"status": {"phase": "Failed"}}),
    Merge({"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}),
    Merge({"status": {"containerStatuses": DIED}}),
    Merge({"status": {"reason": "Evicted", "message": "forged"}}),
    Merge({"status": {"conditions": []}}),
    Merge({"status": None}),
    condition("Ready", "False"),
    condition("DisruptionTarget"),
    condition(names.HPC_VERIFICATION),
    Strategic({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
]


async def test_it_cannot_speak_for_the_kubelet(thief: Thief) -> None:
    await compute_pod(thief.kube, await node_set(thief.kube, OURS))
    for forged in FORGED_STATUS:
        await thief.fails("a1", forged, because="only change its own conditions in the Pod status")


async def test_it_changes_no_other_label_annotation_finalizer(thief: Thief) -> None:
    await compute_pod(thief.kube, await node_set(thief.kube, OURS))
    for labels in ({"app": "y"}, {"app": None}, {names.CLUSTER: THEIRS}, {names.CLUSTER: None}, {"new": "1"}):
        await thief.fails("a1", metadata(labels=labels), because="only change the labels")
    for key in (names.PENDING_DELETION, names.ORDER, names.CORDON, names.KEPT_DRAIN, names.FEATURES, "kubectl/x"):
        await thief.fails("a1", metadata(annotations={key: "forged"}), because="only change the annotations")
    await thief.fails("a1", metadata(annotations=None), because="only change the annotations")
    await thief.fails("a1", metadata(annotations={names.ORDER: None}), because="only change the annotations")
    await thief.fails("a1", metadata(finalizers=["example.com/stay"]), because="must not change owners or finalizers")


async def test_it_does_not_touch_pods_that_are_no_compute_pods_of_its_cluster(thief: Thief) -> None:
    kube = thief.kube
    theirs, ours = await node_set(kube, THEIRS), await node_set(kube, OURS)
    await compute_pod(kube, name="nobodys")
    await compute_pod(kube, theirs, name="theirs", cluster=THEIRS)
    await compute_pod(kube, ours | {"controller": False}, name="not-controlled")
    await compute_pod(kube, ours | {"apiVersion": "apps/v1", "kind": "NodeSet"}, name="of-another-kind")
    for name in ("nobodys", "theirs", "not-controlled", "of-another-kind"):
        for harmless in (condition(names.SLURM_DRAIN), metadata(annotations={names.RESTART: "1:x"})):
            await thief.fails(name, harmless, because="compute Pods of its own cluster")


async def test_it_releases_no_name_of_another_cluster(thief: Thief) -> None:
    kube, kind = thief.kube, {"apiVersion": NODESLICE.api_version, "kind": NODESLICE.name}
    for cluster in (OURS, THEIRS):
        spec = {"nodeSet": cluster, "nodeSetUid": "1", "cluster": cluster, "entries": []}
        body = kind | {"metadata": {"name": f"{cluster}-0"}, "spec": spec}
        await kube.client.create(NODESLICES, body, namespace=kube.namespace)
    release = Merge({"status": {"released": ["a1"]}})
    await thief.writes(f"{OURS}-0", release, resource=NODESLICES)
    await thief.fails(f"{THEIRS}-0", release, resource=NODESLICES, because="NodeSlices of its own cluster")


async def test_it_writes_its_report_and_not_what_the_operator_says(thief: Thief) -> None:
    kube, kind = thief.kube, {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name}
    await kube.client.create(SLURMCLUSTERS, kind | {"metadata": {"name": OURS}, "spec": {}}, namespace=kube.namespace)
    told: dict[str, Any] = {"syncer": {"version": "24.11.5"}, "suspicionAnswered": "word"}
    assert set(told) == set(OF_SYNCER)
    await thief.writes(OURS, Merge({"status": told}), resource=SLURMCLUSTERS)
    await thief.writes(OURS, Merge({"status": dict.fromkeys(OF_SYNCER)}), resource=SLURMCLUSTERS)
    for forged in ({"configApplied": "x"}, {"nodesReady": 7}, {"observedGeneration": 9}):
        await thief.fails(OURS, Merge({"status": forged}), resource=SLURMCLUSTERS, because="only change status.syncer")


async def test_it_takes_the_lead_of_no_other_process(thief: Thief) -> None:
    at = thief.kube.namespace
    with pytest.raises(Forbidden, match="its own Lease"):
        await thief.client.create(LEASES, {"metadata": {"name": "sunk-controller-manager"}}, namespace=at)
    await thief.client.create(LEASES, {"metadata": {"name": "slurm-syncer"}}, namespace=at)


async def test_an_account_of_others_whose_name_ends_alike_is_not_held_to_it(thief: Thief) -> None:
    kube, at, name = thief.kube, thief.kube.namespace, "vault-syncer"
    rights = {"rules": [_every("", "pods", "pods/status"), _every("coordination.k8s.io", "leases")]}
    bound = {"kind": "ServiceAccount", "name": name, "namespace": at}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    bodies: dict[str, dict[str, Any]] = {
        "ServiceAccount": {},
        "Role": rights,
        "RoleBinding": {"roleRef": role, "subjects": [bound]},
    }
    for kind, body in bodies.items():
        await kube.client.create(KINDS[kind], {"metadata": {"name": name}, **body}, namespace=at)
    await compute_pod(kube, name="nobodys")
    token = await policies.token_of(kube.client, at, account=name)
    async with policies.granted(kube.kubeconfig, token, namespace=at) as client:
        await client.create(LEASES, {"metadata": {"name": "vault-leader"}}, namespace=at)
        for said in (condition("Ready", "False"), metadata(labels={"app": "y"})):
            await client.patch(PODS, "nobodys", said, namespace=at, subresource="status")


def _every(group: str, *resources: str) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["*"]}


async def test_others_are_not_held_to_it(thief: Thief) -> None:
    await compute_pod(thief.kube, name="nobodys")
    admin, at = thief.kube.client, thief.kube.namespace
    await admin.patch(PODS, "nobodys", condition("Ready", "False"), namespace=at, subresource="status")


async def test_kubernetes_finds_no_fault_in_the_types_of_the_expressions(thief: Thief) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    async with asyncio.timeout(60):
        while True:
            found = json.decode(await thief.kube.client.request("GET", path))["items"]
            ours = [
                one for one in found if one["metadata"]["name"].startswith("sunk-controller-manager-default-syncer")
            ]
            if all("observedGeneration" in one.get("status", {}) for one in ours):
                break
            await asyncio.sleep(0.2)
    assert len(ours) == 5
    assert [one["status"]["typeChecking"] for one in ours] == [{}] * 5


@pytest.fixture
async def node(thief: Thief) -> AsyncIterator[str]:
    """A Node of the cluster, to which its syncer may write as far as Roles go (nodePermissions)."""
    kube, name = thief.kube, thief.kube.namespace
    labels = {names.NAMESPACE: kube.namespace, names.CLUSTER: OURS}
    await kube.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
    await kube.client.patch(NODES, name, Strategic({"status": {"conditions": [READY]}}), subresource="status")
    rule = {"apiGroups": [""], "resources": ["nodes/status", "nodes"], "verbs": ["patch"]}
    await kube.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
    subject = {
        "kind": "ServiceAccount",
        "name": f"{OURS}{syncerwrites.ACCOUNT_SUFFIX}",
        "namespace": kube.namespace,
    }
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    await kube.client.create(CLUSTER_BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    async with asyncio.timeout(30):
        while True:
            with suppress(Forbidden):
                await thief.client.patch(NODES, name, condition("PhaseState"), subresource="status")
                break
            await asyncio.sleep(0.1)
    yield name
    made: tuple[Resource[Any], ...] = (CLUSTER_BINDINGS, CLUSTER_ROLES, NODES)
    for resource in made:
        await kube.client.delete(resource, name)


async def test_with_the_right_to_write_to_nodes_it_asks_for_a_reboot_and_no_more(thief: Thief, node: str) -> None:
    async def fails(patch: Patch, *, because: str, subresource: str = "status") -> None:
        with pytest.raises(Forbidden, match=because):
            await thief.client.patch(NODES, node, patch, subresource=subresource)

    await thief.client.patch(NODES, node, condition("PhaseState", "False"), subresource="status")
    await fails(condition("Ready", "False"), because="conditions that kubelets report")
    await fails(condition("DiskPressure"), because="conditions that kubelets report")
    await fails(Merge({"status": {"conditions": []}}), because="conditions that kubelets report")
    await fails(Merge({"status": {"capacity": {"cpu": "999"}}}), because="only change conditions")
    await fails(
        Merge({"status": {"addresses": [{"type": "Hostname", "address": "x"}]}}), because="only change conditions"
    )
    await fails(metadata(labels={"a": "b"}), because="must not change the metadata")
    await fails(metadata(labels={"a": "b"}), because="must not change the metadata", subresource="")

    patch = metadata(labels={names.CLUSTER: THEIRS})
    await thief.kube.client.patch(NODES, node, patch)
    await fails(condition("PhaseState"), because="Nodes of its own cluster")
