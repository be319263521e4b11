"""The `sunk` command. Each command's code is imported when it runs, so that `--help` is quick."""

import sys

import click

from sunk.model.refusal import Refusal


class RefusingGroup(click.Group):
    """Commands whose refusals are sentences and exit code 2, never a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Refusal as refused:
            click.echo(f"sunk: {refused}", err=True)
            sys.exit(2)


@click.group(cls=RefusingGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Slurm on Kubernetes."""


def _register() -> None:
    from sunk.directory.commands import directory
    from sunk.insight.check.commands import check
    from sunk.insight.drain.commands import drain, undrain
    from sunk.insight.explain.commands import explain
    from sunk.insight.keys.commands import keys
    from sunk.insight.node.commands import node
    from sunk.insight.status.commands import status
    from sunk.insight.user.commands import user
    from sunk.insight.verify.commands import verify
    from sunk.local.commands import local
    from sunk.operator.commands import operator
    from sunk.operator.nodeset.commands import nodeset
    from sunk.operator.slurmcluster.render.commands import render
    from sunk.slurm.cli.commands import slurm
    from sunk.syncer.commands import syncer

    main.add_command(check)
    main.add_command(directory)
    main.add_command(drain)
    main.add_command(explain)
    main.add_command(keys)
    main.add_command(local)
    main.add_command(node)
    main.add_command(nodeset)
    main.add_command(operator)
    main.add_command(render)
    main.add_command(slurm)
    main.add_command(status)
    main.add_command(syncer)
    main.add_command(undrain)
    main.add_command(user)
    main.add_command(verify)


_register()
