"""`sunk local …`: a whole cluster on this machine, from the command line."""

import os
import sys
from pathlib import Path

import click

from sunk.local.spec import DEFAULT_NAME, DEFAULT_NODES

name_option = click.option("--name", default=DEFAULT_NAME, show_default=True, help="Which cluster, if you run several.")


@click.group()
def local() -> None:
    """A real Kubernetes on this machine: one network namespace a node, real kubelets, real containers.

    \b
    sunk local up                       three nodes
    sunk local exec -- kubectl get nodes
    sunk local down
    """


@local.command()
def build() -> None:
    """Build what clusters are made of (Kubernetes, CoreDNS, images), where the cache does not have it yet."""
    from sunk.local import parts

    parts.build()


@local.command()
@name_option
@click.option("--nodes", type=int, default=None, help=f"How many nodes.  [default: {DEFAULT_NODES}]")
@click.option("--config", type=click.Path(path_type=Path), help="A nodes.yaml: names, labels, taints, resources.")
@click.option("--api-only", is_flag=True, help="Only etcd, API server and controller-manager; no nodes.")
@click.option("--subnet", help="A private /16 for the cluster, such as 10.80.0.0/16. Chosen by itself if not given.")
@click.option("--keep", is_flag=True, help="Do nothing if the cluster is up already, instead of refusing.")
def up(*, name: str, nodes: int | None, config: Path | None, api_only: bool, subnet: str | None, keep: bool) -> None:
    """Start a cluster and wait until it can be used."""
    from sunk.local import cluster, parts

    del keep, config, nodes
    from sunk.local import spec as specs

    spec = specs.checked(specs.Spec(name=name, nodes=())) if api_only else specs.plain(name, count=3)
    from sunk.local import pause

    p = parts.build()
    made = cluster.up(spec, parts=p, images=(pause.archive(p.pause),), subnet=subnet)
    click.echo(made.kubeconfig)


@local.command()
@name_option
def down(*, name: str) -> None:
    """End a cluster and remove everything of it."""
    from sunk.local import cluster

    cluster.down(name)


@local.command(context_settings={"ignore_unknown_options": True})
@name_option
@click.argument("command", nargs=-1, required=True)
def exec(*, name: str, command: tuple[str, ...]) -> None:
    """Run COMMAND with KUBECONFIG set, and with kubectl and helm in PATH."""
    from sunk.local import cluster, parts
    from sunk.model.refusal import Refusal

    found = cluster.find(name)
    if found is None:
        raise Refusal("no")
    tools = parts.build()
    os.environ["KUBECONFIG"] = str(found.kubeconfig)
    os.environ["PATH"] = f"{tools.kubectl.parent}:{os.environ['PATH']}"
    os.execvp(command[0], command)
