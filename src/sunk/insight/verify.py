"""`sunk verify`: watch a cluster, and say when one of the laws that SUNK keeps is broken."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sunk.insight.watching import Breach, Watching
    from sunk.kube.client import Client
    from sunk.slurm.mirror import Mirror

BROKEN = 1


@click.command()
@reaching
@click.option(
    "--cluster", envvar="SUNK_CLUSTER", default="", help="Whose Slurm it is that this machine reaches, if any."
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to watch. Without it, until Ctrl-C.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs: a line for each law that is broken.")
def verify(  # noqa: PLR0913 - one argument an option
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    cluster: str,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Watch a cluster, and say when a law is broken.

    The laws are those of docs/concepts/laws.md: no Pod deleted under a job, no drain of ours without a cause, no Node in
    two NodeSets, and so on. What takes a moment to travel from one side to the other is given that moment. Only reads.
    Ends with code 1 if a law was broken.

    Where libslurm and a Slurm are in reach both sides are watched, elsewhere that of Kubernetes alone:

    \b
      kubectl exec deploy/slurm-syncer -- sunk verify --for 60
      sunk verify --for 300 --json
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def watch(client: "Client", where: str) -> bool:
        return await _watch(client, where, cluster=cluster, seconds=seconds, as_json=as_json)

    try:
        broken = asked(watch, kubeconfig=kubeconfig, context=context, namespace=namespace)
    except KeyboardInterrupt:
        return
    sys.exit(BROKEN if broken else 0)


async def _watch(client: "Client", where: str, *, cluster: str, seconds: float | None, as_json: bool) -> bool:
    import asyncio

    from sunk.insight.watching import Watching

    broken = 0
    async with AsyncExitStack() as stack:
        mirror = await _mirror(stack) if cluster else None
        watching = Watching(client, where, cluster=cluster, mirror=mirror)
        click.echo(_scope(where, cluster=cluster, slurm=mirror is not None), err=True)
        try:
            async with asyncio.timeout(seconds):
                async for breach in _breaches(watching, stack):
                    broken += 1
                    click.echo(_line(breach, as_json=as_json))
        except TimeoutError:
            pass
        _sum_up(watching, broken, seconds=seconds or 0.0)
    return bool(broken)


async def _breaches(watching: "Watching", stack: AsyncExitStack) -> "AsyncIterator[Breach]":
    from contextlib import aclosing

    async for breach in await stack.enter_async_context(aclosing(watching.breaches())):
        yield breach


async def _mirror(stack: AsyncExitStack) -> "Mirror | None":
    """A mirror that runs until the stack ends, where there is a Slurm to look at."""
    from importlib.util import find_spec

    from sunk.slurm.library import Library
    from sunk.slurm.loading import EXTENSION
    from sunk.slurm.mirror import Mirror

    if find_spec(EXTENSION) is None:
        return None
    library: Library = Library.load()
    stack.callback(library.close)
    return await stack.enter_async_context(Mirror(library).running())


def _scope(where: str, *, cluster: str, slurm: bool) -> str:
    if slurm:
        return f"Watching namespace {where} and the Slurm of {cluster}."
    return f"Watching namespace {where}. Slurm is not looked at: run this in the syncer's Pod for that."


def _line(breach: "Breach", *, as_json: bool) -> str:
    from msgspec import json

    if as_json:
        return json.encode(breach).decode()
    lasted = f" (for {breach.lasted:.0f} s)" if breach.lasted else ""
    return f"law {breach.fault.law}: {breach.fault.about} {breach.fault.text}{lasted}"


def _sum_up(watching: "Watching", broken: int, *, seconds: float) -> None:
    nodes = "" if watching.sees_nodes else " Nodes may not be read by you, so nothing was said about them."
    found = f"{broken} time(s) a law was broken" if broken else "No law was broken"
    click.echo(f"{found} in {seconds:.0f} s; {watching.changes} changes were seen.{nodes}", err=True)
