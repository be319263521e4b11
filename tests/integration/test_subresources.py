"""Eviction, binding and scale on a real API server."""

from typing import Any

import pytest
from tests.conftest import Kube

from sunk.kube.api.client import Client, Deletion, Preconditions
from sunk.kube.api.exchange import Exchange
from sunk.kube.api.patch import Strategic
from sunk.kube.api.retry import Retry
from sunk.kube.api.subresource import bind, evict, rescale, scale
from sunk.kube.auth import access
from sunk.kube.core import PODS, Pod
from sunk.kube.errors import Conflict, NotFound, TooManyRequests
from sunk.kube.resource import Record, Resource

BUDGETS = Resource(Record, group="policy", version="v1", plural="poddisruptionbudgets")
DEPLOYMENTS = Resource(Record, group="apps", version="v1", plural="deployments")
SPEC = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}


async def pod(kube: Kube, name: str = "p") -> Pod:
    body = {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": SPEC}
    return await kube.client.create(PODS, body, namespace=kube.namespace)


async def running(kube: Kube) -> Pod:
    """A Pod that looks as if a kubelet ran it: one that waits could be evicted in spite of any budget."""
    made = await pod(kube)
    # A Node that is not there. Kubernetes deletes all Pods of such a one after a while, so no other test may name it.
    await bind(kube.client, made.key, uid=made.metadata.uid, node=kube.namespace)
    status: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await kube.client.patch(
        PODS, "p", Strategic({"status": status}), namespace=kube.namespace, subresource="status"
    )


async def test_an_eviction_that_a_budget_forbids_is_refused_for_now_and_not_repeated(kube: Kube) -> None:
    made = await running(kube)
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}
    await kube.client.create(BUDGETS, budget, namespace=kube.namespace)
    sent: list[Exchange] = []
    async with Client(access.from_kubeconfig(kube.kubeconfig), retry=Retry(), observe=sent.append) as client:
        with pytest.raises(TooManyRequests) as refused:
            await evict(client, made.key, Deletion())
        assert len(sent) == 1
        assert refused.value.retry_after >= 1
        assert "DisruptionBudget" in [cause.reason for cause in refused.value.causes]


async def test_an_eviction_meets_the_pod_it_was_decided_on(kube: Kube) -> None:
    made = await running(kube)
    with pytest.raises(Conflict):
        await evict(kube.client, made.key, Deletion(preconditions=Preconditions(uid="other")))
    await evict(kube.client, made.key, Deletion(preconditions=Preconditions(uid=made.metadata.uid)))
    with pytest.raises(NotFound):
        await kube.client.get(PODS, "p", namespace=kube.namespace)


async def test_a_binding_meets_exactly_one_pod_once(kube: Kube) -> None:
    made = await pod(kube)
    with pytest.raises(Conflict):
        await bind(kube.client, made.key, uid="other", node="n")
    await bind(kube.client, made.key, uid=made.metadata.uid, node=kube.namespace)
    assert (await kube.client.get(PODS, "p", namespace=kube.namespace)).spec.node_name == kube.namespace
    with pytest.raises(Conflict):
        await bind(kube.client, made.key, uid=made.metadata.uid, node="m")


async def test_a_deployment_is_scaled_if_nothing_changed_since_it_was_read(kube: Kube) -> None:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": SPEC["containers"]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    made = await kube.client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, namespace=kube.namespace)
    before = await scale(kube.client, DEPLOYMENTS, made.key)
    assert before.spec.replicas == 0
    after = await rescale(kube.client, DEPLOYMENTS, made.key, replicas=2)
    assert after.spec.replicas == 2
    stale = before.metadata.resource_version
    with pytest.raises(Conflict):
        await rescale(kube.client, DEPLOYMENTS, made.key, replicas=5, resource_version=stale)
