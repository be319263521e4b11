"""Which partitions by feature a reconfigure would change."""

import pytest
from tests.unit.slurm.blank import blank
from tests.unit.syncer.builders import row

from sunk.slurm.records import Node, Partition
from sunk.syncer.config.partitions import outdated, partition_features

CONF = """
NodeSet=fast Feature=fast
NodeSet=slow Feature=slow
PartitionName=fast Nodes=fast MaxTime=INFINITE State=UP
PartitionName=both State=UP Nodes=fast,slow
PartitionName=all Nodes=ALL Default=YES
"""


def node(name: str, *features: str, active: tuple[str, ...] | None = None) -> Node:
    return row(name, features=features, features_active=features if active is None else active)


def partition(name: str, nodes: str) -> Partition:
    return blank(Partition, name=name, nodes=nodes)


NODES = (node("n1", "fast"), node("n2", "slow"), node("n3", "other", "fast"))


def test_partitions_that_hold_who_has_their_features_are_as_they_should_be() -> None:
    there = [partition("fast", "n[1,3]"), partition("both", "n[1-3]"), partition("all", "n[1-3]")]
    assert outdated(CONF, nodes=NODES, partitions=there) == ()


@pytest.mark.parametrize("held", ["n1", "n[1-3]", "", "n2"])
def test_one_that_lacks_somebody_or_holds_another_is_told(held: str) -> None:
    assert outdated(CONF, nodes=NODES, partitions=[partition("fast", held)]) == ("fast",)


def test_what_people_write_in_other_ways_is_left_to_them() -> None:
    conf = "NodeSet=fast Feature=a&b\nPartitionName=fast Nodes=fast\nPartitionName=x Nodes=n9,fast\nPartitionName=y\n"
    there = [partition(name, "n7") for name in ("fast", "x", "y", "made-by-hand")]
    assert outdated(conf, nodes=NODES, partitions=there) == ()


def test_features_that_are_about_to_change_prove_nothing() -> None:
    rebooting = node("n1", "fast", "slow", active=("slow",))
    assert outdated(CONF, nodes=[rebooting], partitions=[partition("fast", "")]) == ()
    assert outdated(CONF, nodes=[rebooting], partitions=[partition("fast", "n1")]) == ()


def test_without_a_configuration_nothing_is_known() -> None:
    assert outdated("", nodes=NODES, partitions=[partition("fast", "n2")]) == ()


def test_only_features_of_sets_decide_about_partitions() -> None:
    assert partition_features(CONF) == frozenset({"fast", "slow"})
    assert partition_features("NodeSet=x Nodes=a Feature=a&b|c\nNodeName=n Feature=d\n") == frozenset({"a", "b", "c"})
    assert partition_features("PartitionName=all Nodes=ALL\n") == frozenset()


@pytest.mark.parametrize("conf", ["", "NodeSet=fast Feature=fast\nInclude /etc/slurm/more.conf\n"])
def test_what_is_written_elsewhere_may_name_any_feature(conf: str) -> None:
    assert partition_features(conf) is None
