"""How one value of a record looks in a table for people."""

import pwd
import time
from functools import lru_cache
from typing import Final

from rich.text import Text

from sunk.slurm.records import Job, Node
from sunk.slurm.states import JobBase, JobState, NodeBase, NodeFlag, NodeState
from sunk.terminal import words

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
