"""`sunk node`: what can be done about a Kubernetes Node by hand."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.model.refusal import Refusal
from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.insight.node.releasing import ReleaseOutcome
    from sunk.kube.api.client import Client


@click.group()
def node() -> None:
    """Free Kubernetes Nodes by hand."""


@node.command()
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--selector", "-l", default="", help="Label selector of Nodes, as kubectl takes it.")
@click.option(
    "--all-marks",
    is_flag=True,
    help="Also take off claim and labels of its NodeSet, the annotation `drain` and the conditions Slurm….",
)
@click.option("--dry-run", is_flag=True, help="Show what would be taken off, and write nothing.")
@click.option("--force", is_flag=True, help="Release Nodes even if jobs run there, or the operator would undo it.")
@reaching
def release(  # noqa: PLR0913 - one argument an option
    *,
    nodes: tuple[str, ...],
    selector: str,
    all_marks: bool,
    dry_run: bool,
    force: bool,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> None:
    """Take the lock off Nodes that nobody unlocks any more.

    Usually the operator does this, a few seconds after the last job. Use this command if it cannot: it was uninstalled
    before its clusters, or a NodeSet has lost its finalizer. NODE is a Kubernetes Node, or the Slurm node on it. Refuses
    Nodes that run jobs. A drain that a person has put on a machine is kept (annotation `kept-drain`).

    \b
      sunk node release gpu-17 --dry-run
      sunk node release -l sunk.coreweave.com/cluster=slurm --all-marks

    Exits with 1 if a Node was not released. Needs the permissions to get, list and patch Nodes (with --all-marks also to
    patch nodes/status) and to list Pods, NodeSets and Leases in all namespaces.
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped
    if bool(nodes) == bool(selector):
        raise Refusal("name Nodes, or select them with -l; one of the two")

    async def work(client: "Client", _: str) -> "list[ReleaseOutcome]":
        from sunk.insight.node import releasing

        chosen = await releasing.chosen(client, releasing.expanded(nodes), selector=selector)
        options = releasing.ReleaseOptions(all_marks=all_marks, force=force, dry_run=dry_run)
        return await releasing.release(client, chosen, options)

    outcomes = asked(work, kubeconfig=kubeconfig, context=context, namespace=namespace)
    for outcome in outcomes:
        click.echo(line(outcome), err=not (outcome.done or outcome.idle))
    click.echo(summary(outcomes, dry_run=dry_run), err=True)
    sys.exit(0 if all(outcome.done or outcome.idle for outcome in outcomes) else 1)


def line(outcome: "ReleaseOutcome") -> str:
    mark = "✓" if outcome.done else "-" if outcome.idle else "✗"
    return f"{mark} {outcome.node}  {outcome.words}"


def summary(outcomes: "Sequence[ReleaseOutcome]", *, dry_run: bool) -> str:
    from sunk.model.wording import counted

    if not outcomes:
        return "No Node matches the selector."
    counts = (
        (sum(outcome.done for outcome in outcomes), "would be released" if dry_run else "released"),
        (sum(outcome.idle for outcome in outcomes), "had nothing to release"),
        (sum(outcome.refused for outcome in outcomes), "refused (--force overrides)"),
        (sum(not (outcome.done or outcome.idle or outcome.refused) for outcome in outcomes), "failed"),
    )
    return "; ".join(f"{counted(number, 'Node')} {what}" for number, what in counts if number) + "."
