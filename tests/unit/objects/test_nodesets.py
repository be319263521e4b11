"""Whether the marks on a Node say whose it is."""

import pytest
from tests.unit.operator.nodeset.factories import UID, node, nodeset

from sunk.model import names
from sunk.objects.nodesets import claim_of, claimed_for

RIGHT = {names.NODESET: "gpu", names.NAMESPACE: "slurm", names.POD: "gpu-0"}


def test_a_node_with_claim_and_labels_is_claimed() -> None:
    assert claimed_for(node("n", labels=RIGHT, claim=UID), nodeset(), "gpu-0")
    in_cluster = node("n", labels=RIGHT | {names.CLUSTER: "research"}, claim=UID)
    assert claimed_for(in_cluster, nodeset(cluster="research"), "gpu-0")


@pytest.mark.parametrize("key", RIGHT)
def test_a_label_that_is_missing_or_wrong_has_to_be_put_right(key: str) -> None:
    wrong = {name: value for name, value in RIGHT.items() if name != key}
    for labels in (wrong, wrong | {key: "other"}):
        assert not claimed_for(node("n", labels=labels, claim=UID), nodeset(), "gpu-0")


def test_a_cluster_that_the_set_does_not_have_is_wrong_too() -> None:
    left_over = node("n", labels=RIGHT | {names.CLUSTER: "research"}, claim=UID)
    assert not claimed_for(left_over, nodeset(), "gpu-0")
    assert not claimed_for(node("n", labels=RIGHT, claim=UID), nodeset(cluster="research"), "gpu-0")


def test_the_claim_decides_and_not_the_labels() -> None:
    assert not claimed_for(node("n", labels=RIGHT), nodeset(), "gpu-0")
    assert not claimed_for(node("n", labels=RIGHT, claim="another"), nodeset(), "gpu-0")
    assert claim_of(node("n", labels=RIGHT)) == ""
