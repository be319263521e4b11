"""What the parts of the operator share."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.unit.operator.node.scene import pod

from sunk.kube.access import Access
from sunk.kube.client import Client
from sunk.kube.core import PodSpec
from sunk.kube.credentials import Nobody
from sunk.kube.events import Recorder
from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.objects.standing import NODE
from sunk.operator.fleet import by_compute, fleet
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
    assert setting.once(fleet) is setting.once(fleet)


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
