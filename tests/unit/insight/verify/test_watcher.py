"""A person's drain that went with its Node is remembered until Slurm shows it again, or shows that it was lifted."""

import pytest
from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.syncer.builders import entry, slice_of
from tests.unit.syncer.stores import put, remove

from sunk.insight.verify.watcher import SHOWN_REASON, OwedDrains
from sunk.kube.cache.store import Store
from sunk.kube.core import Node
from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.objects.nodesets import NodeSlice
from sunk.slurm.records import Node as Row
from sunk.slurm.states import NodeBase, NodeFlag

CLUSTER = "team/slurm"
NODE = "node-of-gpu-1"
LINES = f"other/slurm:bad disk\n{CLUSTER}:bad fan"


def node(lines: str = LINES, *, uid: str = "first") -> Node:
    return Node(metadata=Metadata(name=NODE, uid=uid, annotations={names.KEPT_DRAIN: lines} if lines else {}))


def row(reason: str = "", *flags: NodeFlag) -> Row:
    bits = NodeBase.IDLE | sum(flag.value for flag in flags or ((NodeFlag.DRAIN,) if reason else ()))
    return replace(blank(Row), name="gpu-1", state_bits=bits, reason=reason)


class Both:
    """The stores that the memory listens to, with the member gpu-1."""

    def __init__(self) -> None:
        self.nodes: Store[Node] = Store("nodes")
        slices: Store[NodeSlice] = Store("slices")
        put(slices, slice_of(entry("gpu-1")))
        self.owed = OwedDrains(CLUSTER, nodes=self.nodes, slices=slices)
        self.nodes.subscribe(self.owed.node)

    def sees(self, before: Row | None, after: Row | None) -> None:
        self.owed.row("gpu-1", before, after)


@pytest.fixture
def gone() -> Both:
    """The Node is deleted."""
    both = Both()
    put(both.nodes, node())
    remove(both.nodes, node())
    return both


@pytest.fixture
def back(gone: Both) -> Both:
    """Another Node of that name is there."""
    put(gone.nodes, node("", uid="second"))
    return gone


def test_what_a_node_says_of_this_cluster_is_owed_once_it_is_deleted(gone: Both) -> None:
    assert gone.owed.drains == {NODE: "bad fan"}


def test_a_node_that_was_replaced_between_two_looks_was_deleted_too() -> None:
    both = Both()
    put(both.nodes, node())
    put(both.nodes, node("", uid="second"))
    assert both.owed.drains == {NODE: "bad fan"}


@pytest.mark.parametrize("lines", ["", "other/slurm:bad disk", "team/slurm2:bad disk", "no line"])
def test_a_node_that_says_nothing_of_this_cluster_owes_nothing(lines: str) -> None:
    both = Both()
    put(both.nodes, node(lines))
    remove(both.nodes, node(lines))
    assert both.owed.drains == {}


def test_a_line_that_is_taken_off_a_node_that_stays_was_lifted() -> None:
    both = Both()
    put(both.nodes, node())
    put(both.nodes, node(""))
    remove(both.nodes, node(""))
    assert both.owed.drains == {}


def test_a_long_reason_is_cut() -> None:
    both = Both()
    put(both.nodes, node(f"{CLUSTER}:{'x' * 500}"))
    remove(both.nodes, node())
    assert both.owed.drains == {NODE: "x" * SHOWN_REASON}


def test_a_drain_that_goes_with_its_record_is_still_owed(gone: Both) -> None:
    down = row("bad fan", NodeFlag.DRAIN, NodeFlag.NOT_RESPONDING)
    gone.sees(row("bad fan"), down)
    gone.sees(down, None)
    assert gone.owed.drains == {NODE: "bad fan"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, row("k8s: new"), id="a new record, drained by us"),
        pytest.param(row("k8s: new"), row(), id="our drain is lifted"),
        pytest.param(row("bad fan"), None, id="the old record goes late"),
    ],
)
def test_it_is_owed_until_somebodys_drain_is_seen(back: Both, before: Row | None, after: Row | None) -> None:
    back.sees(before, after)
    assert back.owed.drains == {NODE: "bad fan"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(row("k8s: new"), row("bad fan"), id="it is on again"),
        pytest.param(None, row("bad fan", NodeFlag.FAIL), id="as FAIL"),
        pytest.param(row("bad fan"), row(), id="a person lifts it"),
    ],
)
def test_it_is_owed_no_more_once_that_is_seen(back: Both, before: Row | None, after: Row) -> None:
    back.sees(before, after)
    assert back.owed.drains == {}


def test_a_record_of_another_name_settles_nothing(back: Both) -> None:
    back.owed.row("gpu-2", None, row("bad fan"))
    assert back.owed.drains == {NODE: "bad fan"}
