"""`sunk slurm …`: what Slurm says now, for people who are where the library is."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _outputs(command: F) -> F:
    """The options that every command has."""
    watch = click.option("--watch", "-w", is_flag=True, help="Keep running and redraw on changes. Stop with Ctrl-C.")
    as_json = click.option("--json", "as_json", is_flag=True, help="JSON output; with --watch one line per change.")
    return as_json(watch(command))


state_option = click.option(
    *("--state", "-t", "states"),
    multiple=True,
    metavar="STATE",
    help="Only these states: `idle,mixed` means either, `idle+drain` both. May be repeated.",
)
partition_option = click.option(
    "--partition", "-p", "partitions", multiple=True, metavar="NAME", help="Only this partition. May be repeated."
)


@click.group()
def slurm() -> None:
    """Show Slurm's nodes, jobs, partitions and statistics.

    Needs libslurm and a Slurm configuration, so run it in the syncer's Pod:

    \b
      kubectl exec deploy/slurm-syncer -- sunk slurm nodes
      kubectl exec -it deploy/slurm-syncer -- sunk slurm jobs --watch

    No colours if the output is not a terminal or NO_COLOR is set.
    """  # noqa: D301 (click's mark for a paragraph that is not wrapped)


@slurm.command()
@click.argument("hostlists", nargs=-1, metavar="[HOSTLIST]...")
@state_option
@partition_option
@_outputs
def nodes(
    *, hostlists: tuple[str, ...], states: tuple[str, ...], partitions: tuple[str, ...], as_json: bool, watch: bool
) -> None:
    """Show nodes: state, usage, reasons.

    For a node out of service: why, set by whom and when.

    HOSTLIST selects nodes, as in `gpu[001-064],login1`. CPUS, GIB (of memory) and GRES are used / total.

    \b
      sunk slurm nodes --state drain          drained or draining
      sunk slurm nodes --state drained,down   can be removed
      sunk slurm nodes 'gpu[001-064]' --watch
    """  # noqa: D301
    from sunk.slurm.cli import pages, selection

    wanted = selection.NodeSelection(
        names=selection.names(hostlists),
        states=selection.state_filter(states, known=selection.NODE_WORDS),
        partitions=frozenset(partitions) or None,
    )
    pages.show(pages.of_nodes(wanted), as_json=as_json, watch=watch)


@slurm.command()
@click.option("--user", "-u", "users", multiple=True, metavar="USER", help="Only this user, by name or UID.")
@state_option
@partition_option
@click.option("--all", "-a", "ended", is_flag=True, help="Include ended jobs that Slurm still remembers.")
@_outputs
def jobs(  # noqa: PLR0913 (one argument an option)
    *,
    users: tuple[str, ...],
    states: tuple[str, ...],
    partitions: tuple[str, ...],
    ended: bool,
    as_json: bool,
    watch: bool,
) -> None:
    """Show jobs.

    Pending and running jobs, and those that still hold nodes. JOB is 12_3 for task 3 of array 12 and 12+1 for component 1
    of a heterogeneous job. The last column shows where a job runs, or why it waits.

    \b
      sunk slurm jobs --user alice
      sunk slurm jobs --state pending --partition h100
      sunk slurm jobs --state failed,timeout,node_fail
    """  # noqa: D301
    from sunk.slurm.cli import pages, selection

    wanted = selection.JobSelection(
        users=frozenset(map(selection.user_number, users)) or None,
        partitions=frozenset(partitions) or None,
        states=selection.state_filter(states, known=selection.JOB_WORDS),
        ended=ended,
    )
    pages.show(pages.of_jobs(wanted), as_json=as_json, watch=watch)


@slurm.command()
@_outputs
def partitions(*, as_json: bool, watch: bool) -> None:
    """Show partitions and their nodes.

    Whether they accept jobs, and how many of their nodes can run one. A star marks the default. OUT counts nodes that are
    drained, down or powered down and run nothing.
    """
    from sunk.slurm.cli import pages

    pages.show(pages.of_partitions(), as_json=as_json, watch=watch)


@slurm.command()
@click.option(
    "--top", default=10, show_default=True, help="Number of requests and users to list, most expensive first."
)
@_outputs
def stats(*, top: int, as_json: bool, watch: bool) -> None:
    """Show statistics of slurmctld.

    Queues, schedulers and requests, like `sdiag`. A restart of slurmctld and a reconfigure reset the counters.
    """
    from sunk.slurm.cli import pages

    pages.show(pages.StatisticsPages(top=top), as_json=as_json, watch=watch)
