"""Which rows a person asked to see."""

from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.slurm.blank import blank

from sunk.model.refusal import Refusal
from sunk.slurm.cli import selection
from sunk.slurm.cli.selection import partitions_by_node
from sunk.slurm.records import Job, Node, Partition
from sunk.slurm.states import JobBase, JobFlag, NodeBase, NodeFlag

IDLE, MIXED, DRAIN = NodeBase.IDLE.value, NodeBase.MIXED.value, NodeFlag.DRAIN.value
NODES = [
    blank(Node, name="n10", state_bits=IDLE),
    blank(Node, name="n9", state_bits=IDLE | DRAIN),
    blank(Node, name="g1", state_bits=MIXED | DRAIN),
]
JOBS = [
    blank(Job, id=3, user_id=1, partition="a,b", state_bits=JobBase.PENDING.value),
    blank(Job, id=2, user_id=2, partition="a", state_bits=JobBase.CANCELLED.value | JobFlag.COMPLETING.value),
    blank(Job, id=1, user_id=1, partition="a", state_bits=JobBase.FAILED.value),
]


def nodes(*states: str, names: tuple[str, ...] = (), partitions: frozenset[str] | None = None) -> list[str]:
    wanted = selection.NodeSelection(
        names=selection.names(names),
        states=selection.state_filter(states, known=selection.NODE_WORDS),
        partitions=partitions,
    )
    return [row.name for row in wanted.pick(NODES, partitions={"n9": ("x",)})]


def jobs(wanted: selection.JobSelection) -> list[int]:
    return [row.id for row in wanted.pick(JOBS)]


def in_state(text: str) -> selection.JobSelection:
    return selection.JobSelection(states=selection.state_filter([text], known=selection.JOB_WORDS))


def test_nodes_come_in_the_order_in_which_people_count() -> None:
    assert nodes() == ["g1", "n9", "n10"]


def test_a_hostlist_names_some_and_those_that_are_not_there_are_known() -> None:
    assert nodes(names=("n[9-10]",)) == ["n9", "n10"]
    assert selection.NodeSelection(names=frozenset({"n9", "x2", "x1"})).missing(NODES) == ["x1", "x2"]


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (("drain",), ["g1", "n9"]),
        (("drained",), ["n9"]),
        (("DRAINING,idle",), ["g1", "n9", "n10"]),
        (("idle+drain",), ["n9"]),
        (("mix", "idle+drain"), ["g1", "n9"]),
        (("down",), []),
    ],
)
def test_states_are_asked_for_in_peoples_words(states: tuple[str, ...], found: list[str]) -> None:
    assert nodes(*states) == found


def test_nodes_of_a_partition() -> None:
    assert nodes(partitions=frozenset({"x", "y"})) == ["n9"]


def test_jobs_that_hold_no_node_any_more_are_shown_only_if_asked_for() -> None:
    assert jobs(selection.JobSelection()) == [2, 3]
    assert jobs(selection.JobSelection(ended=True)) == [1, 2, 3]
    assert jobs(in_state("failed")) == [1]
    assert jobs(in_state("cg")) == [2]


def test_jobs_of_a_user_or_a_partition() -> None:
    assert jobs(selection.JobSelection(users=frozenset({1}))) == [3]
    assert jobs(selection.JobSelection(partitions=frozenset({"b"}))) == [3]


def test_a_state_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(Refusal, match=r"TIRED is not a Slurm state. Valid: .*drained.*idle"):
        nodes("tired")


def test_what_is_no_hostlist_is_refused() -> None:
    with pytest.raises(Refusal, match="is not a list of nodes"):
        nodes(names=("n[1-",))


def test_a_user_may_be_a_number_and_an_unknown_name_is_refused() -> None:
    assert (selection.user_number("root"), selection.user_number("4711")) == (0, 4711)
    with pytest.raises(Refusal, match="no user nobody-here"):
        selection.user_number("nobody-here")


@settings(deadline=None)
@given(names=st.lists(st.text("ab019", min_size=1, max_size=6)), luck=st.randoms())
def test_names_have_one_order_however_they_came(names: list[str], luck: Random) -> None:
    shuffled = luck.sample(names, len(names))
    assert sorted(shuffled, key=selection.natural) == sorted(names, key=selection.natural)


def test_a_node_is_in_every_partition_that_lists_it() -> None:
    found = [blank(Partition, name="b", nodes="n[1-2]"), blank(Partition, name="a", nodes="n2"), blank(Partition)]
    assert partitions_by_node(found) == {"n1": ("b",), "n2": ("a", "b")}
