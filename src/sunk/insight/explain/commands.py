"""`sunk explain`: the chain of causes behind the state of one node."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.model.names import CORDON_REASON
from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sunk.insight.explain.explanation import Explanation
    from sunk.insight.status.members import ObservedMember
    from sunk.insight.status.snapshot import ClusterSnapshot
    from sunk.kube.api.client import Client
    from sunk.objects.nodesets import NodeSet


@click.group()
def explain() -> None:
    """Explain the state of a node."""


@explain.command()
@click.argument("name")
@reaching
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
@click.option(
    "--cordon-reason-annotation",
    "reason_key",
    envvar="SUNK_CORDON_REASON_ANNOTATION",
    default=CORDON_REASON,
    show_default=True,
    help="Annotation of Nodes that holds the reason for a cordon. Used for nodes without a Pod.",
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
    """Explain the state of a node, from its Kubernetes Node up to Slurm.

    NAME is a Slurm node or its Kubernetes Node. Read-only, and reads only from Kubernetes.

    \b
      sunk explain node slurm-h100-012-002
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def find(client: "Client", where: str) -> "Explanation":
        from sunk.insight.explain.explanation import explain
        from sunk.insight.nodepods import on_node
        from sunk.insight.status import snapshot

        found = await snapshot.read(client, where)
        seen, owner = member_of(found, name, where=where)
        cluster = next((one for one in found.clusters if one.metadata.name == owner.spec.cluster), None)
        others = await on_node(client, seen.entry.node)
        return explain(seen, owner=owner, cluster=cluster, reason_key=reason_key, others=others)

    found = asked(find, kubeconfig=kubeconfig, context=context, namespace=namespace)
    if as_json:
        from msgspec import json

        click.echo(json.format(json.encode(found)))
        return
    from sunk.terminal import console

    console().print(draw(found))


def member_of(found: "ClusterSnapshot", name: str, *, where: str) -> "tuple[ObservedMember, NodeSet]":
    """The member of that name, or on the Node of that name, and its NodeSet."""
    from sunk.insight.status.overview import MemberIndex
    from sunk.model.refusal import Refusal

    members = MemberIndex(found)
    for owner in found.sets:
        for seen in members.of(owner):
            if name in {seen.entry.name, seen.entry.node}:
                return seen, owner
    raise Refusal(
        f"no NodeSet in namespace {where} has a member or a Node named {name}. `sunk status -A` lists NodeSets; if a Node "
        "is missing, it may not fit: see `kubectl describe nodeset` and docs/guides/nodeset.md"
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
        [Text("What you can do:"), *(Text(f"  {advised}") for advised in explanation.advice)]
        if explanation.advice
        else []
    )
    return Group(title, table, *advice)
