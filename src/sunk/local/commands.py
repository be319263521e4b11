"""`sunk local …`: a whole cluster on this machine, from the command line."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.local.kubernetes.spec import DEFAULT_NAME, DEFAULT_NODES

if TYPE_CHECKING:
    from sunk.local.kubernetes.cluster import LocalCluster

name_option = click.option("--name", default=DEFAULT_NAME, show_default=True, help="Name of the local cluster.")


@click.group()
def local() -> None:
    """Run a real Kubernetes on this machine: real kubelets, real containers, one network namespace per node.

    \b
      sunk local up                          three nodes, ready to use
      sunk local exec -- kubectl get nodes
      sunk local down                        removes everything
    """  # noqa: D301 (click's mark for a paragraph that is not wrapped)


@local.command()
@click.option("--slurm", "releases", multiple=True, help="Also build images for this Slurm release. May be repeated.")
def build(*, releases: tuple[str, ...]) -> None:
    """Build everything that is not cached yet.

    Kubernetes and CoreDNS from source, kubectl and helm, the container images.
    """
    from sunk.local.artifacts import images
    from sunk.local.kubernetes import assets

    assets.fill()
    for release in releases:
        images.build(slurm=release)


@local.command()
@name_option
@click.option("--nodes", type=int, help=f"Number of nodes.  [default: {DEFAULT_NODES}]")
@click.option(
    "--config", type=click.Path(path_type=Path), help="File with names, labels, taints and resources of the nodes."
)
@click.option("--api-only", is_flag=True, help="Start only etcd, API server and controller-manager, without nodes.")
@click.option("--subnet", help="Private /16 network of the cluster, such as 10.80.0.0/16.  [default: a free one]")
@click.option("--keep", is_flag=True, help="Succeed if the cluster is already up, instead of refusing.")
def up(  # noqa: PLR0913 (one argument an option)
    *, name: str, nodes: int | None, config: Path | None, api_only: bool, subnet: str | None, keep: bool
) -> None:
    """Start a cluster and wait until it is ready.

    \b
    Example of a --config file; everything except the name is optional:
      nodes:
        - name: gpu-1
          labels: {gpu.nvidia.com/model: H100_NVLINK_80GB}
          taints: [{key: dedicated, value: slurm, effect: NoSchedule}]
          resources: {sunk.coreweave.com/accelerator: 8}
    """  # noqa: D301
    from sunk.local.kubernetes import assets, cluster, spec as specs

    cluster.require_root()
    spec = specs.chosen(name, count=nodes, file=config, api_only=api_only)
    found = cluster.find(name)
    if not (keep and found and cluster.healthy(found)):
        cluster.require_free(name)
        found = cluster.up(spec, assets=assets.fill(images=not api_only), subnet=subnet)
    _say_what_next(found)


def _program() -> str:
    """What to type for `sunk`: in a clone it is not in PATH."""
    return "sunk" if shutil.which("sunk") else sys.argv[0]


def _say_what_next(cluster: "LocalCluster") -> None:
    which = "" if cluster.name == DEFAULT_NAME else f" --name {cluster.name}"
    click.echo(f"Cluster {cluster.name} is up: {len(cluster.machines)} nodes, API at {cluster.server}. Next:")
    click.echo(f"  {_program()} local exec{which} -- kubectl get nodes -o wide")
    click.echo(f"  export KUBECONFIG=$({_program()} local kubeconfig{which})")
    click.echo(f"  {_program()} local down{which}")


@local.command()
@name_option
@click.option(
    "--values",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Values for the chart slurm, on top of its values-local.yaml. May be repeated.",
)
def install(*, name: str, values: tuple[Path, ...]) -> None:
    """Install SUNK and a Slurm cluster, and run a job on every node.

    Run it again to apply the charts and images of this clone. Operator Pods are replaced. Slurm Pods are replaced only if
    their template changes; the others keep their image until you restart them:

    \b
      kubectl rollout restart deployment slurm-controller slurm-accounting slurm-syncer
      kubectl rollout restart statefulset slurm-login
    """  # noqa: D301
    from sunk.local import install as installing
    from sunk.local.kubernetes import cluster

    found = cluster.running_one(name)
    done = installing.install(found, values=values)
    which = "" if name == DEFAULT_NAME else f" --name {name}"
    click.echo(f"Output of srun --nodes={len(found.machines)} hostname, run by {installing.USER}:")
    click.echo("\n".join(f"  {line}" for line in sorted(done.words.splitlines())))
    click.echo("A Slurm cluster is up. Next:")
    click.echo(f"  {_program()} local exec{which} -- kubectl get slurmcluster,nodeset,nodeslice,pods")
    click.echo(f"  {_program()} local exec{which} -- kubectl exec -it slurm-login-0 -c sshd -- bash")
    click.echo(f"  {_program()} local down{which}")


@local.command()
@name_option
def down(*, name: str) -> None:
    """Stop a cluster and remove everything.

    Also cleans up after an interrupted `up` or killed processes.
    """
    from sunk.local.kubernetes import cluster
    from sunk.local.progress import step

    cluster.require_root()
    cluster.require(name)
    with step(f"Stop cluster {name}"):
        cluster.down(name)


@local.command()
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def status(*, as_json: bool) -> None:
    """List clusters and whether they run."""
    from sunk.local.kubernetes import status as statuses

    click.echo(statuses.as_json() if as_json else statuses.as_text())


@local.command()
@name_option
@click.argument("image")
def load(*, name: str, image: str) -> None:
    """Load an image onto every node.

    IMAGE is the path of an image archive, or the name of an image built here.
    """
    from sunk.local.kubernetes import assets, cluster

    cluster.load(cluster.running_one(name), assets.archive(image))


@local.command()
@name_option
def kubeconfig(*, name: str) -> None:
    """Print the path of the kubeconfig.

    Use it like this: export KUBECONFIG=$(sunk local kubeconfig)
    """
    from sunk.local.kubernetes import cluster

    click.echo(cluster.answering_one(name).kubeconfig)


@local.command(name="exec", context_settings={"ignore_unknown_options": True})
@name_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(*, name: str, command: tuple[str, ...]) -> None:
    """Run a command against the cluster.

    COMMAND runs with KUBECONFIG set and with kubectl and helm in PATH.
    """
    from sunk.local.artifacts import parts
    from sunk.local.kubernetes import cluster
    from sunk.model.refusal import Refusal

    found = cluster.answering_one(name)
    os.environ["KUBECONFIG"] = str(found.kubeconfig)
    os.environ["PATH"] = f"{parts.build().kubectl.parent}:{os.environ['PATH']}"
    try:
        os.execvp(command[0], command)  # noqa: S606 (the point of it)
    except FileNotFoundError as missing:
        raise Refusal(f"no program {command[0]} in PATH.") from missing


@local.command(name="fake-kubelet")
@name_option
@click.option("--nodes", type=int, default=100, show_default=True, help="Number of Nodes to simulate.")
@click.option(
    "--fleet", default="fake", show_default=True, help="Prefix of their names, and value of their fleet label."
)
@click.option("--keep", is_flag=True, help="Leave Nodes and Pods behind at the end, like a dead kubelet.")
def fake_kubelet(*, name: str, nodes: int, fleet: str, keep: bool) -> None:
    """Simulate kubelets of thousands of Nodes.

    Runs on a cluster started with --api-only, until interrupted. Pods bound to these Nodes run in name only. Annotations
    control their behaviour: `python -m pydoc sunk.local.fakekubelet` lists them.
    """
    import asyncio

    from sunk.local import fakekubelet
    from sunk.local.kubernetes import cluster

    kubeconfig = cluster.running_one(name).kubeconfig
    settings = fakekubelet.Settings(nodes=nodes, fleet=fleet, keep=keep)
    asyncio.run(
        fakekubelet.run(settings, kubeconfig=kubeconfig, ready=lambda: click.echo(f"{nodes} Nodes are registered."))
    )
