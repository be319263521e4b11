from sunk.kube.core import Node, NodeStatus
from sunk.kube.resource import Metadata
from sunk.local.addons.agent import missing
from sunk.local.kubernetes.spec import LocalNode as Wanted

WANTED = Wanted(name="a", labels={"class": "H100"}, resources={"nvidia.com/gpu": 8})


def node(*, labels: dict[str, str], capacity: dict[str, str], allocatable: dict[str, str]) -> Node:
    return Node(
        metadata=Metadata(name="a", labels=labels),
        status=NodeStatus(capacity=capacity, allocatable=allocatable),
    )


def test_a_new_node_lacks_labels_and_resources() -> None:
    found = node(labels={"other": "x"}, capacity={"cpu": "2"}, allocatable={"cpu": "2"})
    devices = {"nvidia.com/gpu": "8"}
    assert missing(found, WANTED) == {
        "": {"metadata": {"labels": {"class": "H100"}}},
        "status": {"status": {"capacity": devices, "allocatable": devices}},
    }


def test_a_described_node_lacks_nothing() -> None:
    devices = {"cpu": "2", "nvidia.com/gpu": "8"}
    assert not missing(node(labels={"class": "H100"}, capacity=devices, allocatable=devices), WANTED)


def test_a_resource_that_the_kubelet_has_not_made_allocatable_yet_is_still_lacking() -> None:
    found = node(labels={"class": "H100"}, capacity={"nvidia.com/gpu": "8"}, allocatable={})
    assert list(missing(found, WANTED)) == ["status"]
