"""Probe Pods on a real API server. No kubelet is there: what becomes of the Pods is said by the tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.conftest import Kube

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import CONFIG_MAPS, PODS, Pod
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.model import names
from sunk.operator.slurmcluster.rollout.probe import ProbePods, ProbeResult, by_cluster

LONG_AGO = "2020-01-01T00:00:00Z"


class MadeProbe:
    """One probe Pod, and a kubelet's view of it."""

    def __init__(self, kube: Kube, pods: Collection[Pod]) -> None:
        self._pods = pods
        self.probes = ProbePods(pods)
        self.key = Key(kube.namespace, "slurm-try")
        at = {"namespace": kube.namespace, "name": self.key.name, "labels": {names.PROBE: "slurm"}}
        container = {"name": "slurm", "image": "localhost/slurm"}
        self.body: dict[str, Any] = {"metadata": at, "spec": {"restartPolicy": "Never", "containers": [container]}}

    async def ended(self, phase: str, *, message: str = "", at: str = LONG_AGO) -> None:
        over = {"exitCode": 0 if phase == "Succeeded" else 1, "message": message, "finishedAt": at}
        await self._said(phase, {"terminated": over})

    async def waits(self, reason: str, message: str) -> None:
        await self._said("Pending", {"waiting": {"reason": reason, "message": message}})

    async def _said(self, phase: str, state: dict[str, Any]) -> None:
        container = {"name": "slurm", "image": "", "imageID": "", "restartCount": 0, "ready": False}
        told = {"phase": phase, "containerStatuses": [container | {"state": state}]}
        await self._pods.patch(self.key, Merge({"status": told}), status=True)

    @property
    def there(self) -> bool:
        return self._pods.store.get(self.key) is not None


@asynccontextmanager
async def sent(kube: Kube, *owners: dict[str, Any]) -> AsyncIterator[MadeProbe]:
    scope = Scope(namespace=kube.namespace, labels=names.PROBE)
    pods: Collection[Pod] = Collection(kube.client, PODS, scope, indexes={"cluster": by_cluster})
    async with asyncio.timeout(60), running({"follow": pods.run()}):
        await pods.store.complete()
        made = MadeProbe(kube, pods)
        made.body["metadata"]["ownerReferences"] = list(owners)
        assert await made.probes.ask(made.body) == ProbeResult(done=False)
        yield made


async def existing_owner(kube: Kube) -> dict[str, Any]:
    """An owner that is there: Kubernetes deletes what belongs to nobody, whenever it comes by."""
    made = await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, namespace=kube.namespace)
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made.metadata.uid, "controller": True}


async def test_one_that_cannot_begin_says_why(kube: Kube) -> None:
    async with sent(kube) as probe:
        assert await probe.probes.ask(probe.body) == ProbeResult(done=False)
        await probe.waits("ContainerCreating", "")
        assert await probe.probes.ask(probe.body) == ProbeResult(done=False)
        await probe.waits("ErrImagePull", "there is no such image")
        assert await probe.probes.ask(probe.body) == ProbeResult(
            done=False, message="ErrImagePull: there is no such image"
        )


async def test_an_answer_stands_for_as_long_as_it_is_wanted(kube: Kube) -> None:
    ours = await existing_owner(kube)
    async with sent(kube, ours) as probe:
        await probe.ended("Succeeded")
        for _ in range(2):
            assert await probe.probes.ask(probe.body, retry_after=1) == ProbeResult(done=True, succeeded=True)
        await probe.probes.clean_up(kube.namespace, cluster="slurm", uid=ours["uid"], keep=(probe.key.name,))
        assert probe.there
        await probe.probes.clean_up(kube.namespace, cluster="slurm", uid=ours["uid"])
        assert not probe.there


async def test_a_pod_with_our_label_and_another_owner_is_not_taken_away(kube: Kube) -> None:
    """Who may write labels of Pods, as the syncer may, could have any Pod deleted otherwise."""
    async with sent(kube) as probe:
        await probe.probes.clean_up(kube.namespace, cluster="slurm", uid="ours")
        await asyncio.sleep(0.2)
        assert probe.there


