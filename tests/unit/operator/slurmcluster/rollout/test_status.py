"""What people see of a SlurmCluster."""

from datetime import UTC, datetime

import msgspec
import pytest

from sunk.kube.resource import Metadata
from sunk.model.cluster.compute import Compute, Definition
from sunk.model.cluster.daemons import Syncer
from sunk.model.cluster.kind import SlurmClusterSpec, SlurmClusterStatus
from sunk.model.contract.report import Report
from sunk.model.nodeset import Condition, NodeSetSpec, NodeSetStatus
from sunk.objects.nodesets import NodeSet
from sunk.operator.slurmcluster.rollout.status import (
    NO_NODE_FITS,
    ClusterObservation,
    ConfigurationProgress,
    Workload,
    WorkloadStatus,
    status,
)

IN_FORCE = ConfigurationProgress("a", "a")
UP = WorkloadStatus(ready_replicas=1, updated_replicas=1)
PLAIN, NEW = SlurmClusterSpec(), SlurmClusterStatus()
META = Metadata(name="slurm", namespace="team", generation=1)


def node_set(*, replicas: int | None = None, members: int = 0, deleted: bool = False) -> NodeSet:
    spec = NodeSetSpec(template=msgspec.Raw(b"{}"), cluster="slurm", replicas=replicas)
    counted = NodeSetStatus(observed_generation=1, members=members, desired_number_scheduled=members)
    at = Metadata(name="slurm-gpu", generation=1, deletion_timestamp=datetime.now(UTC) if deleted else None)
    return NodeSet(metadata=at, spec=spec, status=counted)


def shown(
    *sets: NodeSet,
    configuration: ConfigurationProgress = IN_FORCE,
    spec: SlurmClusterSpec = PLAIN,
    before: SlurmClusterStatus = NEW,
) -> SlurmClusterStatus:
    observed = ClusterObservation(workloads={}, node_sets=sets, configuration=configuration)
    return status(META, spec, before=before, observed=observed)


def said(kind: str, *sets: NodeSet, configuration: ConfigurationProgress = IN_FORCE) -> Condition:
    return condition(kind, shown(*sets, configuration=configuration))


def condition(kind: str, found: SlurmClusterStatus) -> Condition:
    (one,) = (each for each in found.conditions if each.type == kind)
    return one


@pytest.mark.parametrize("replicas", [None, 2])
def test_a_definition_that_no_node_satisfies_is_told_with_its_path(replicas: int | None) -> None:
    found = said("NodeSetsAvailable", node_set(replicas=replicas))
    assert (found.status, found.reason) == ("False", NO_NODE_FITS)
    assert found.message.startswith("compute.nodes.gpu: no Node fits.")


def test_a_definition_whose_nodes_are_claimed_by_another_is_told_whose_they_are() -> None:
    free = node_set()
    held = msgspec.structs.replace(
        free, status=msgspec.structs.replace(free.status, nodes_claimed_by=("team/slurm-cpu (3)",))
    )
    found = said("NodeSetsAvailable", held)
    assert found.reason == NO_NODE_FITS
    assert "compute.nodes.gpu: all Nodes that would fit are claimed by NodeSet team/slurm-cpu (3)." in found.message
    assert "affinity" not in found.message


def test_a_definition_without_replicas_needs_no_node() -> None:
    assert said("NodeSetsAvailable", node_set(replicas=0)).status == "True"


def test_a_member_whose_node_has_changed_is_not_told_as_if_there_were_none() -> None:
    found = said("NodeSetsAvailable", node_set(members=1))
    assert (found.status, found.reason) == ("False", "NodesMissing")


def test_what_a_configuration_waits_for_is_told_though_it_is_in_force() -> None:
    found = said("ConfigApplied", configuration=ConfigurationProgress("a", "a", message="partition old stays, drained"))
    assert (found.status, found.message) == ("True", "partition old stays, drained")


