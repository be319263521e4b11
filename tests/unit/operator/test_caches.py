"""What the parts of the operator share."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.operator.node.factories import pod
from tests.unit.operator.nodeset.factories import nodeset

from sunk.kube.api.client import Client
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.control.events import Recorder
from sunk.kube.core import PodSpec
from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.objects.computepods import NODE
from sunk.operator.caches import by_compute, has_owner, shared_caches
from sunk.operator.node.controller import nodes
from sunk.operator.nodeset.controller import nodesets
from sunk.operator.pod.controller import pods
from sunk.service.part import Setting
from sunk.service.process import named


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    async with Client(Access(server="http://127.0.0.1:1", tls=None, credentials=Nobody())) as client:
        recorder = Recorder(client, reporter="test", instance="test")
        yield Setting(client=client, recorder=recorder, may_write=lambda: True)


async def test_all_parts_have_one_fleet(setting: Setting) -> None:
    assert setting.once(shared_caches) is setting.once(shared_caches)


async def test_nodes_pods_and_nodesets_are_followed_once(setting: Setting) -> None:
    followed = named([build(setting) for build in (pods, nodesets, nodes)])
    assert sorted(name.rpartition("/")[2] for name in followed) == [
        "configmaps",
        "controllerrevisions",
        "nodes",
        "nodesets",
        "nodeslices",
        "pods",
    ]


def test_a_compute_pod_is_found_by_its_node_also_before_it_is_bound() -> None:
    bound = pod()
    assert by_compute(bound) == ("n",)
    meant = pod(**{NODE.partition("/")[2]: "m"})
    assert by_compute(type(meant)(metadata=meant.metadata, spec=PodSpec())) == ("m",)


def test_a_compute_pod_that_lost_its_labels_is_one_still() -> None:
    made = pod()
    bare = replace(made, metadata=replace(made.metadata, labels={}))
    assert by_compute(bare) == ("n",)


def test_a_label_alone_makes_no_compute_pod() -> None:
    other = Metadata(name="x", labels={names.COMPONENT: names.COMPUTE})
    assert by_compute(type(pod())(metadata=other, spec=PodSpec(node_name="n"))) == ()


@pytest.mark.parametrize("wrong", [{"controller": False}, {"api_version": "apps/v1"}, {"kind": "DaemonSet"}])
def test_an_owner_that_is_no_nodeset_or_does_not_control_it_makes_no_compute_pod(wrong: dict[str, Any]) -> None:
    made = pod()
    owner = replace(made.metadata.owner_references[0], **wrong)
    assert by_compute(replace(made, metadata=replace(made.metadata, owner_references=(owner,)))) == ()


async def test_the_owner_of_a_pod_is_one_that_exists_in_its_namespace(setting: Setting) -> None:
    sets = setting.once(shared_caches).sets
    sets.collections[0].store.answered(nodeset(uid="set", meta={"namespace": "team"}))
    assert has_owner(pod(namespace="team"), sets)
    assert not has_owner(pod(namespace="elsewhere"), sets)
    invented = pod(namespace="team")
    owner = replace(invented.metadata.owner_references[0], uid="invented")
    assert not has_owner(replace(invented, metadata=replace(invented.metadata, owner_references=(owner,))), sets)
