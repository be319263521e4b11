"""What an order for a node as it was seen has taken from somebody else."""

from typing import Any

import pytest
from tests.unit.slurm.blank import blank

from sunk.model.contract import drains
from sunk.slurm.errors import Unreachable
from sunk.slurm.libslurm.wire import NodeChange, Watched
from sunk.slurm.orders import bounds, guarded
from sunk.slurm.orders.guarded import Attempt
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag

UNDRAIN = NodeChange(names="n1", state=NodeFlag.UNDRAIN.value)
DRAINED, IDLE, DOWN = NodeBase.IDLE.value | NodeFlag.DRAIN.value, NodeBase.IDLE.value, NodeBase.DOWN.value


def node(bits: int, reason: str = "", *, at: int = 1, **values: Any) -> Node:
    return blank(Node, name="n1", state_bits=bits, reason=reason, reason_time=at, **values)


OURS = node(DRAINED, "k8s: cordon")


@pytest.mark.parametrize("reason", ["bob: caf\ufffd", "r" * 65_537])
def test_a_reason_that_may_stand_there_otherwise_is_not_compared_by_its_bytes(reason: str) -> None:
    assert guarded.is_altered(reason)


@pytest.mark.parametrize("reason", ["", "bob: fan", "größer", "r" * 65_536])
def test_every_other_reason_is(reason: str) -> None:
    assert not guarded.is_altered(reason)


def test_a_long_reason_is_cut_between_characters() -> None:
    assert bounds.shortened("fan") == "fan"
    assert bounds.shortened("x" + "ü" * 40_000) == "x" + "ü" * 32_767


def test_a_drain_of_somebody_else_that_an_undrain_has_lifted_is_known_by_its_text() -> None:
    lost = guarded.covered(OURS, [], node(IDLE, "bob: fan", at=2), change=UNDRAIN)
    assert lost is not None
    assert lost.row.state.draining
    assert lost.row.reason == "bob: fan"


@pytest.mark.parametrize("reason", [drains.NOT_RESPONDING, "bob: broken"])
def test_a_node_that_goes_down_at_the_moment_of_an_undrain_was_not_drained_by_anybody(reason: str) -> None:
    assert guarded.covered(OURS, [], node(DOWN, reason, at=2), change=UNDRAIN) is None


def test_what_slurm_writes_at_a_lost_node_is_no_drain_of_a_person() -> None:
    lost = node(DOWN | NodeFlag.DRAIN.value, drains.NOT_RESPONDING, at=2)
    assert guarded.covered(OURS, [lost], node(DOWN, drains.NOT_RESPONDING, at=2), change=UNDRAIN) is None
    assert guarded.covered(OURS, [], node(IDLE, drains.NOT_RESPONDING, at=2), change=UNDRAIN) is None


LOST = Unreachable(1800, asked="update node n1")
BOBS = node(DRAINED, "bob: fan", at=2)


@pytest.mark.parametrize(
    ("watched", "lost"),
    [
        (Watched((OURS, BOBS), trouble=LOST), True),
        (Watched((OURS, BOBS, node(IDLE))), True),
        (Watched((OURS,), trouble=LOST), False),
        (Watched((BOBS,)), False),  # not sent
        (None, False),
    ],
)
def test_an_order_without_an_answer_is_judged_by_what_was_seen_of_it(watched: Watched | None, *, lost: bool) -> None:
    attempt = Attempt(row=OURS, change=UNDRAIN, seen=watched)
    found = guarded.judged(attempt, node(IDLE))
    assert (found is not None and found.row.reason == "bob: fan") == lost
    assert guarded.judged(attempt, BOBS) is None, "it stands"
