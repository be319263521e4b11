"""`sunk check`: what the lock of Nodes would evict."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.insight.check.evictions import Eviction
    from sunk.insight.check.survey import Survey
    from sunk.kube.api.client import Client

FOUND = 1


@click.command()
@click.option("--selector", "-l", default="", help="Check Nodes with these labels, instead of those of NodeSets.")
@click.option(
    "--infrastructure",
    is_flag=True,
    help="Only what should never be evicted: DaemonSets, kube-system, and SUNK itself. For CI.",
)
@click.option("--output", "-o", "output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
@click.option("--json", "output", flag_value="json", help="JSON output.")
@reaching
def check(  # noqa: PLR0913 - one argument an option
    *,
    selector: str,
    infrastructure: bool,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> None:
    """Check what would be evicted from Nodes when Slurm jobs start.

    A job starts once other work has left its Nodes: everything that does not tolerate the taint sunk.coreweave.com/lock.
    Agents of the Node (device plugins, CSI drivers, log collectors) must tolerate it. Lists what does not, on all Nodes
    that belong to a NodeSet or fit one, with the toleration and with commands that add it. Run this before the first job.

    \b
      sunk check
      sunk check -l gpu=h100 --infrastructure      # before there are NodeSets

    Read-only. Exits with 1 if there is anything to list, with 0 if not. Needs the permission to list Nodes, NodeSets,
    Pods and DaemonSets in all namespaces.
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def look(client: "Client", _: str) -> "Survey":
        from sunk.insight.check.survey import survey

        return await survey(client, selector=selector)

    from sunk.insight.check.evictions import evictions

    found = asked(look, kubeconfig=kubeconfig, context=context, namespace=namespace)
    told = tuple(one for one in evictions(found) if one.infrastructure or not infrastructure)
    _show(found, told, as_json=output == "json")
    sys.exit(FOUND if told else 0)


def _show(found: "Survey", told: "tuple[Eviction, ...]", *, as_json: bool) -> None:
    from msgspec import json

    from sunk.insight.check.evictions import TOLERATION
    from sunk.insight.check.page import advice, overview
    from sunk.terminal import console

    if not as_json:
        console().print(overview(found, told))
        for line in advice(found, told):
            click.echo(line)
        return
    whole = {
        "nodes": [node.metadata.name for node in found.nodes],
        "daemonSetsKnown": found.daemon_sets is not None,
        "toleration": TOLERATION,
        "evicted": told,
    }
    click.echo(json.format(json.encode(whole)))
