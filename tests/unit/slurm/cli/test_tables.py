"""Tables for people: each row says what the record does, and nothing that users write can break out of it."""

import io
import time

import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console, RenderableType
from tests.unit.slurm.blank import blank

from sunk.slurm.cli import tables
from sunk.slurm.records import Calls, Job, Node, Partition, Statistics
from sunk.slurm.states import JobBase, JobFlag, NodeBase, NodeFlag, job_state, node_state
from sunk.terminal import words

NOW = 1_000_000.0


def drawn(what: RenderableType) -> list[str]:
    console = Console(file=io.StringIO(), width=400, highlight=False)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def bits(base: NodeBase, *flags: NodeFlag) -> int:
    return base.value | sum(flag.value for flag in flags)


def node(name: str, *flags: NodeFlag, base: NodeBase = NodeBase.IDLE, reason: str = "") -> Node:
    return blank(Node, name=name, state_bits=bits(base, *flags), reason=reason, reason_uid=0, cpus=4, memory=2048)


def row(lines: list[str], start: str) -> str:
    return next(line for line in lines if line.startswith(start))


def test_a_drained_node_shows_why_and_who() -> None:
    lines = drawn(tables.nodes([node("a", NodeFlag.DRAIN, reason="bad fan")], partitions={"a": ("all", "x")}))
    assert row(lines, "a ").split() == ["a", "IDLE+DRAIN", "0/4", "0.0/2.0", "all,x", "bad", "fan", "root"]
    assert lines[-1] == "1 node: 1 drained"


def test_a_reason_that_nothing_holds_up_any_more_is_not_shown() -> None:
    assert "old" not in row(drawn(tables.nodes([node("a", reason="old")], partitions={})), "a ")


def test_how_a_node_came_to_be_is_not_part_of_its_state() -> None:
    assert str(tables.node_state(node_state(bits(NodeBase.IDLE, NodeFlag.DYNAMIC_NORM)))) == "IDLE"


@pytest.mark.parametrize(
    ("base", "flags", "style"),
    [
        (NodeBase.IDLE, (), "green"),
        (NodeBase.MIXED, (), "cyan"),
        (NodeBase.IDLE, (NodeFlag.DRAIN,), "yellow"),
        (NodeBase.DOWN, (NodeFlag.DRAIN,), "red"),
        (NodeBase.IDLE, (NodeFlag.NOT_RESPONDING,), "red"),
        (NodeBase.IDLE, (NodeFlag.CLOUD, NodeFlag.POWERED_DOWN), "dim"),
        (NodeBase.UNKNOWN, (), "dim"),
    ],
)
def test_the_worst_of_a_node_gives_its_colour(base: NodeBase, flags: tuple[NodeFlag, ...], style: str) -> None:
    assert tables.node_state(node_state(bits(base, *flags))).style == style


def test_a_completing_job_is_neither_running_nor_over() -> None:
    state = job_state(JobBase.CANCELLED.value | JobFlag.COMPLETING.value)
    assert tables.job_state(state).style == "magenta"
    assert str(tables.job_state(state)) == "CANCELLED+COMPLETING"


@pytest.mark.parametrize(
    ("gres", "used", "shown"),
    [
        ("gpu:h100:8(S:0-1)", "gpu:h100:2(IDX:0,3)", "gpu:h100 2/8"),
        ("gpu:8", "gpu:0", "gpu 0/8"),
        ("gpu:a:2,shard:b:4", "gpu:a:1(IDX:0),shard:b:0(IDX:N/A)", "gpu:a 1/2, shard:b 0/4"),
        ("", "", ""),
    ],
)
def test_generic_resources_are_counted_by_kind(gres: str, used: str, shown: str) -> None:
    assert str(tables.gres(blank(Node, gres=gres, gres_used=used))) == shown


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        (blank(Job, id=7), "7"),
        (blank(Job, id=9, array_id=7, array_task=2), "7_2"),
        (blank(Job, id=7, array_id=7, array_tasks="1-9%2"), "7_[1-9%2]"),
        (blank(Job, id=8, het_id=7, het_offset=1), "7+1"),
    ],
)
def test_a_job_is_called_as_squeue_calls_it(job: Job, shown: str) -> None:
    assert tables.job_id(job) == shown


def test_a_running_job_says_for_how_long_and_where_a_pending_one_why() -> None:
    running = blank(Job, id=1, state_bits=1, start_time=int(NOW) - 3700, nodes="n[1-2]", node_count=2, time_limit=90)
    pending = blank(Job, id=2, state_bits=0, reason="Priority", node_count=1)
    lines = drawn(tables.jobs([running, pending], now=NOW))
    assert row(lines, "1 ").split()[-4:] == ["1:01:40", "1:30:00", "2", "n[1-2]"]
    assert row(lines, "2 ").split()[-4:] == ["-", "unlimited", "1", "(Priority)"]
    assert lines[-1] == "2 jobs: 1 running, 1 pending"


def test_a_table_that_does_not_fit_says_how_much_is_left_out() -> None:
    lines = drawn(tables.nodes([node(f"n{index}") for index in range(9)], partitions={}, most=2))
    assert len([line for line in lines if line.startswith("n")]) == 2
    assert lines[-1] == "9 nodes: 9 idle; 7 not shown (screen too small)"


def test_a_partition_counts_what_its_nodes_could_do() -> None:
    nodes = [node("a"), node("b", base=NodeBase.MIXED), node("c", NodeFlag.DRAIN), node("d", base=NodeBase.DOWN)]
    found = blank(Partition, name="all", state_bits=3, flags=1, node_count=4, cpus=16, nodes="[a-d]")
    lines = drawn(tables.partitions([found], nodes={"all": nodes}))
    assert row(lines, "all*").split() == ["all*", "UP", "unlimited", "0", "4", "1", "1", "2", "0/16", "[a-d]"]


def test_statistics_list_the_costliest_requests_and_never_divide_by_zero() -> None:
    calls = (Calls(1008, 2, 3000), Calls(2007, 4, 9_000_000), Calls(99, 1, 1))
    lines = drawn(tables.statistics(blank(Statistics, rpcs=calls), top=2))
    assert row(lines, "REQUEST_NODE_INFO").split()[1:] == ["4", "2.2", "s", "9.0", "s"]
    assert row(lines, "REQUEST_PING").split()[1:] == ["2", "1.5", "ms", "3.0", "ms"]
    assert "and 1 more" in lines


@settings(deadline=None)
@given(text=st.text())
def test_what_users_write_stays_in_its_line(text: str) -> None:
    found = blank(Job, id=1, name=text, account=text, reason_text=text)
    assert all(each.isprintable() for each in words(text))
    lines = drawn(tables.jobs([found], now=NOW))
    assert lines[2].startswith("1 ")
    assert lines[-1] == "1 job: 1 pending"


@pytest.mark.parametrize(("seconds", "shown"), [(-5, "0:00"), (59, "0:59"), (3600, "1:00:00"), (90_061, "1-01:01:01")])
def test_durations_are_written_as_slurm_does(seconds: int, shown: str) -> None:
    assert tables.duration(seconds) == shown


def test_a_moment_of_today_needs_no_date() -> None:
    assert len(tables.moment(time.time())) == len("12:34:56")
    assert tables.moment(0).startswith(("1970-01-01", "1969-12-31"))
