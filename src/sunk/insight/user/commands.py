"""`sunk user`: what is known about a person, and why a login or a job is refused."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.insight.user.reading import Finding
    from sunk.kube.api.client import Client


@click.command()
@click.argument("name")
@click.option("--cluster", "-c", default="", help="Name of the SlurmCluster.  [default: the only one in the namespace]")
@click.option("--all-pods", is_flag=True, help="Ask every compute Pod whether it knows the user, instead of three.")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
@reaching
def user(  # noqa: PLR0913 - one argument an option
    *,
    name: str,
    cluster: str,
    all_pods: bool,
    as_json: bool,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> None:
    """Show what is known about a user, and why a login or a job is refused.

    Compares the users that are published in the cluster, the directories they come from, what Pods know, and what Slurm
    says: accounts, QOS, limits and jobs. Read-only. What you may not see, or what does not answer, is listed as not seen.

    \b
      sunk user alice
      sunk user alice --json | jq '.login.reasons[].text'

    Exits with 0 if nothing speaks against a login and a job, and with 1 if one of them is refused or cannot be told. Needs
    the permissions to get SlurmClusters, ConfigMaps and Deployments, to list Pods, and to run commands in them
    (pods/exec).
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped
    from sunk.insight.user.person import checked

    checked(name)

    async def find(client: "Client", where: str) -> "Finding":
        from sunk.insight.user import reading

        chosen = await reading.cluster_of(client, where, cluster)
        return await reading.read(client, chosen, name, all_pods=all_pods)

    found = asked(find, kubeconfig=kubeconfig, context=context, namespace=namespace)
    _print(found, as_json=as_json)
    sys.exit(0 if found.login.allowed and found.job.allowed else 1)


def _print(found: "Finding", *, as_json: bool) -> None:
    if as_json:
        from msgspec import json

        click.echo(json.format(json.encode(found)))
        return
    from datetime import UTC, datetime

    from sunk.insight.user.page import draw
    from sunk.terminal import console

    console().print(draw(found, now=datetime.now(UTC)))
