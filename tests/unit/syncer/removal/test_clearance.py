"""When a Pod is cleared to be deleted, by what Slurm says of its node."""

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.syncer.builders import drained, later, pod, row

from sunk.model import names
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.pods import ComputePodCondition
from sunk.syncer.removal.clearance import ClearanceFacts, cleared_drain, settled, wanted_clearance


def test_a_clearance_names_the_drain_that_it_stands_on() -> None:
    node = drained(reason="k8s: pending deletion", reason_time=1234)
    assert cleared_drain(node, held=False) == "1234:k8s: pending deletion"


@pytest.mark.parametrize(
    "node",
    [
        row(),
        row(reason="k8s: pending deletion"),
        row("n1", NodeFlag.DRAIN, base=NodeBase.ALLOCATED),
        row("n1", NodeFlag.DRAIN, NodeFlag.COMPLETING),
        row("n1", NodeFlag.DRAIN, base=NodeBase.UNKNOWN),
        row(base=NodeBase.DOWN, reason="Not responding"),
        row(base=NodeBase.DOWN, reason="k8s: pod terminated"),
    ],
    ids=lambda node: f"{node.state} {node.reason}",
)
def test_what_takes_jobs_or_may_have_one_is_not_cleared(node: Node) -> None:
    assert cleared_drain(node, held=False) is None


def test_a_node_that_a_person_has_set_down_is_cleared_as_it_is() -> None:
    assert cleared_drain(row(base=NodeBase.DOWN, reason="bad fan", reason_time=5), held=False) == "5:bad fan"


def test_a_job_that_holds_a_node_keeps_its_pod_whatever_the_node_looks_like() -> None:
    assert cleared_drain(drained(reason="k8s: pending deletion"), held=True) is None
    assert cleared_drain(None, held=True) is None


@given(st.sampled_from(NodeBase), st.sets(st.sampled_from(NodeFlag)), st.sampled_from(("", "k8s: cordon", "bad fan")))
def test_nothing_that_could_run_a_job_is_ever_cleared(base: NodeBase, flags: set[NodeFlag], reason: str) -> None:
    node = row("n1", *flags, base=base, reason=reason)
    if cleared_drain(node, held=False) is not None:
        assert node.state.base in {NodeBase.IDLE, NodeBase.DOWN}
        assert NodeFlag.COMPLETING not in node.state
        assert node.state.out_of_service or node.state.base is NodeBase.DOWN


GOING = pod("n1", pending_deletion="scale-in")
IDLE = ClearanceFacts(node=drained(reason="k8s: pending deletion", reason_time=5))


def test_only_a_pod_that_has_to_go_is_cleared_and_only_by_a_slurm_that_is_believed() -> None:
    assert wanted_clearance(GOING, IDLE) == "5:k8s: pending deletion"
    assert wanted_clearance(pod("n1"), IDLE) is None
    assert wanted_clearance(GOING, replace(IDLE, trusted=False)) is None
    assert wanted_clearance(GOING, replace(IDLE, held=True)) is None


def test_a_pod_that_slurm_does_not_know_is_cleared_once_that_has_been_so_for_long_enough() -> None:
    assert wanted_clearance(GOING, ClearanceFacts(node=None)) is None
    unknown = ClearanceFacts(node=None, unknown_long=True)
    assert wanted_clearance(GOING, unknown) == "0:Slurm does not know it"
    assert wanted_clearance(GOING, replace(unknown, held=True)) is None


def test_long_enough_is_counted_by_the_pod_itself_and_since_slurm_answers() -> None:
    unknown = pod("n1", ComputePodCondition(names.SLURM_RUNNING, "Unknown", last_transition_time=later(100)))
    assert settled(unknown, known_for=15, now=later(115))
    assert not settled(unknown, known_for=14, now=later(115)), "slurmds are only just finding slurmctld"
    assert not settled(unknown, known_for=15, now=later(114))
    assert not settled(pod("n1"), known_for=15, now=later(115)), "nobody has written it yet"
    known = pod("n1", ComputePodCondition(names.SLURM_RUNNING, "False", last_transition_time=later(100)))
    assert not settled(known, known_for=15, now=later(115))
