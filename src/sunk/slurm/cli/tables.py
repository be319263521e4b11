"""Slurm's tables, for people.

First how one value of a record looks in a cell, then the tables.
"""

import pwd
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sunk.slurm import rpcs
from sunk.slurm.records import Calls, Job, Node, Partition, Statistics
from sunk.slurm.states import JobBase, JobState, NodeBase, NodeFlag, NodeState
from sunk.terminal import columns, words

MIB_IN_GIB: Final = 1024
NOT_SHOWN: Final = NodeFlag.DYNAMIC_NORM | NodeFlag.DYNAMIC_FUTURE
"""How a node came to be; true of every node of ours, so it would tell nothing."""
_OUT: Final = NodeFlag.NOT_RESPONDING | NodeFlag.FAIL | NodeFlag.INVALID_REG
_NODE_STYLES: Final = {
    NodeBase.IDLE: "green",
    NodeBase.ALLOCATED: "cyan",
    NodeBase.MIXED: "cyan",
    NodeBase.DOWN: "red",
    NodeBase.ERROR: "red",
}
_JOB_STYLES: Final = {
    JobBase.PENDING: "yellow",
    JobBase.RUNNING: "green",
    JobBase.COMPLETED: "dim",
    JobBase.SUSPENDED: "magenta",
    JobBase.CANCELLED: "dim",
}


def node_state(state: NodeState) -> Text:
    shown = NodeState(base=state.base, flags=state.flags & ~NOT_SHOWN)
    return Text(str(shown), style=_node_style(state))


def _node_style(state: NodeState) -> str:
    if state.base is NodeBase.DOWN or state.flags & _OUT:
        return "red"
    if state.draining:
        return "yellow"
    if state.in_power_saving:
        return "dim"
    return _NODE_STYLES.get(state.base, "dim")


def job_state(state: JobState) -> Text:
    style = "magenta" if state.completing else _JOB_STYLES.get(state.base, "red")
    return Text(str(state), style=style)


def reason(node: Node) -> Text:
    """Why, by whom and when. After an undrain 24.11 leaves the old text standing, which says nothing any more."""
    held = node.state.draining or node.state.base is NodeBase.DOWN or node.state.flags & NodeFlag.FAIL
    if not node.reason or not held:
        return Text("")
    who = user(node.reason_uid) if node.reason_uid is not None else "?"
    when = f" {moment(node.reason_time)}" if node.reason_time else ""
    return Text(words(node.reason)).append(f"  {who}{when}", style="dim")


def job_id(job: Job) -> str:
    """As `squeue` writes it: of an array with the task, of a heterogeneous job with the part."""
    if job.het_id:
        return f"{job.het_id}+{job.het_offset}"
    if job.array_tasks:
        return f"{job.array_id}_[{words(job.array_tasks)}]"
    return f"{job.array_id}_{job.array_task}" if job.array_task is not None else str(job.id)


def place(job: Job) -> Text:
    """Where it is, or why it is nowhere."""
    if job.nodes:
        return Text(job.nodes)
    why = words(job.reason_text or job.reason)
    return Text(f"({why})" if why and why != "None" else "", style="dim")


def share(used: int, total: int) -> Text:
    return Text(f"{used}/{total}", style="" if used else "dim")


def gibibytes(used: int, total: int) -> Text:
    shape = ".1f" if total < 10 * MIB_IN_GIB else ".0f"
    return Text(f"{used / MIB_IN_GIB:{shape}}/{total / MIB_IN_GIB:{shape}}", style="" if used else "dim")


def gres(node: Node) -> Text:
    """Each kind with how many of it are in use, such as `gpu:h100 2/8`."""
    used = dict(map(_counted, _parts(node.gres_used)))
    found = [(name, used.get(name, "0"), total) for name, total in map(_counted, _parts(node.gres))]
    text = ", ".join(f"{name} {taken}/{total}" for name, taken, total in found)
    return Text(text, style="" if any(taken != "0" for _, taken, _ in found) else "dim")


def _counted(part: str) -> tuple[str, str]:
    """`gpu:h100:8(S:0-1)` is 8 of gpu:h100."""
    name, _, count = part.partition("(")[0].rpartition(":")
    return name, count


def _parts(text: str) -> list[str]:
    """Split at commas, but not at those in brackets."""
    parts, depth = [""], 0
    for each in text:
        depth += (each == "(") - (each == ")")
        if each == "," and not depth:
            parts.append("")
        else:
            parts[-1] += each
    return [part for part in parts if part]


def duration(seconds: float) -> str:
    """Days, hours, minutes and seconds as Slurm writes them: 1-02:03:04, 2:03:04, 3:04."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def limit(minutes: int | None) -> str:
    return "unlimited" if minutes is None else duration(minutes * 60)


def moment(when: float) -> str:
    """The hour of today, or the day and the hour of another one."""
    then, today = time.localtime(when), time.localtime()
    shape = "%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(shape, then)


def microseconds(value: float) -> str:
    if value < 1_000:  # noqa: PLR2004 - of a millisecond
        return f"{value:.0f} µs"
    return f"{value / 1_000:.1f} ms" if value < 1_000_000 else f"{value / 1_000_000:.1f} s"  # noqa: PLR2004


@lru_cache(maxsize=4096)
def user(number: int) -> str:
    """A user's name, where this machine knows it."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