def test_a_node_set_that_nobody_asks_for_any_more_is_no_lack_and_is_told_with_the_way_to_force_it() -> None:
    found = shown(node_set(members=2, deleted=True))
    assert (found.node_sets, found.nodes_desired, found.nodes_ready) == (0, 0, 0)
    told = condition("NodeSetsAvailable", found)
    assert told.status == "True"
    assert "the nodes of slurm-gpu leave when their jobs have ended" in told.message
    assert "the NodeSet has sunk.coreweave.com/force-deletion=true" in told.message


def test_a_definition_that_is_wanted_again_while_its_node_set_goes_is_a_lack() -> None:
    again = SlurmClusterSpec(compute=Compute(nodes={"gpu": Definition(enabled=True)}))
    told = condition("NodeSetsAvailable", shown(node_set(deleted=True), spec=again))
    assert (told.status, told.reason) == ("False", "NodesMissing")
    assert told.message == "slurm-gpu: being deleted; will be recreated when its nodes are gone"


def test_the_version_is_what_slurmctld_said_last() -> None:
    first = shown(configuration=ConfigurationProgress("a", "a", version="24.11.5"))
    assert first.slurm_version == "24.11.5"
    assert shown(before=first).slurm_version == "24.11.5"


THERE = {name: Workload(metadata=Metadata(name=name), status=UP) for name in ("controller", "syncer")}


def in_step(report: Report | None, *, spec: SlurmClusterSpec = PLAIN, there: bool = True) -> tuple[Condition, str]:
    """What is said of the two sides, and what of it is told as a lack."""
    observed = ClusterObservation(workloads=THERE if there else {}, node_sets=(), configuration=IN_FORCE, report=report)
    found = status(META, spec, before=NEW, observed=observed)
    return condition("InStep", found), condition("Ready", found).message


def test_both_sides_are_in_step_when_the_syncer_has_nothing_to_complain_about() -> None:
    told, _ = in_step(Report(config="a", version="24.11.5"))
    assert (told.status, told.reason) == ("True", "InStep")


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (Report(held="Slurm: 3 of 4 nodes disappeared at once"), "Held"),
        (Report(stuck=("node a1 completes job 7 since noon",)), "Stuck"),
        (Report(delayed="drains of 40 Pods wait"), "Delayed"),
    ],
)
def test_what_waits_is_said_and_keeps_nobody_from_using_the_cluster(report: Report, reason: str) -> None:
    told, lacking = in_step(report)
    assert (told.status, told.reason) == ("False", reason)
    assert (report.held or report.delayed or report.stuck[0]) in told.message
    assert "InStep" not in lacking


@pytest.mark.parametrize("there", [True, False])
def test_a_slurm_that_cannot_be_read_is_a_lack_and_says_why_also_of_a_syncer_that_is_not_ready(*, there: bool) -> None:
    told, lacking = in_step(Report(config="a", unseen="not read since noon: it hangs", held="x"), there=there)
    assert (told.status, told.reason) == ("False", "SlurmUnreachable")
    assert told.message.startswith("not read since noon: it hangs; ")
    assert "not read since noon" in lacking


@pytest.mark.parametrize(
    ("report", "spec", "there", "reason"),
    [
        (None, PLAIN, "there", "Waiting"),
        (Report(config="a"), PLAIN, "", "NotMade"),
        (Report(config="a"), SlurmClusterSpec(syncer=Syncer(enabled=False)), "there", "SwitchedOff"),
        (Report(config="a"), SlurmClusterSpec(syncer=Syncer(replicas=0)), "there", "SwitchedOff"),
    ],
)
def test_a_cluster_without_a_syncer_lacks_something(
    report: Report | None, spec: SlurmClusterSpec, there: str, reason: str
) -> None:
    told, lacking = in_step(report, spec=spec, there=bool(there))
    assert (told.status, told.reason) == ("False", reason)
    assert "InStep: " in lacking
