"""Objects of others, under names that a cluster needs: named, and left as they are."""

from typing import Any

import pytest
from tests.conftest import Kube

from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS
from sunk.model import names
from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.rollout.apply import Known, apply, check_owned


def body(kube: Kube, *, uid: str = "u-1", owned: bool = True, whose: str = "ours") -> dict[str, Any]:
    # Of a kind that this API server does not know: of one that it knows Kubernetes would miss the owner, and delete it.
    owner = {"apiVersion": "example.com/v1", "kind": "SlurmCluster", "name": "slurm", "controller": True}
    at: dict[str, Any] = {
        "name": "slurm-conf",
        "namespace": kube.namespace,
        "labels": {names.CLUSTER: "slurm", names.MANAGED_BY: "sunk"},
    }
    if owned:
        at["ownerReferences"] = [owner | {"uid": uid}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": at, "data": {"whose": whose}}


async def data(kube: Kube) -> dict[str, str]:
    return (await kube.client.get(CONFIG_MAPS, "slurm-conf", namespace=kube.namespace)).data


@pytest.mark.parametrize("labels", [{}, {names.CLUSTER: "slurm", names.MANAGED_BY: "sunk"}])
async def test_an_object_of_somebody_else_is_left_as_it_is(kube: Kube, labels: dict[str, str]) -> None:
    theirs = {"metadata": {"name": "slurm-conf", "labels": labels}, "data": {"whose": "theirs"}}
    await kube.client.create(CONFIG_MAPS, theirs, namespace=kube.namespace)
    for act in (check_owned(kube.client, [body(kube)], known={}), apply(kube.client, [body(kube, whose="ours")])):
        with pytest.raises(
            Refusal, match=f"ConfigMap {kube.namespace}/slurm-conf already exists and does not belong to this"
        ):
            await act
    assert await data(kube) == {"whose": "theirs"}


async def test_an_object_of_another_cluster_of_the_same_name_is_left_as_it_is(kube: Kube) -> None:
    await apply(kube.client, [body(kube, uid="u-0", whose="older")])
    with pytest.raises(Refusal, match="does not belong to this SlurmCluster"):
        await apply(kube.client, [body(kube, whose="ours")])
    assert await data(kube) == {"whose": "older"}


async def test_our_own_is_kept_true_and_what_we_no_longer_say_goes(kube: Kube) -> None:
    known: Known = {}
    for said in ({"a": "1", "b": "2"}, {"a": "3"}):
        wanted = body(kube) | {"data": said}
        await check_owned(kube.client, [wanted], known=known)
        await apply(kube.client, [wanted], known=known)
        assert await data(kube) == said


async def test_one_that_took_the_name_since_we_looked_is_not_met(kube: Kube) -> None:
    known: Known = {}
    await apply(kube.client, [body(kube, whose="ours")], known=known)
    await kube.client.delete(CONFIG_MAPS, "slurm-conf", namespace=kube.namespace)
    theirs = {"metadata": {"name": "slurm-conf"}, "data": {"whose": "theirs"}}
    await kube.client.create(CONFIG_MAPS, theirs, namespace=kube.namespace)
    with pytest.raises(Refusal, match="does not belong to this SlurmCluster"):
        await apply(kube.client, [body(kube, whose="ours")], known=known)
    assert await data(kube) == {"whose": "theirs"}


async def test_our_own_that_somebody_deleted_is_made_again(kube: Kube) -> None:
    known: Known = {}
    await apply(kube.client, [body(kube, whose="ours")], known=known)
    await kube.client.delete(CONFIG_MAPS, "slurm-conf", namespace=kube.namespace)
    await apply(kube.client, [body(kube, whose="ours")], known=known)
    assert await data(kube) == {"whose": "ours"}


async def test_what_outlives_a_cluster_is_found_again_by_its_labels(kube: Kube) -> None:
    await apply(kube.client, [body(kube, owned=False)])
    await apply(kube.client, [body(kube, owned=False, whose="ours again")])
    assert await data(kube) == {"whose": "ours again"}
    strip = Merge({"metadata": {"labels": {names.MANAGED_BY: None}}})
    await kube.client.patch(CONFIG_MAPS, "slurm-conf", strip, namespace=kube.namespace)
    with pytest.raises(Refusal):
        await apply(kube.client, [body(kube, owned=False)])
