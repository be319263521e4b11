"""A finding as a page for people."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from rich.console import Group as Blocks, RenderableType
from rich.table import Table
from rich.text import Text

from sunk.insight.user.person import VALUES, Person
from sunk.insight.user.reading import Finding
from sunk.insight.user.situation import Verdict
from sunk.insight.user.slurm import SlurmView
from sunk.model import names
from sunk.model.contract import people
from sunk.model.wording import counted
from sunk.operator.nodeset.commands import lasting
from sunk.terminal import columns, words

MOST_JOBS: Final = 20
_STYLES: Final = {True: "green", False: "red", None: "yellow"}


def draw(found: Finding, *, now: datetime) -> RenderableType:
    title = Text(found.name, style="bold").append(
        f" in SlurmCluster {found.namespace}/{found.cluster}", style="default"
    )
    table = columns("", "")
    table.show_header = False
    for about, text in rows(found, now=now):
        table.add_row(Text(about, style="bold"), text)
    blocks: list[RenderableType] = [title, table]
    blocks += _jobs(found.slurm)
    blocks += _advice(found)
    return Blocks(*blocks)


def rows(found: Finding, *, now: datetime) -> Iterator[tuple[str, Text]]:
    """Everything but the jobs, line by line: what it is about, and what is so."""
    yield from _verdict("Login", found.login)
    yield from _verdict("Jobs", found.job)
    yield from _person(found.person) if found.person else [("User", Text("unknown", style="red"))]
    yield from _directories(found, now=now)
    yield from _pods(found)
    yield from _slurm(found)
    for each in found.unseen:
        yield "Not seen", Text(words(each), style="yellow")


def _verdict(about: str, verdict: Verdict) -> Iterator[tuple[str, Text]]:
    yield about, Text(verdict.text, style=_STYLES[verdict.allowed])
    for reason in verdict.reasons:
        yield "", Text(words(reason.text), style="red" if reason.refuses else "")


def _person(person: Person) -> Iterator[tuple[str, Text]]:
    source = "the users of the values" if person.source == VALUES else f"directory {person.source}"
    dn = f" ({words(person.dn)})" if person.dn else ""
    yield "User", Text(f"uid {person.uid}, from {source if person.source else 'an unknown source'}{dn}")
    yield "", Text(f"home {words(person.home)}, shell {words(person.shell)}")
    yield "Groups", Text(", ".join(f"{one.name or '(no name)'} ({one.gid})" for one in person.groups))
    yield "sudo", Text(f"yes, by {', '.join(person.sudo)}" if person.sudo else "no")
    yield "SSH keys", Text(f"{len(person.keys) or 'none'}, without those in {words(person.home)}/.ssh")
    for key in person.keys:
        comment = f" {words(key.comment)}" if key.comment else ""
        source = "values" if key.source == VALUES else f"directory {key.source}"
        yield "", Text(f"{key.type} {key.fingerprint}{comment} ({source})")


def _directories(found: Finding, *, now: datetime) -> Iterator[tuple[str, Text]]:
    if found.agent is False:
        yield "Agent", Text("the directory agent does not run: users are as it last read them", style="red")
    if found.report is None:
        return
    for told in found.report.directories:
        numbers = f"{counted(told.users, 'user')}, {counted(told.groups, 'group')}, {told.skipped} left out"
        text = Text(f"{told.name}: ").append(told.state, style="green" if told.state == people.AVAILABLE else "red")
        text.append(f", {numbers}")
        yield "Directory", text.append(f". {words(told.message)}" if told.message else "")
    if found.report.written is not None:
        age = lasting((now - found.report.written).total_seconds())
        yield "", Text(f"users and groups last changed {age} ago", style="dim")


def _pods(found: Finding) -> Iterator[tuple[str, Text]]:
    known = [one for one in found.pods if one.known]
    if known:
        nodes = sum(one.component == names.COMPUTE for one in known)
        others = ", ".join(one.pod for one in known if one.component != names.COMPUTE)
        yield "Known in", Text(", ".join(filter(None, (others, counted(nodes, "compute Pod") if nodes else ""))))
    for one in found.pods:
        if one.known is False:
            yield "Not known in", Text(one.pod, style="red")
        elif one.known is None:
            yield "Not seen", Text(f"{one.pod}: {words(one.trouble)}", style="yellow")


def _slurm(found: Finding) -> Iterator[tuple[str, Text]]:
    slurm = found.slurm
    for one in slurm.associations or ():
        mark = " (default)" if one.account == slurm.default_account else ""
        where = f" in partition {one.partition}" if one.partition else ""
        text = f"{one.account}{mark}{where}: QOS {', '.join(one.qos) or 'none'}"
        text += f", by default {one.default_qos}" if one.default_qos else ""
        yield "Account", Text(f"{text}{_listed(one.limits)}")
    if slurm.associations == ():
        yield "Account", Text("no association", style="yellow")
    for each in slurm.qos:
        if each.limits:
            yield "QOS", Text(f"{each.name}{_listed(each.limits)}")
    if slurm.admin_level not in {"", "None"}:
        yield "Slurm", Text(f"admin level {slurm.admin_level}")
    for rule in found.rules:
        whom = f"group {words(rule.group)}" if rule.group else "every user"
        effect = (
            "applies, but somebody has removed it" if rule.removed else "applies" if rule.applies else "does not apply"
        )
        yield (
            "Rule",
            Text(
                f"{rule.path}: {whom} → {rule.account}: {effect}",
                style="" if rule.applies else "dim",
            ),
        )


def _listed(limits: dict[str, str]) -> str:
    return "".join(f", {name}={value}" for name, value in limits.items())


def _jobs(slurm: SlurmView) -> Iterator[RenderableType]:
    if not slurm.jobs:
        return
    table: Table = columns("JOB", "STATE", "PARTITION", "ACCOUNT", "QOS", ">NODES", ">TIME", ">LIMIT", "REASON")
    for one in slurm.jobs[:MOST_JOBS]:
        cells = (one.id, one.state, one.partition, one.account, one.qos, one.nodes, one.elapsed, one.limit, one.reason)
        table.add_row(*(Text(words(cell)) for cell in cells))
    yield Text("")
    yield table
    if len(slurm.jobs) > MOST_JOBS:
        yield Text(f"{len(slurm.jobs) - MOST_JOBS} more jobs are not shown: see squeue", style="dim")


def _advice(found: Finding) -> Iterator[RenderableType]:
    advice = dict.fromkeys(one.advice for verdict in (found.login, found.job) for one in verdict.reasons if one.advice)
    if advice:
        yield Text("What you can do:")
        yield from (Text(f"  {words(each)}") for each in advice)
