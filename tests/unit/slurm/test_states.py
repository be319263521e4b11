"""Base and flags of nodes and jobs out of Slurm's numbers."""

import pytest
from hypothesis import given, strategies

from sunk.slurm.states import JobBase, JobFlag, NodeBase, NodeFlag, job_state, node_state

UINT32 = strategies.integers(min_value=0, max_value=2**32 - 1)


def test_a_state_reads_as_scontrol_writes_it() -> None:
    state = node_state(2 | 1 << 9 | 1 << 26)
    assert str(state) == "IDLE+DRAIN+DYNAMIC_NORM"
    assert state.base is NodeBase.IDLE
    assert NodeFlag.DRAIN in state
    assert NodeFlag.CLOUD not in state


@pytest.mark.parametrize(
    ("bits", "drained"),
    [
        (NodeBase.IDLE | 1 << 9, True),
        (NodeBase.DOWN | 1 << 9, True),
        (NodeBase.IDLE, False),
        (NodeBase.IDLE | 1 << 9 | 1 << 10, False),
        (NodeBase.MIXED | 1 << 9, False),
        (NodeBase.ALLOCATED | 1 << 9, False),
        (NodeBase.UNKNOWN | 1 << 9, False),
    ],
)
def test_drained_means_that_no_job_is_left(bits: int, drained: bool) -> None:  # noqa: FBT001 - a table
    assert node_state(bits).drained is drained


@given(UINT32)
def test_no_number_is_unreadable_and_an_unknown_base_permits_nothing(bits: int) -> None:
    state = node_state(bits)
    if bits & 0xF not in set(NodeBase):
        assert not state.drained
        assert not state.registered


def test_a_job_that_completes_still_holds_its_nodes() -> None:
    state = job_state(JobBase.CANCELLED | JobFlag.COMPLETING.value)
    assert str(state) == "CANCELLED+COMPLETING"
    assert state.ended
    assert state.holds_nodes
    assert not job_state(JobBase.CANCELLED).holds_nodes
    assert not job_state(JobBase.PENDING).ended


@given(UINT32)
def test_a_job_state_that_nobody_knows_has_not_ended_and_holds_its_nodes(bits: int) -> None:
    state = job_state(bits)
    if bits & 0xFF not in set(JobBase) or bits & 0xFF == JobBase.UNKNOWN:
        assert state.base is JobBase.UNKNOWN
        assert state.holds_nodes
        assert not state.ended
