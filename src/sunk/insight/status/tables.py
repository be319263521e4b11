"""An overview as tables for people."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sunk.insight.status.members import Note
from sunk.insight.status.overview import OBSERVED, ClusterView, Concern, MemberView, NodeSetView, Overview, PartView
from sunk.model.contract.conditions import PROGRESSING
from sunk.operator.nodeset.commands import lasting
from sunk.terminal import columns, words

BLANK = Text("")
SHORT = 10
"""So much of a hash tells one configuration from another."""


def draw(found: Overview, *, now: datetime, where: str = "", most: int | None = None) -> RenderableType:
    """The page, with at most so many lines about members. `where` is what was looked at, for when there is nothing."""
    if not found.clusters and not found.node_sets:
        return Text(
            f"No SlurmCluster and no NodeSet {where or 'anywhere'}.{'' if not where else ' -A shows all namespaces.'}"
        )
    lines = Room(most)
    blocks = [_cluster(one, now=now, room=lines) for one in found.clusters]
    if found.node_sets:
        title = Text("NodeSets without a SlurmCluster", style="bold")
        blocks.append(Group(title, *_indented(_sets(found.node_sets, now=now, room=lines))))
    if not found.nodes_known:
        blocks.append(
            Text(
                "You may not read Nodes, so cordons and lost Nodes are not shown; locks are shown as Pods report them.",
                style="dim",
            )
        )
    return Group(*_spaced(blocks))


class Room:
    """How many lines are left on a screen."""

    def __init__(self, most: int | None) -> None:
        self._left = most

    def take(self, rows: Sequence[MemberView]) -> Sequence[MemberView]:
        if self._left is None:
            return rows
        taken = rows[: max(self._left, 0)]
        self._left -= len(taken)
        return taken


def _cluster(one: ClusterView, *, now: datetime, room: Room) -> RenderableType:
    title = Text("SlurmCluster ", style="bold").append(f"{one.namespace}/{one.name}  ")
    title.append_text(_state(one))
    facts = Text("  ").join([*_facts(one)])
    inner: list[RenderableType] = [facts, *(_concern(each, now=now) for each in one.concerns)]
    if one.parts:
        inner.append(Text("  ").join(_part(each) for each in one.parts))
    inner += _sets(one.node_sets, now=now, room=room)
    return Group(title, *_indented(inner))


def _state(cluster: ClusterView) -> Text:
    if cluster.deleted:
        return Text("being deleted", style="yellow")
    return Text("ready", style="green") if cluster.ready else Text("not ready", style="red")


def _facts(cluster: ClusterView) -> Iterator[Text]:
    if cluster.slurm_version:
        yield Text(f"Slurm {words(cluster.slurm_version)}")
    if not cluster.config_wanted:
        yield Text("no configuration yet", style="dim")
    elif cluster.config_wanted == cluster.config_applied:
        yield Text(f"configuration {cluster.config_wanted[:SHORT]} applied")
    else:
        before = f", running {cluster.config_applied[:SHORT]}" if cluster.config_applied else ""
        yield Text(f"configuration {cluster.config_wanted[:SHORT]} not applied yet{before}", style="yellow")


def _part(part: PartView) -> Text:
    style = "green" if part.settled else "red" if part.ready < part.wanted else "yellow"
    told = Text(f"{part.name} ").append(f"{part.ready}/{part.wanted}", style=style)
    return told if part.settled or part.ready < part.wanted else told.append(" updating", style=style)


def _concern(concern: Concern, *, now: datetime) -> Text:
    style = "yellow" if concern.type in {PROGRESSING, OBSERVED} else "red"
    text = Text(f"{concern.type}: {concern.reason}", style=style).append(f"  {words(concern.message)}", style="default")
    return text.append(_age(concern.since, now=now), style="dim")


def _sets(sets: Sequence[NodeSetView], *, now: datetime, room: Room) -> list[RenderableType]:
    if not sets:
        return []
    made: list[RenderableType] = [BLANK, _numbers(sets)]
    for one in sets:
        made += [Text(f"{one.name}  ").append_text(_concern(each, now=now)) for each in one.concerns]
    members = sorted((each for one in sets for each in one.members), key=lambda each: not each.grave)
    shown = room.take(members)
    if shown:
        made += [BLANK, _members(shown, now=now)]
    made.append(_summary(sets, members, hidden=len(members) - len(shown)))
    return made


def _numbers(sets: Iterable[NodeSetView]) -> Table:
    numbers = ("DESIRED", "FEASIBLE", "CURRENT", "READY", "DRAINED", "UPDATED", "LEAVING", "LOCKED", "LOCK PENDING")
    table = columns("NODESET", *(f">{title}" for title in numbers))
    for node_set in sets:
        table.add_row(
            Text(node_set.name).append(" being deleted" if node_set.deleted else "", style="yellow"),
            str(node_set.desired),
            _unless(node_set.feasible, bad=node_set.feasible < node_set.desired),
            _unless(node_set.current, bad=node_set.current < node_set.desired),
            _unless(node_set.ready, bad=node_set.ready < node_set.desired),
            _some(node_set.drained),
            _unless(node_set.updated, bad=node_set.updated < node_set.current),
            _some(node_set.leaving),
            Text(str(node_set.locked), style="" if node_set.locked else "dim"),
            _some(node_set.lock_pending),
        )
    return table


def _unless(number: int, *, bad: bool) -> Text:
    return Text(str(number), style="red" if bad else "")


def _some(number: int) -> Text:
    return Text(str(number), style="yellow" if number else "dim")


def _members(rows: Iterable[MemberView], *, now: datetime) -> Table:
    table = columns("NODE", "POD", "STATE", "REASON")
    for member in rows:
        notes = Text("; ").join(_note(each, now=now) for each in member.notes)
        table.add_row(
            member.node, member.pod, Text(member.state, style="yellow" if member.state == "leaving" else ""), notes
        )
    return table


def _note(note: Note, *, now: datetime) -> Text:
    return Text(words(note.text), style="red" if note.grave else "yellow").append(
        _age(note.since, now=now), style="dim"
    )


def _summary(sets: Iterable[NodeSetView], members: Sequence[MemberView], *, hidden: int) -> Text:
    well = sum(one.well for one in sets)
    text = f"{well} member{' is' if well == 1 else 's are'} healthy, {len(members)} not"
    return Text(f"{text}; {hidden} of these not shown (screen too small)" if hidden else text, style="dim")


def _age(since: datetime | None, *, now: datetime) -> str:
    return "" if since is None else f" ({lasting((now - since).total_seconds())})"


def _indented(blocks: Iterable[RenderableType]) -> Iterator[RenderableType]:
    # An empty line that is indented would be none at all.
    return (each if each is BLANK else Padding(each, (0, 0, 0, 2), expand=False) for each in blocks)


def _spaced(blocks: Sequence[RenderableType]) -> Iterator[RenderableType]:
    for number, each in enumerate(blocks):
        yield from ((BLANK, each) if number else (each,))
