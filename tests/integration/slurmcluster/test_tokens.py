"""The syncer's token on a real API server: what it is granted, and what it tries in vain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import json
from tests import policies
from tests.conftest import Kube, Kubectl
from tests.integration.slurmcluster.test_syncer_policy import compute_pod, node_set
from tests.unit.operator.slurmcluster.test_tokens import SYNCER, table

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS, PODS
from sunk.kube.errors import ApiError, Forbidden
from sunk.kube.resource import Record, Resource
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER, SlurmClusterSpec
from sunk.objects.slurmclusters import SLURMCLUSTERS

SECRETS = Resource(Record, version="v1", plural="secrets")
POD = {"metadata": {"name": "slurm-cpu-1"}, "spec": {"containers": [{"name": "slurmd", "image": "good"}]}}


@asynccontextmanager
async def as_syncer(kube: Kube) -> AsyncIterator[Client]:
    """Speak with the token that the syncer of a cluster `slurm` has, when the API server knows its rights."""
    token = await policies.account(kube.client, kube.namespace, cluster="slurm")
    async with policies.granted(kube.kubeconfig, token, namespace=kube.namespace) as client:
        yield client


async def test_the_api_server_grants_it_what_the_table_says(kube: Kube) -> None:
    async with as_syncer(kube) as client:
        body = {"spec": {"namespace": kube.namespace}}
        reply = await client.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
    found: list[dict[str, Any]] = json.decode(reply)["status"]["resourceRules"]
    asking = ("selfsubject", "clustertrustbundles")
    ours = [rule for rule in found if not rule["resources"][0].startswith(asking)]
    assert table(ours) == SYNCER


async def test_it_writes_to_a_pod_and_changes_nothing_of_what_runs_there(policed: LocalCluster, kube: Kube) -> None:
    assert policed is kube.cluster
    await compute_pod(kube, await node_set(kube, "slurm"))
    evil: dict[str, Any] = {"spec": {"containers": [{"name": "slurmd", "image": "evil"}]}}
    async with as_syncer(kube) as client:
        with pytest.raises(Forbidden):
            await client.patch(PODS, "a1", Merge(evil), namespace=kube.namespace)
        with pytest.raises(Forbidden):
            await client.delete(PODS, "a1", namespace=kube.namespace)
        marks = Merge(evil | {"metadata": {"annotations": {names.CLEAR_TO_DELETE: "1:x"}}})
        await client.patch(PODS, "a1", marks, namespace=kube.namespace, subresource="status")
    found = json.decode(await kube.client.request("GET", PODS.path(kube.namespace, "a1")))
    assert found["spec"]["containers"][0]["image"] == "none"
    assert found["metadata"]["annotations"][names.CLEAR_TO_DELETE] == "1:x"


async def test_it_writes_its_report_and_not_the_spec_of_its_cluster(kube: Kube, kubectl: Kubectl) -> None:
    assert kubectl.namespace
    kind = {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name}
    await kube.client.create(
        SLURMCLUSTERS, kind | {"metadata": {"name": "slurm"}, "spec": {}}, namespace=kube.namespace
    )
    evil = {"spec": {"image": {"repository": "evil"}}, "metadata": {"annotations": {"a": "b"}}}
    async with as_syncer(kube) as client:
        with pytest.raises(Forbidden):
            await client.patch(SLURMCLUSTERS, "slurm", Merge(evil), namespace=kube.namespace)
        told = Merge(evil | {"status": {"syncer": {"version": "24.11.5"}}})
        await client.patch(SLURMCLUSTERS, "slurm", told, namespace=kube.namespace, subresource="status")
    found = await kube.client.get(SLURMCLUSTERS, "slurm", namespace=kube.namespace)
    assert found.status.syncer is not None
    assert found.status.syncer.version == "24.11.5"
    assert found.spec.image.repository == SlurmClusterSpec().image.repository
    assert found.metadata.annotations == {}


async def test_it_reads_no_secret_and_makes_no_pod(kube: Kube) -> None:
    await kube.client.create(SECRETS, {"metadata": {"name": "slurm-auth-slurm"}}, namespace=kube.namespace)
    await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "theirs"}}, namespace=kube.namespace)
    async with as_syncer(kube) as client:
        for act in (
            client.get(SECRETS, "slurm-auth-slurm", namespace=kube.namespace),
            client.get(CONFIG_MAPS, "theirs", namespace=kube.namespace),
            client.create(PODS, POD, namespace=kube.namespace),
            client.request("GET", "/api/v1/nodes"),
        ):
            with pytest.raises(ApiError) as refused:
                await act
            assert isinstance(refused.value, Forbidden)
