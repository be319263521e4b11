"""Errands on a real API server. No kubelet is there: what becomes of the Pods is said by the tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.conftest import Kube

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.control.tasks import running
from sunk.kube.core import CONFIG_MAPS, PODS, Pod
from sunk.kube.resource import Key
from sunk.operator.slurmcluster.rollout.probe import ERRAND, Answer, Errands, by_cluster

LONG_AGO = "2020-01-01T00:00:00Z"


class Sent:
    """One errand, and a kubelet's view of it."""

    def __init__(self, kube: Kube, pods: Collection[Pod]) -> None:
        self._pods = pods
        self.errands = Errands(pods)
        self.key = Key(kube.namespace, "slurm-try")
        at = {"namespace": kube.namespace, "name": self.key.name, "labels": {ERRAND: "slurm"}}
        container = {"name": "slurm", "image": "localhost/slurm"}
        self.body: dict[str, Any] = {"metadata": at, "spec": {"restartPolicy": "Never", "containers": [container]}}

    async def ended(self, phase: str, *, words: str = "", at: str = LONG_AGO) -> None:
        over = {"exitCode": 0 if phase == "Succeeded" else 1, "message": words, "finishedAt": at}
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
async def sent(kube: Kube, *owners: dict[str, Any]) -> AsyncIterator[Sent]:
    scope = Scope(namespace=kube.namespace, labels=ERRAND)
    pods: Collection[Pod] = Collection(kube.client, PODS, scope, indexes={"cluster": by_cluster})
    async with asyncio.timeout(20), running({"follow": pods.run()}):
        await pods.store.complete()
        made = Sent(kube, pods)
        made.body["metadata"]["ownerReferences"] = list(owners)
        assert await made.errands.ask(made.body) == Answer(done=False)
        yield made


async def existing_owner(kube: Kube) -> dict[str, Any]:
    """An owner that is there: Kubernetes deletes what belongs to nobody, whenever it comes by."""
    made = await kube.client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, namespace=kube.namespace)
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made.metadata.uid, "controller": True}


async def test_one_that_cannot_begin_says_why(kube: Kube) -> None:
    async with sent(kube) as one:
        assert await one.errands.ask(one.body) == Answer(done=False)
        await one.waits("ContainerCreating", "")
        assert await one.errands.ask(one.body) == Answer(done=False)
        await one.waits("ErrImagePull", "there is no such image")
        assert await one.errands.ask(one.body) == Answer(done=False, words="ErrImagePull: there is no such image")


async def test_an_answer_stands_for_as_long_as_it_is_wanted(kube: Kube) -> None:
    ours = await existing_owner(kube)
    async with sent(kube, ours) as one:
        await one.ended("Succeeded")
        for _ in range(2):
            assert await one.errands.ask(one.body, again=1) == Answer(done=True, well=True)
        await one.errands.forget(kube.namespace, cluster="slurm", uid=ours["uid"], keep=(one.key.name,))
        assert one.there
        await one.errands.forget(kube.namespace, cluster="slurm", uid=ours["uid"])
        assert not one.there


async def test_a_pod_with_our_label_and_another_owner_is_not_taken_away(kube: Kube) -> None:
    """Who may write labels of Pods, as the syncer may, could have any Pod deleted otherwise."""
    async with sent(kube) as one:
        await one.errands.forget(kube.namespace, cluster="slurm", uid="ours")
        await asyncio.sleep(0.2)
        assert one.there


async def test_a_refusal_stands_where_nothing_but_a_change_could_help(kube: Kube) -> None:
    async with sent(kube) as one:
        await one.ended("Failed", words="line 3: no")
        for _ in range(2):
            assert await one.errands.ask(one.body) == Answer(done=True, words="line 3: no")
        assert one.there


async def test_a_refusal_is_asked_for_again_where_the_world_may_have_changed(kube: Kube) -> None:
    async with sent(kube) as one:
        await one.ended("Failed", words="the database is away")
        assert (await one.errands.ask(one.body, again=60)).refused
        assert not one.there
        assert await one.errands.ask(one.body, again=60) == Answer(done=False)
        assert one.there


async def test_one_that_was_ended_from_outside_is_sent_again(kube: Kube) -> None:
    async with sent(kube) as one:
        await one.ended("Failed")
        assert (await one.errands.ask(one.body)).refused
        assert not one.there


async def foreign(kube: Kube, pods: Collection[Pod], *, labels: dict[str, str]) -> Sent:
    """Somebody has made a Pod of the name before us, and it has ended well."""
    made = Sent(kube, pods)
    made.body["metadata"]["ownerReferences"] = [owner("ours")]
    at = made.body["metadata"] | {"labels": labels, "ownerReferences": []}
    await kube.client.create(PODS, made.body | {"metadata": at}, namespace=kube.namespace)
    await asyncio.sleep(0.2)
    return made


def owner(uid: str) -> dict[str, Any]:
    kind = {"apiVersion": "sunk.coreweave.com/v1alpha1", "kind": "SlurmCluster", "name": "slurm"}
    return kind | {"uid": uid, "controller": True}


@pytest.mark.parametrize("labels", [{}, {ERRAND: "slurm"}])
async def test_a_pod_that_somebody_else_has_made_is_not_believed(kube: Kube, labels: dict[str, str]) -> None:
    scope = Scope(namespace=kube.namespace, labels=ERRAND)
    pods: Collection[Pod] = Collection(kube.client, PODS, scope, indexes={"cluster": by_cluster})
    async with asyncio.timeout(30), running({"follow": pods.run()}):
        await pods.store.complete()
        one = await foreign(kube, pods, labels=labels)
        told = {"phase": "Succeeded"}
        await kube.client.patch(
            PODS, "slurm-try", Merge({"status": told}), namespace=kube.namespace, subresource="status"
        )
        await asyncio.sleep(0.2)
        said = await one.errands.ask(one.body)
        assert not said.done
        assert "is in the way and is not of this SlurmCluster: delete it" in said.words
        assert (await kube.client.get(PODS, "slurm-try", namespace=kube.namespace)).metadata.deletion_timestamp is None


async def test_a_pod_with_our_owner_that_we_have_not_made_is_sent_again(kube: Kube) -> None:
    """Anybody can write an owner into a Pod of his. What another copy of the operator has sent looks the same."""
    scope = Scope(namespace=kube.namespace, labels=ERRAND)
    pods: Collection[Pod] = Collection(kube.client, PODS, scope, indexes={"cluster": by_cluster})
    async with asyncio.timeout(30), running({"follow": pods.run()}):
        await pods.store.complete()
        one = Sent(kube, pods)
        one.body["metadata"]["ownerReferences"] = [await existing_owner(kube)]
        forged = await kube.client.create(PODS, one.body, namespace=kube.namespace)
        await pods.store.until(lambda: one.there)
        await one.ended("Succeeded")
        assert await one.errands.ask(one.body) == Answer(done=False)
        await pods.store.until(lambda: not one.there)
        assert await one.errands.ask(one.body) == Answer(done=False)
        made = pods.store.get(one.key)
        assert made is not None
        assert made.metadata.uid != forged.metadata.uid
        await one.ended("Succeeded")
        assert await one.errands.ask(one.body) == Answer(done=True, well=True)
