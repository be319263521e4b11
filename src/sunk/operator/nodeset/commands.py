"""`sunk nodeset …`: the templates that a NodeSet had, from the command line."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.kube.api.client import Client
    from sunk.operator.nodeset.rollback import TemplateRevision

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


@click.group()
def nodeset() -> None:
    """Show and roll back the template of a NodeSet."""


@nodeset.command()
@click.argument("name")
@reaching
def history(*, name: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """List the stored templates, newest last.

    PODS counts the Pods made from each template. A star marks the current one.
    """
    from sunk.kube.resource import Key
    from sunk.operator.nodeset import rollback as past

    async def look(client: "Client", where: str) -> "tuple[TemplateRevision, ...]":
        return await past.history(client, Key(where, name))

    kept = asked(look, kubeconfig=kubeconfig, context=context, namespace=namespace)
    for line in table(kept, now=datetime.now(UTC)):
        click.echo(line)


@nodeset.command()
@click.argument("name")
@click.option(
    "--to",
    type=click.IntRange(min=1),
    metavar="REVISION",
    help="Revision to roll back to.  [default: the previous one]",
)
@reaching
def rollback(*, name: str, to: int | None, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Restore an older template.

    Pods are then updated according to the NodeSet's strategy; Pods that run jobs are not interrupted. Only for NodeSets
    that you manage yourself: if a SlurmCluster writes the template, change its values or use `helm rollback`.
    """
    from sunk.kube.resource import Key
    from sunk.operator.nodeset import rollback as past

    async def put(client: "Client", where: str) -> "TemplateRevision":
        return await past.roll_back(client, Key(where, name), to=to)

    kept = asked(put, kubeconfig=kubeconfig, context=context, namespace=namespace)
    done = "already uses it" if kept.current else "uses it again"
    click.echo(f"revision {kept.number} ({kept.name}): NodeSet {name} {done}")


def table(kept: "Iterable[TemplateRevision]", *, now: datetime) -> list[str]:
    """The lines that `history` prints."""
    rows = [("REVISION", "HASH", "AGE", "PODS", "")]
    for one in kept:
        age = "-" if one.made is None else lasting((now - one.made).total_seconds())
        rows.append((str(one.number), one.name, age, str(one.pods), "*" if one.current else ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def lasting(seconds: float) -> str:
    """A duration as kubectl writes it, in its greatest unit."""
    whole = max(0, int(seconds))
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
