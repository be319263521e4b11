"""`sunk render`: what the operator would build of a chart and values, without any Kubernetes."""

from pathlib import Path

import click

from sunk.model.refusal import Refusal

NAMESPACE = "default"


@click.command()
@click.argument("chart", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "-f",
    "--values",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Values file, as for Helm. May be repeated; the last one wins.",
)
@click.option("--name", default="slurm", show_default=True, help="Name of the release, and so of the cluster.")
@click.option("-n", "--namespace", default=NAMESPACE, show_default=True, help="Namespace of the release.")
@click.option(
    "--definitions",
    is_flag=True,
    help="Show the composed compute definitions instead, with the layer that each value comes from.",
)
@click.option("--all", "everything", is_flag=True, help="With --definitions: include those that are not enabled.")
@click.option("--configuration", is_flag=True, help="Show the files of the Slurm configuration instead.")
def render(  # noqa: PLR0913 - one argument an option
    *,
    chart: Path,
    values: tuple[Path, ...],
    name: str,
    namespace: str,
    definitions: bool,
    everything: bool,
    configuration: bool,
) -> None:
    """Print the objects that the operator would create.

    \b
      sunk render charts/slurm -f my-values.yaml
      sunk render charts/slurm -f my-values.yaml --definitions --all
      sunk render charts/slurm -f my-values.yaml --configuration

    Secrets are created in the cluster and not shown. Values that the operator would refuse are refused here with the same message.
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped
    from sunk.operator.slurmcluster.render.values import spec
    from sunk.operator.slurmcluster.resolve import resolve

    if definitions and configuration:
        raise Refusal("--definitions and --configuration exclude each other: choose one.")
    if everything and not definitions:
        raise Refusal("--all requires --definitions.")
    cluster_spec = spec(chart, values, name=name)
    if definitions:
        from sunk.operator.slurmcluster.render.layers import definitions as composed

        click.echo(composed(cluster_spec.compute, everything=everything))
        return
    cluster = resolve(cluster_spec, name=name, namespace=namespace)
    if configuration:
        from sunk.operator.slurmcluster.slurmconf.conf import configuration as files

        click.echo("\n".join(f"# {file}\n{text}" for file, text in files(cluster).items()))
        return
    from sunk.model.plainyaml import dump
    from sunk.operator.slurmcluster.objects import marked, objects
    from sunk.operator.slurmcluster.slurmconf.conf import configuration as files

    built = objects(cluster, files=marked(files(cluster), cluster=cluster)[0])
    click.echo("---\n".join(dump(body) for body in built))
