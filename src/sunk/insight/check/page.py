"""What `sunk check` prints for people: a table, then lines to copy, which no width of a screen breaks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sunk.insight.check.evictions import DAEMON_SET, TOLERATION, Eviction
from sunk.insight.check.survey import Survey
from sunk.model.plainyaml import dump
from sunk.model.wording import counted
from sunk.terminal import columns, words

GUIDE: Final = "docs/guides/shared-nodes.md"
_UNSEEN: Final = "You may not list DaemonSets, so those without a Pod on these Nodes are missing here."


def overview(found: Survey, told: Sequence[Eviction]) -> RenderableType:
    unseen = [Text(_UNSEEN, style="yellow")] if found.daemon_sets is None else []
    nodes = counted(len(found.nodes), "Node")
    if not told:
        return Group(Text(f"{nodes} checked: everything there stays when a job starts.", style="green"), *unseen)
    return Group(Text(f"{nodes} checked. Evicted whenever a job starts there:"), Text(""), _table(told), *unseen)


def _table(told: Iterable[Eviction]) -> Table:
    table = columns("KIND", "NAMESPACE", "NAME", ">NODES", ">PODS", "NOTE")
    for one in told:
        kind, note = Text(one.kind, style="red" if one.infrastructure else ""), Text("; ".join(_notes(one)))
        table.add_row(kind, words(one.namespace), words(one.name), str(len(one.nodes)), str(one.pods), note)
    return table


def _notes(one: Eviction) -> Iterator[str]:
    if one.ours:
        yield "part of SUNK: upgrade the chart that installed it"
    elif one.kind == DAEMON_SET:
        yield "agent of the Node: should stay"
    elif one.infrastructure:
        yield "part of Kubernetes: should stay, or run elsewhere"
    if one.bounded is not None:
        yield f"tolerates the lock, but for {one.bounded} s only"
    if one.outlasts:
        yield f"grace period {one.grace} s, longer than prologs wait"


def advice(found: Survey, told: Sequence[Eviction]) -> Iterator[str]:
    """Lines to read and to paste; none if there is nothing to do."""
    if not told:
        return
    yield from ("", "What should stay needs this toleration in its Pod template, before others for the same taint:", "")
    yield from (f"  {line}" for line in dump({"tolerations": [TOLERATION]}).splitlines())
    if commands := [one.command for one in told if one.command and not one.ours]:
        yield from ("", "For the DaemonSets. If Helm or GitOps manages one, set it there, or it will be undone:", "")
        yield from (f"  {command}" for command in commands)
    if any(not one.infrastructure for one in told):
        yield from ("", f"The rest is ordinary work: it leaves when a job starts. See {GUIDE}.")
    if found.timeout is not None and any(one.outlasts for one in told):
        yield from (
            "",
            f"Prologs wait for {found.timeout} s (syncer.hooksAPI.timeout), then the job fails and the node",
        )
        yield "is drained. Shorten the grace periods, or raise the value."
