"""`sunk explain`: the chain of causes behind the state of one node."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.model.names import CORDON_REASON
from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sunk.insight.explain.explanation import Explanation
    from sunk.insight.status.snapshot import ClusterSnapshot
    from sunk.kube.api.client import Client


@click.group()
def explain() -> None:
    """Say in sentences why something is as it is."""


@explain.command()
@click.argument("name")
@reaching
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option(
    "--cordon-reason-annotation",
    "reason_key",
    envvar="SUNK_CORDON_REASON_ANNOTATION",
    default=CORDON_REASON,
    show_default=True,
    help="The annotation of Nodes that says why one was cordoned, where a node has no Pod that says it.",
)
def node(  # noqa: PLR0913 - one for each option
    *,
    name: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    as_json: bool,
    reason_key: str,
) -> None:
    """Explain a node: from its Node up to Slurm.

    NAME is the Slurm node or the Kubernetes Node below it. Only reads, and only from Kubernetes.

    \b
      sunk explain node slurm-h100-012-002
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def find(client: "Client", where: str) -> "Explanation":
        from sunk.insight.status import snapshot

        return explain_member(await snapshot.read(client, where), name, where=where, reason_key=reason_key)

    found = asked(find, kubeconfig=kubeconfig, context=context, namespace=namespace)
    if as_json:
        from msgspec import json

        click.echo(json.format(json.encode(found)))
        return
    from sunk.terminal import console

    console().print(draw(found))


def explain_member(
    found: "ClusterSnapshot", name: str, *, where: str, reason_key: str = CORDON_REASON
) -> "Explanation":
    """Explain the member of that name among all that was found."""
    from sunk.insight.explain.explanation import explain
    from sunk.insight.status.overview import MemberIndex
    from sunk.model.refusal import Refusal
    from sunk.objects.slurmclusters import SlurmCluster

    members = MemberIndex(found)
    clusters: dict[str, SlurmCluster] = {each.metadata.name: each for each in found.clusters}
    for owner in found.sets:
        for seen in members.of(owner):
            if name in {seen.entry.name, seen.entry.node}:
                cluster = clusters.get(owner.spec.cluster)
                return explain(seen, owner=owner, cluster=cluster, reason_key=reason_key)
    raise Refusal(
        f"no member of a NodeSet in namespace {where} is called {name}, nor is its Node. `sunk status -A` lists NodeSets; "
        "a Node that ought to be one perhaps does not fit: see `kubectl describe nodeset` and docs/guides/nodeset.md"
    )


def draw(explanation: "Explanation") -> "RenderableType":
    from datetime import UTC, datetime

    from rich.console import Group
    from rich.text import Text

    from sunk.operator.nodeset.commands import lasting
    from sunk.terminal import columns, words

    title = Text(explanation.name, style="bold").append(f" on Node {explanation.node}", style="default")
    title.append("  in service" if explanation.well else "", style="green")
    table = columns("", "")
    table.show_header = False
    for sentence in explanation.sentences:
        text = Text(words(sentence.text), style="red" if sentence.grave else "")
        if sentence.since is not None:
            text.append(f" ({lasting((datetime.now(UTC) - sentence.since).total_seconds())})", style="dim")
        table.add_row(Text(sentence.about, style="bold"), text)
    advice = (
        [Text("What you may do:"), *(Text(f"  {advised}") for advised in explanation.advice)]
        if explanation.advice
        else []
    )
    return Group(title, table, *advice)
