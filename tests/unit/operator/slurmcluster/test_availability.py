"""What people see of a SlurmCluster."""

import msgspec
import pytest

from sunk.kube.resource import Metadata
from sunk.model.cluster.kind import SlurmClusterSpec, SlurmClusterStatus
from sunk.model.nodeset import Condition, NodeSetSpec, NodeSetStatus
from sunk.operator.nodeset.resources import NodeSet
from sunk.operator.slurmcluster.availability import NO_NODE_FITS, Configuration, Sight, status

IN_FORCE = Configuration("a", "a")
META = Metadata(name="slurm", namespace="team", generation=1)


def node_set(*, replicas: int | None = None, members: int = 0) -> NodeSet:
    spec = NodeSetSpec(template=msgspec.Raw(b"{}"), cluster="slurm", replicas=replicas)
    counted = NodeSetStatus(observed_generation=1, members=members, desired_number_scheduled=members)
    return NodeSet(metadata=Metadata(name="slurm-gpu", generation=1), spec=spec, status=counted)


def said(kind: str, *sets: NodeSet, configuration: Configuration = IN_FORCE) -> Condition:
    sight = Sight(workloads={}, node_sets=sets, configuration=configuration)
    found = status(META, SlurmClusterSpec(), before=SlurmClusterStatus(), sight=sight)
    (one,) = (each for each in found.conditions if each.type == kind)
    return one


@pytest.mark.parametrize("replicas", [None, 2])
def test_a_definition_that_no_node_satisfies_is_told_with_its_path(replicas: int | None) -> None:
    found = said("NodeSetsAvailable", node_set(replicas=replicas))
    assert (found.status, found.reason) == ("False", NO_NODE_FITS)
    assert found.message.startswith("compute.nodes.gpu: no Node fits.")


def test_a_definition_without_replicas_needs_no_node() -> None:
    assert said("NodeSetsAvailable", node_set(replicas=0)).status == "True"


def test_a_member_whose_node_has_changed_is_not_told_as_if_there_were_none() -> None:
    found = said("NodeSetsAvailable", node_set(members=1))
    assert (found.status, found.reason) == ("False", "NodesMissing")


def test_what_a_configuration_waits_for_is_told_though_it_is_in_force() -> None:
    found = said("ConfigApplied", configuration=Configuration("a", "a", message="partition old stays, drained"))
    assert (found.status, found.message) == ("True", "partition old stays, drained")
