"""Slurm's tables, for people."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sunk.slurm import rpcs
from sunk.slurm.cli import cells
from sunk.slurm.records import Calls, Job, Node, Partition, Statistics
from sunk.slurm.states import NodeBase
from sunk.terminal import columns, words

Partitions = Mapping[str, tuple[str, ...]]
_OUT: Final = frozenset({NodeBase.DOWN, NodeBase.ERROR, NodeBase.UNKNOWN, NodeBase.FUTURE})
_ABILITIES: Final = {
    (True, True): ("UP", "green"),
    (True, False): ("DOWN", "red"),
    (False, True): ("DRAIN", "yellow"),
    (False, False): ("INACTIVE", "dim"),
}


def nodes(rows: Collection[Node], *, partitions: Partitions, most: int | None = None) -> RenderableType:
    table = columns("NODE", "STATE", ">CPUS", ">GIB", "GRES", "PARTITIONS", "REASON")
    for row in [*rows][:most]:
        table.add_row(
            row.name,
            cells.node_state(row.state),
            cells.share(row.cpus_allocated, row.cpus),
            cells.gibibytes(row.memory_allocated, row.memory),
            cells.gres(row),
            ",".join(partitions.get(row.name, ())),
            cells.reason(row),
        )
    return Group(table, _summary("node", [_word(row) for row in rows], most=most))


def jobs(rows: Collection[Job], *, now: float, most: int | None = None) -> RenderableType:
    table = columns("JOB", "NAME", "USER", "ACCOUNT", "PARTITION", "STATE", ">TIME", ">LIMIT", ">NODES", "WHERE OR WHY")
    for row in [*rows][:most]:
        table.add_row(
            cells.job_id(row),
            Text(words(row.name)),
            cells.user(row.user_id),
            Text(words(row.account)),
            row.partition,
            cells.job_state(row.state),
            _elapsed(row, now=now),
            cells.limit(row.time_limit),
            str(row.node_count),
            cells.place(row),
        )
    return Group(table, _summary("job", [row.state.base.name.lower() for row in rows], most=most))


def partitions(rows: Iterable[Partition], *, nodes: Mapping[str, Collection[Node]]) -> RenderableType:
    """`nodes` are those of each partition, by its name."""
    table = columns("PARTITION", "STATE", ">LIMIT", ">TIER", ">NODES", ">IDLE", ">BUSY", ">OUT", ">CPUS", "QOS", "LIST")
    for row in sorted(rows, key=lambda each: each.name):
        found = nodes.get(row.name, ())
        counts = Counter(_use(node) for node in found)
        table.add_row(
            Text(row.name).append("*" if row.is_default else "", style="bold"),
            Text(*_ABILITIES[row.takes_jobs, row.starts_jobs]),
            cells.limit(row.max_time),
            str(row.priority_tier),
            str(row.node_count),
            Text(str(counts["idle"]), style="green" if counts["idle"] else "dim"),
            Text(str(counts["busy"]), style="cyan" if counts["busy"] else "dim"),
            Text(str(counts["out"]), style="red" if counts["out"] else "dim"),
            cells.share(sum(node.cpus_allocated for node in found), row.cpus),
            row.qos,
            Text(row.nodes, overflow="ellipsis", no_wrap=True),
        )
    return table


def statistics(found: Statistics, *, top: int) -> RenderableType:
    span = cells.duration(found.now - found.since)
    since = Text(f"Counted since {cells.moment(found.since)}, for {span}", style="dim")
    return Group(
        since,
        _pairs("Jobs", _jobs(found)),
        _pairs("slurmctld", _server(found)),
        _pairs("Main scheduler", _main(found)),
        _pairs("Backfill", _backfill(found)),
        _calls("Requests", found.rpcs, name=rpcs.name, top=top),
        _calls("Users", found.callers, name=cells.user, top=top),
    )


def _jobs(found: Statistics) -> dict[str, str]:
    return {
        "submitted": str(found.jobs_submitted),
        "started": str(found.jobs_started),
        "completed": str(found.jobs_completed),
        "cancelled": str(found.jobs_canceled),
        "failed": str(found.jobs_failed),
        "pending now": str(found.jobs_pending),
        "running now": str(found.jobs_running),
    }


def _server(found: Statistics) -> dict[str, str]:
    return {
        "threads": str(found.server_threads),
        "agents": f"{found.agents} with {found.agent_threads} threads",
        "messages to send": _unsent(found),
        "messages to slurmdbd": str(found.dbd_queue),
        "reading the clock": cells.microseconds(found.clock_latency),
    }


def _unsent(found: Statistics) -> str:
    kinds = ", ".join(f"{rpcs.name(number)} {count}" for number, count in found.unsent)
    return f"{found.agent_queue}: {kinds}" if kinds else str(found.agent_queue)


def _main(found: Statistics) -> dict[str, str]:
    minutes = max(found.now - found.since, 1) / 60
    return {
        "cycles": f"{found.cycles}, {found.cycles / minutes:.1f} a minute",
        "last, mean, longest": _times(found.cycle_last, found.cycle_sum, found.cycles, found.cycle_max),
        "mean depth": f"{found.cycle_depth_sum / max(found.cycles, 1):.0f} jobs",
        "queue": f"{found.queue} jobs",
        "ended by": _exits(found.cycle_exits, rpcs.MAIN_EXITS),
    }


def _backfill(found: Statistics) -> dict[str, str]:
    cycles = found.backfill_cycles
    return {
        "jobs started": f"{found.backfilled}, {found.backfilled_last} since the last cycle, {found.backfilled_het} het parts",
        "cycles": f"{cycles}{', one is running' if found.backfill_active else ''}",
        "last cycle": cells.moment(found.backfill_when) if found.backfill_when else "never",
        "last, mean, longest": _times(
            found.backfill_cycle_last, found.backfill_cycle_sum, cycles, found.backfill_cycle_max
        ),
        "depth last, mean": f"{found.backfill_depth_last}, {found.backfill_depth_sum / max(cycles, 1):.0f}",
        "of these tried": f"{found.backfill_depth_tried_last}, {found.backfill_depth_tried_sum / max(cycles, 1):.0f}",
        "queue last, mean": f"{found.backfill_queue}, {found.backfill_queue_sum / max(cycles, 1):.0f}",
        "table last, mean": f"{found.backfill_table}, {found.backfill_table_sum / max(cycles, 1):.0f}",
        "ended by": _exits(found.backfill_exits, rpcs.BACKFILL_EXITS),
    }


def _exits(counts: Sequence[int], names: Sequence[str]) -> str:
    """Why cycles ended. A later release may know of more reasons than we do."""
    return ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=False) if count) or "-"


def _times(last: int, total: int, count: int, longest: int) -> str:
    return ", ".join(map(cells.microseconds, (last, total / max(count, 1), longest)))


def _pairs(title: str, pairs: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, value in pairs.items():
        table.add_row(f"  {name}", value)
    return Group(Text(f"\n{title}", style="bold"), table)


def _calls(title: str, found: Sequence[Calls], *, name: Callable[[int], str], top: int) -> RenderableType:
    table = columns(title.upper(), ">COUNT", ">MEAN", ">TOTAL")
    costly = sorted(found, key=lambda each: each.microseconds, reverse=True)
    for each in costly[:top]:
        mean = cells.microseconds(each.microseconds / max(each.count, 1))
        table.add_row(name(each.key), str(each.count), mean, cells.microseconds(each.microseconds))
    left = len(costly) - top
    return Group(Text(""), table, Text(f"and {left} more", style="dim") if left > 0 else Text(""))


def _summary(noun: str, words: Sequence[str], *, most: int | None) -> Text:
    counts = ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())
    plural = noun if len(words) == 1 else f"{noun}s"
    hidden = max(len(words) - most, 0) if most is not None else 0
    text = f"{len(words)} {plural}{f': {counts}' if counts else ''}"
    return Text(f"{text}; {hidden} not shown, for lack of room" if hidden else text, style="dim")


def _word(node: Node) -> str:
    """A node's state in one word, for counting."""
    if node.state.base in _OUT:
        return node.state.base.name.lower()
    if node.state.failing:
        return "fail"
    if node.state.draining:
        return "drained" if node.state.drained else "draining"
    return "in power saving" if node.state.in_power_saving else node.state.base.name.lower()


def _use(node: Node) -> str:
    if node.state.busy:
        return "busy"
    return "idle" if _word(node) == "idle" else "out"


def _elapsed(job: Job, *, now: float) -> str:
    if not job.start_time or job.start_time > now:
        return "-"
    return cells.duration((job.end_time if job.state.ended else now) - job.start_time)