async def test_a_refusal_stands_where_nothing_but_a_change_could_help(kube: Kube) -> None:
    async with sent(kube) as probe:
        await probe.ended("Failed", message="line 3: no")
        for _ in range(2):
            assert await probe.probes.ask(probe.body) == ProbeResult(done=True, message="line 3: no")
        assert probe.there


async def test_a_refusal_is_asked_for_again_where_the_world_may_have_changed(kube: Kube) -> None:
    async with sent(kube) as probe:
        await probe.ended("Failed", message="the database is away")
        assert (await probe.probes.ask(probe.body, retry_after=60)).refused
        assert not probe.there
        assert await probe.probes.ask(probe.body, retry_after=60) == ProbeResult(done=False)
        assert probe.there


async def test_one_that_was_ended_from_outside_is_sent_again(kube: Kube) -> None:
    async with sent(kube) as probe:
        await probe.ended("Failed")
        assert (await probe.probes.ask(probe.body)).refused
        assert not probe.there


async def foreign(kube: Kube, pods: Collection[Pod], *, labels: dict[str, str]) -> MadeProbe:
    """Somebody has made a Pod of the name before us, and it has ended well."""
    made = MadeProbe(kube, pods)
    made.body["metadata"]["ownerReferences"] = [owner("ours")]
    at = made.body["metadata"] | {"labels": labels, "ownerReferences": []}
    await kube.client.create(PODS, made.body | {"metadata": at}, namespace=kube.namespace)
    await asyncio.sleep(0.2)
    return made


def owner(uid: str) -> dict[str, Any]:
    kind = {"apiVersion": "sunk.coreweave.com/v1alpha1", "kind": "SlurmCluster", "name": "slurm"}
    return kind | {"uid": uid, "controller": True}


@pytest.mark.parametrize("labels", [{}, {names.PROBE: "slurm"}])
async def test_a_pod_that_somebody_else_has_made_is_not_believed(kube: Kube, labels: dict[str, str]) -> None:
    scope = Scope(namespace=kube.namespace, labels=names.PROBE)
    pods: Collection[Pod] = Collection(kube.client, PODS, scope, indexes={"cluster": by_cluster})
    async with asyncio.timeout(60), running({"follow": pods.run()}):
        await pods.store.complete()
        probe = await foreign(kube, pods, labels=labels)
        told = {"phase": "Succeeded"}
        await kube.client.patch(
            PODS, "slurm-try", Merge({"status": told}), namespace=kube.namespace, subresource="status"
        )
        await asyncio.sleep(0.2)
        said = await probe.probes.ask(probe.body)
        assert not said.done
        assert "does not belong to this SlurmCluster and blocks a name it needs: delete it" in said.message
        assert (await kube.client.get(PODS, "slurm-try", namespace=kube.namespace)).metadata.deletion_timestamp is None


async def test_a_pod_with_our_owner_that_we_have_not_made_is_sent_again(kube: Kube) -> None:
    """Anybody can write an owner into a Pod of his. What another copy of the operator has sent looks the same."""
    scope = Scope(namespace=kube.namespace, labels=names.PROBE)
    pods: Collection[Pod] = Collection(kube.client, PODS, scope, indexes={"cluster": by_cluster})
    async with asyncio.timeout(60), running({"follow": pods.run()}):
        await pods.store.complete()
        probe = MadeProbe(kube, pods)
        probe.body["metadata"]["ownerReferences"] = [await existing_owner(kube)]
        forged = await kube.client.create(PODS, probe.body, namespace=kube.namespace)
        await pods.store.until(lambda: probe.there)
        await probe.ended("Succeeded")
        assert await probe.probes.ask(probe.body) == ProbeResult(done=False)
        await pods.store.until(lambda: not probe.there)
        assert await probe.probes.ask(probe.body) == ProbeResult(done=False)
        made = pods.store.get(probe.key)
        assert made is not None
        assert made.metadata.uid != forged.metadata.uid
        await probe.ended("Succeeded")
        assert await probe.probes.ask(probe.body) == ProbeResult(done=True, succeeded=True)
