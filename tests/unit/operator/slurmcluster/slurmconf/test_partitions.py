"""Partitions that are to go."""

from tests.unit.operator.slurmcluster.clusters import with_nodes

from sunk.operator.slurmcluster.slurmconf.conf import configuration, slurm_conf
from sunk.operator.slurmcluster.slurmconf.partitions import retiring


def test_a_partition_that_is_gone_stays_drained_with_its_nodes() -> None:
    before, after = slurm_conf(with_nodes(cpu={}, gpu={})), slurm_conf(with_nodes(cpu={}))
    assert retiring(before, after) == [
        "NodeSet=gpu Feature=slurm-gpu",
        "PartitionName=gpu Nodes=gpu MaxTime=INFINITE State=DRAIN",
    ]


def test_what_stays_is_not_said_twice() -> None:
    text = slurm_conf(with_nodes(cpu={}))
    assert retiring(text, text) == []
    assert retiring("NodeSet=a Feature=a\nPartitionName=x Nodes=a", "NodeSet=a Feature=a") == [
        "PartitionName=x Nodes=a State=DRAIN"
    ]


def test_it_is_no_longer_the_default_and_an_old_state_does_not_count() -> None:
    (line,) = retiring("partitionname=x Nodes=ALL Default=YES state=UP\nPartitionName=DEFAULT MaxTime=5", "")
    assert line == "partitionname=x Nodes=ALL State=DRAIN"


def test_one_that_left_before_leaves_the_same_way_again() -> None:
    once = retiring("PartitionName=x Nodes=ALL", "")
    assert retiring("\n".join(once), "") == once


def test_a_configuration_keeps_the_partitions_of_the_one_before() -> None:
    before = configuration(with_nodes(cpu={}, gpu={}))["slurm.conf"]
    after = configuration(with_nodes(cpu={}), before=before)["slurm.conf"]
    assert "PartitionName=gpu Nodes=gpu MaxTime=INFINITE State=DRAIN\n" in after
    assert configuration(with_nodes(cpu={}), before=after)["slurm.conf"] == after
    assert "gpu" not in configuration(with_nodes(cpu={}))["slurm.conf"]
