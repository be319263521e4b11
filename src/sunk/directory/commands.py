"""`sunk directory`, from the command line. What it imports to run is imported when it runs."""

import sys
from pathlib import Path
from typing import Final

import click

from sunk.model.contract import people
from sunk.service.options import KUBECONFIG, LOG_LEVEL, PORT, begin, run_to_end

_FOLDER: Final = click.Path(path_type=Path)


@click.command(context_settings={"show_default": True})
@click.option("--cluster", envvar="SUNK_CLUSTER", show_envvar=True, required=True, help="Name of the SlurmCluster.")
@click.option(
    "--namespace",
    envvar="SUNK_NAMESPACE",
    show_envvar=True,
    default="",
    show_default="namespace of this Pod or of the kubeconfig's context",
    help="Namespace of the SlurmCluster.",
)
@click.option(
    "--settings-folder",
    envvar="SUNK_SETTINGS_FOLDER",
    show_envvar=True,
    type=_FOLDER,
    default=people.SETTINGS_FOLDER,
    help="Folder with the settings that the operator writes.",
)
@click.option(
    "--secrets-folder",
    envvar="SUNK_SECRETS_FOLDER",
    show_envvar=True,
    type=_FOLDER,
    default=people.SECRETS_FOLDER,
    help="Folder with the Secrets of the directories, by their names.",
)
@PORT
@KUBECONFIG
@LOG_LEVEL
def directory(  # noqa: PLR0913 - one keyword per option
    *,
    cluster: str,
    namespace: str,
    settings_folder: Path,
    secrets_folder: Path,
    port: int,
    kubeconfig: Path | None,
    log_level: str,
) -> None:
    """Run the directory agent, which reads LDAP directories and hands their users to all Pods of a cluster.

    Needs ldapsearch, so it runs in the image sunk, until SIGTERM. One replica is enough: users who are known stay known while
    it is down.
    """
    from sunk.directory.agent import Folders
    from sunk.directory.process import AgentOptions, until_told

    access = begin(kubeconfig=kubeconfig, log_level=log_level)
    options = AgentOptions(
        cluster=cluster,
        namespace=namespace or access.namespace,
        folders=Folders(settings=settings_folder, secrets=secrets_folder),
        port=port,
    )
    sys.exit(run_to_end(until_told(options, access=access), called="directory agent"))
