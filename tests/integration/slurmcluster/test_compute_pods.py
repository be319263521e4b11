"""Which Pods are compute Pods of a cluster: those that a NodeSet of it owns, whatever their labels say."""

import asyncio
from collections.abc import Callable

from tests.conftest import Kube, Kubectl

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import PODS
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.model import names
from sunk.model.nodeset import NODESET
from sunk.objects.nodesets import NODESETS, NodeSet, owned_by
from sunk.syncer.pods import compute_pods

LABELS = {names.CLUSTER: "slurm", names.COMPONENT: names.COMPUTE}


async def node_set(kube: Kube, name: str, *, cluster: str) -> NodeSet:
    template = {"spec": {"containers": [{"name": names.SLURMD, "image": "none"}]}}
    kind = {"apiVersion": NODESET.api_version, "kind": NODESET.name}
    body = kind | {"metadata": {"name": name}, "spec": {"cluster": cluster, "template": template}}
    return await kube.client.create(NODESETS, body, namespace=kube.namespace)


async def pod(kube: Kube, name: str, *, labels: dict[str, str], owner: NodeSet | None = None, uid: str = "") -> None:
    at: dict[str, object] = {"name": name, "labels": labels}
    if owner is not None:
        given = owned_by(owner) | {"blockOwnerDeletion": False}
        at["ownerReferences"] = [given | ({"uid": uid} if uid else {})]
    body = {"metadata": at, "spec": {"containers": [{"name": names.SLURMD, "image": "none"}]}}
    await kube.client.create(PODS, body, namespace=kube.namespace)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_pod_is_known_by_its_owner_and_not_by_its_labels(kube: Kube, kubectl: Kubectl) -> None:
    assert kubectl.namespace
    ours, theirs = await node_set(kube, "cpu", cluster="slurm"), await node_set(kube, "other", cluster="other")
    await pod(kube, "ours", labels=LABELS, owner=ours)
    await pod(kube, "bare", labels={}, owner=ours)
    await pod(kube, "labelled", labels=LABELS)
    await pod(kube, "forged", labels=LABELS, owner=ours, uid="not-ours")
    await pod(kube, "theirs", labels=LABELS, owner=theirs)
    sets: Collection[NodeSet] = Collection(
        kube.client, NODESETS, Scope(namespace=kube.namespace), indexes={"uid": lambda one: (one.metadata.uid,)}
    )
    pods = compute_pods(kube.client, sets, cluster="slurm", namespace=kube.namespace)

    def found() -> set[str]:
        return {one.metadata.name for one in pods.store.all()}

    async with running({"pods": pods.run()}):
        await pods.store.complete()
        assert found() == set(), "no NodeSet is known yet"
        async with running({"sets": sets.run()}):
            await eventually(lambda: found() == {"ours", "bare"})
            assert await pods.confirm(Key(kube.namespace, "labelled")) is None
            assert await pods.confirm(Key(kube.namespace, "forged")) is None
            mark = Merge({"metadata": {"annotations": {"a": "b"}}})
            await pods.patch(Key(kube.namespace, "labelled"), mark)
            await pods.catch_up()
            assert found() == {"ours", "bare"}
            strip = Merge({"metadata": {"ownerReferences": None}})
            await kube.client.patch(PODS, "bare", strip, namespace=kube.namespace)
            await eventually(lambda: found() == {"ours"})