Partitions = Mapping[str, tuple[str, ...]]
_UNUSABLE: Final = frozenset({NodeBase.DOWN, NodeBase.ERROR, NodeBase.UNKNOWN, NodeBase.FUTURE})
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
            node_state(row.state),
            share(row.cpus_allocated, row.cpus),
            gibibytes(row.memory_allocated, row.memory),
            gres(row),
            ",".join(partitions.get(row.name, ())),
            reason(row),
        )
    return Group(table, _summary("node", [_word(row) for row in rows], most=most))


def jobs(rows: Collection[Job], *, now: float, most: int | None = None) -> RenderableType:
    table = columns(
        "JOB", "NAME", "USER", "ACCOUNT", "PARTITION", "STATE", ">TIME", ">LIMIT", ">NODES", "NODELIST(REASON)"
    )
    for row in [*rows][:most]:
        table.add_row(
            job_id(row),
            Text(words(row.name)),
            user(row.user_id),
            Text(words(row.account)),
            row.partition,
            job_state(row.state),
            _elapsed(row, now=now),
            limit(row.time_limit),
            str(row.node_count),
            place(row),
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
            limit(row.max_time),
            str(row.priority_tier),
            str(row.node_count),
            Text(str(counts["idle"]), style="green" if counts["idle"] else "dim"),
            Text(str(counts["busy"]), style="cyan" if counts["busy"] else "dim"),
            Text(str(counts["out"]), style="red" if counts["out"] else "dim"),
            share(sum(node.cpus_allocated for node in found), row.cpus),
            row.qos,
            Text(row.nodes, overflow="ellipsis", no_wrap=True),
        )
    return table


def statistics(found: Statistics, *, top: int) -> RenderableType:
    span = duration(found.now - found.since)
    since = Text(f"Counted since {moment(found.since)}, for {span}", style="dim")
    return Group(
        since,
        _pairs("Jobs", _jobs(found)),
        _pairs("slurmctld", _server(found)),
        _pairs("Main scheduler", _main(found)),
        _pairs("Backfill", _backfill(found)),
        _calls("Requests", found.rpcs, name=rpcs.name, top=top),
        _calls("Users", found.callers, name=user, top=top),
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
        "agent queue size": _unsent(found),
        "DBD agent queue size": str(found.dbd_queue),
        "gettimeofday latency": microseconds(found.clock_latency),
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
        "last cycle": moment(found.backfill_when) if found.backfill_when else "never",
        "last, mean, longest": _times(
            found.backfill_cycle_last, found.backfill_cycle_sum, cycles, found.backfill_cycle_max
        ),
        "depth last, mean": f"{found.backfill_depth_last}, {found.backfill_depth_sum / max(cycles, 1):.0f}",
        "depth (try sched) last, mean": f"{found.backfill_depth_tried_last}, {found.backfill_depth_tried_sum / max(cycles, 1):.0f}",
        "queue last, mean": f"{found.backfill_queue}, {found.backfill_queue_sum / max(cycles, 1):.0f}",
        "table last, mean": f"{found.backfill_table}, {found.backfill_table_sum / max(cycles, 1):.0f}",
        "ended by": _exits(found.backfill_exits, rpcs.BACKFILL_EXITS),
    }


def _exits(counts: Sequence[int], names: Sequence[str]) -> str:
    """Why cycles ended. A later release may know of more reasons than we do."""
    return ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=False) if count) or "-"


def _times(last: int, total: int, count: int, longest: int) -> str:
    return ", ".join(map(microseconds, (last, total / max(count, 1), longest)))


def _pairs(title: str, pairs: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, value in pairs.items():
        table.add_row(f"  {name}", value)
    return Group(Text(f"\n{title}", style="bold"), table)


def _calls(title: str, found: Sequence[Calls], *, name: Callable[[int], str], top: int) -> RenderableType:
    table = columns(title.upper(), ">COUNT", ">MEAN", ">TOTAL")
    costly = sorted(found, key=lambda each: each.microseconds, reverse=True)
    for each in costly[:top]:
        mean = microseconds(each.microseconds / max(each.count, 1))
        table.add_row(name(each.key), str(each.count), mean, microseconds(each.microseconds))
    left = len(costly) - top
    return Group(Text(""), table, Text(f"and {left} more", style="dim") if left > 0 else Text(""))


def _summary(noun: str, words: Sequence[str], *, most: int | None) -> Text:
    counts = ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())
    plural = noun if len(words) == 1 else f"{noun}s"
    hidden = max(len(words) - most, 0) if most is not None else 0
    text = f"{len(words)} {plural}{f': {counts}' if counts else ''}"
    return Text(f"{text}; {hidden} not shown (screen too small)" if hidden else text, style="dim")


def _word(node: Node) -> str:
    """A node's state in one word, for counting."""
    if node.state.base in _UNUSABLE:
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
    return duration((job.end_time if job.state.ended else now) - job.start_time)
