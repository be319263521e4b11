"""When a Pod is cleared to be deleted, by what Slurm says of its node."""

import pytest
from hypothesis import given, strategies as st
from tests.unit.syncer.builders import drained, row

from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.removal.clearance import clearance


def test_a_clearance_names_the_drain_that_it_stands_on() -> None:
    node = drained(reason="k8s: pending deletion", reason_time=1234)
    assert clearance(node, held=False) == "1234:k8s: pending deletion"


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
    assert clearance(node, held=False) is None


def test_a_node_that_a_person_has_set_down_is_cleared_as_it_is() -> None:
    assert clearance(row(base=NodeBase.DOWN, reason="bad fan", reason_time=5), held=False) == "5:bad fan"


def test_a_job_that_holds_a_node_keeps_its_pod_whatever_the_node_looks_like() -> None:
    assert clearance(drained(reason="k8s: pending deletion"), held=True) is None
    assert clearance(None, held=True) is None


@given(st.sampled_from(NodeBase), st.sets(st.sampled_from(NodeFlag)), st.sampled_from(("", "k8s: cordon", "bad fan")))
def test_nothing_that_could_run_a_job_is_ever_cleared(base: NodeBase, flags: set[NodeFlag], reason: str) -> None:
    node = row("n1", *flags, base=base, reason=reason)
    if clearance(node, held=False) is not None:
        assert node.state.base in {NodeBase.IDLE, NodeBase.DOWN}
        assert NodeFlag.COMPLETING not in node.state
        assert node.state.out_of_service or node.state.base is NodeBase.DOWN
