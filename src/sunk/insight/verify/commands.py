"""`sunk verify`: watch a cluster, and say when one of the laws that SUNK keeps is broken."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.model import loopclock
from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.insight.verify.watcher import Breach, Watcher
    from sunk.kube.api.client import Client
    from sunk.slurm.mirror.mirror import Mirror

BROKEN = 1
UNJUDGED = 3
"""Between wrong usage (2) and the rest: no law was seen to be broken, and one side could not be seen."""
_NO_NODES = (
    "Nodes are not looked at, for this account may not read them: what they carry and show (laws 2 and 5) is not judged. "
    "Run this also from where Nodes may be read."
)


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
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="How much later than usual the other side may follow, where parts of SUNK are killed on purpose.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs: a line for each law that is broken.")
def verify(  # noqa: PLR0913 - one argument an option
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    cluster: str,
    seconds: float | None,
    patience: float,
    as_json: bool,
) -> None:
    """Watch a cluster, and say when a law is broken.

    The laws are those of docs/concepts/laws.md: no Pod deleted under a job, no drain of ours without a cause, no Node in
    two NodeSets, and so on. What takes a moment to travel from one side to the other is given that moment. Only reads.
    Ends with code 1 if a law was broken, and with 3 if none was but Slurm did not answer in the end.

    Where libslurm and a Slurm are in reach both sides are watched, elsewhere that of Kubernetes alone:

    \b
      kubectl exec deploy/slurm-syncer -- sunk verify --for 60
      sunk verify --for 300 --json
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def watch(client: "Client", where: str) -> int:
        from sunk.insight.verify.watcher import Watcher

        async with AsyncExitStack() as stack:
            mirror = await _mirror(stack) if cluster else None
            watching = Watcher(client, where, cluster=cluster, mirror=mirror, patience=patience)
            nodes = await watching.sees_nodes()
            click.echo(_scope(where, slurm=cluster if mirror else "", nodes=nodes), err=True)
            return await _watch(watching, seconds=seconds, as_json=as_json)

    try:
        code = asked(watch, kubeconfig=kubeconfig, context=context, namespace=namespace)
    except KeyboardInterrupt:
        return
    sys.exit(code)


async def _watch(watching: "Watcher", *, seconds: float | None, as_json: bool) -> int:
    """Tell of each broken law, and in the end of how many there were. Ctrl-C is an end like any other.

    Gives the code to end with.
    """
    import asyncio
    from contextlib import aclosing

    broken, began = 0, loopclock.now()
    async with aclosing(watching.breaches()) as breaches:
        try:
            async with asyncio.timeout(seconds):
                async for breach in breaches:
                    broken += 1
                    click.echo(_line(breach, as_json=as_json))
        except (TimeoutError, asyncio.CancelledError):
            pass
    _sum_up(watching, broken, seconds=loopclock.now() - began)
    return ending(broken=broken, lost=watching.lost_slurm)


def ending(*, broken: int, lost: str) -> int:
    """The code to end with; `lost` is why nothing can be said about Slurm, if so."""
    if broken:
        return BROKEN
    return UNJUDGED if lost else 0


async def _mirror(stack: AsyncExitStack) -> "Mirror | None":
    """A mirror that runs until the stack ends, where there is a Slurm to look at."""
    from importlib.util import find_spec

    from sunk.slurm.libslurm.library import Library
    from sunk.slurm.libslurm.loading import EXTENSION
    from sunk.slurm.mirror.mirror import Mirror

    if find_spec(EXTENSION) is None:
        return None
    library: Library = Library.load()
    stack.callback(library.close)
    return await stack.enter_async_context(Mirror(library).running())


def _scope(where: str, *, slurm: str, nodes: bool) -> str:
    """What is looked at, and what is not; `slurm` is whose."""
    both = f"Watching namespace {where} and the Slurm of {slurm}."
    alone = f"Watching namespace {where}. Slurm is not looked at: run this in the syncer's Pod for that."
    return (both if slurm else alone) + ("" if nodes else f" {_NO_NODES}")


def _line(breach: "Breach", *, as_json: bool) -> str:
    from msgspec import json

    if as_json:
        return json.encode(breach).decode()
    lasted = f" (for {breach.lasted:.0f} s)" if breach.lasted else ""
    return f"law {breach.fault.law}: {breach.fault.about} {breach.fault.text}{lasted}"


def _sum_up(watching: "Watcher", broken: int, *, seconds: float) -> None:
    found = f"{broken} time(s) a law was broken" if broken else "No law was seen to be broken"
    lost = watching.lost_slurm
    slurm = f" Slurm does not answer, and nothing is said about it: {lost}" if lost else ""
    click.echo(f"{found} in {seconds:.0f} s; {watching.changes} changes were seen.{slurm}", err=True)
