"""What people and other programs may write into a NodeSet, and what they see of it."""

import json
from typing import Any

import pytest
from tests.conftest import Kubectl
from tests.integration.nodeset.stage import Operator, Stage, eventually

from sunk.kube.errors import ApiError, Invalid
from sunk.local.kubernetes import assets


@pytest.fixture
def kubectl(stage: Stage) -> Kubectl:
    program = assets.fill(images=False).parts.kubectl
    return Kubectl(program=program, kubeconfig=stage.kube.kubeconfig, namespace=stage.namespace)


async def test_kubectl_scales_and_shows_what_people_look_for(
    stage: Stage, operator: Operator, kubectl: Kubectl
) -> None:
    del operator
    await stage.create()
    await stage.settled(3)
    async with stage.syncer():
        kubectl("scale", "nodeset/gpu", "--replicas=1")
        await stage.settled(1)
        await eventually(stage.nodeset, lambda one: one.status.number_feasible == 3)
    assert await stage.events("NameRefused") == [], "who has just left has no wrong name"
    head, row = kubectl("get", "nodesets").splitlines()
    assert head.split() == ["NAME", "DESIRED", "FEASIBLE", "CURRENT", "READY", "DRAIN", "AGE"]
    assert row.split()[:6] == ["gpu", "1", "3", "1", "1", "0"]
    scale = json.loads(kubectl("get", "--raw", f"{_path(stage)}/gpu/scale"))
    assert scale["status"]["replicas"] == 1
    pods = kubectl("get", "pods", "-l", scale["status"]["selector"], "-o", "name").split()
    assert pods == ["pod/gpu-000-001"]


def _path(stage: Stage) -> str:
    return f"/apis/sunk.coreweave.com/v1alpha1/namespaces/{stage.namespace}/nodesets"


MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"replicaz": 3}, "replicaz"),
    ({"replicas": -1}, "spec.replicas"),
    ({"naming": "random"}, "spec.naming"),
    ({"podNamePrefix": "GPU"}, "spec.podNamePrefix"),
    ({"podNamePrefix": "g" * 60}, "spec.podNamePrefix"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, "spec.updateStrategy.rollingUpdate"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "150%"}}}, "spec.updateStrategy.rollingUpdate"),
    ({"updateStrategy": {"typ": "OnDelete"}}, "updateStrategy.typ"),
    ({"features": {"staticFeatures": ["a,b"]}}, "spec.features.staticFeatures"),
)
NAMES = ("9gpu", "a" * 60, "gpu.h100")


async def test_a_mistake_is_refused_with_its_path(stage: Stage) -> None:
    for spec, path in MISTAKES:
        with pytest.raises(ApiError, match=path.replace(".", r"\.")):
            await stage.create(**spec)


async def test_a_set_stays_with_its_cluster_once_it_has_one(stage: Stage) -> None:
    """The syncer of another cluster may not write to the Pods that are there, and neither could let go of them."""
    await stage.create(replicas=0)
    await stage.change(cluster="a")
    for other in ("b", "", None):
        with pytest.raises(Invalid, match=r"spec\.cluster.*cannot change"):
            await stage.change(cluster=other)
    await stage.change(cluster="a", replicas=1)


async def test_a_name_that_cannot_begin_names_of_nodes_is_refused(stage: Stage) -> None:
    for name in NAMES:
        with pytest.raises(Invalid, match="podNamePrefix"):
            await stage.create(name)
        await stage.create(name, podNamePrefix="gpu", replicas=0)
