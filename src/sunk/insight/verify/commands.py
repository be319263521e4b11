"""`sunk verify`: watch a cluster, and say when one of the laws that SUNK keeps is broken."""

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.model import loopclock
from sunk.model.wording import counted
from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.insight.verify.watcher import Breach, Watcher
    from sunk.kube.api.client import Client
    from sunk.slurm.mirror.mirror import Mirror

BROKEN = 1
UNJUDGED = 3
"""Between wrong usage (2) and the rest: no law was seen to be broken, and one side could not be seen."""
_NO_NODES = (
    "This account may not read Nodes, so Node labels, taints and conditions (laws 2, 5 and 10) are not checked. "
    "Also run this with an account that may read Nodes."
)
_NO_OTHERS = "This account may not list Pods in all namespaces, so nobody looks for other work beside jobs (law 10)."


@click.command()
@reaching
@click.option(
    "--cluster",
    envvar="SUNK_CLUSTER",
    default="",
    help="SlurmCluster to check, if its slurmctld is reachable from here.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to watch.  [default: until Ctrl-C]",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Extra seconds before a mismatch counts, for tests that kill parts of SUNK.",
)
@click.option(
    "--lock-linger",
    "linger",
    envvar="SUNK_LOCK_LINGER",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the operator keeps idle Nodes locked (its --lock-linger).",
)
@click.option("--json", "as_json", is_flag=True, help="JSON output, one line per broken law.")
def verify(  # noqa: PLR0913 - one argument an option
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    cluster: str,
    seconds: float | None,
    patience: float,
    linger: float,
    as_json: bool,
) -> None:
    """Watch a cluster and report broken laws.

    docs/concepts/laws.md lists the laws: no Pod deleted under a job, no SUNK drain without a cause, no Node in two
    NodeSets, no other work beside a job, and so on. Mismatches are reported only after a grace period. Read-only. Exits with 1 if a law was broken,
    and with 3 if none was but Slurm did not answer at the end.

    With libslurm and a reachable Slurm, both sides are watched; otherwise only Kubernetes:

    \b
      kubectl exec deploy/slurm-syncer -- sunk verify --for 60
      sunk verify --for 300 --json
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def watch(client: "Client", where: str) -> int:
        from sunk.insight.verify.watcher import Watcher

        async with AsyncExitStack() as stack:
            mirror = await _mirror(stack) if cluster else None
            watching = Watcher(client, where, cluster=cluster, mirror=mirror, patience=patience, linger=linger)
            nodes, others = await watching.sees_nodes(), await watching.sees_others()
            click.echo(_scope(where, slurm=cluster if mirror else "", nodes=nodes, others=others), err=True)
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


def _scope(where: str, *, slurm: str, nodes: bool, others: bool) -> str:
    """What is looked at, and what is not; `slurm` is whose."""
    both = f"Watching namespace {where} and the Slurm of {slurm}."
    alone = f"Watching namespace {where}. Slurm is not watched: run this in the syncer's Pod to include it."
    unseen = _NO_NODES if not nodes else "" if others else _NO_OTHERS
    return " ".join(filter(None, (both if slurm else alone, unseen)))


def _line(breach: "Breach", *, as_json: bool) -> str:
    from msgspec import json

    if as_json:
        return json.encode(breach).decode()
    lasted = f" (for {breach.lasted:.0f} s)" if breach.lasted else ""
    return f"law {breach.fault.law}: {breach.fault.about} {breach.fault.text}{lasted}"


def _sum_up(watching: "Watcher", broken: int, *, seconds: float) -> None:
    found = counted(broken, "violation") if broken else "No law was broken"
    lost = watching.lost_slurm
    slurm = f" Slurm stopped answering, so its checks are incomplete: {lost}" if lost else ""
    click.echo(f"{found} in {seconds:.0f} s; {counted(watching.changes, 'change')} seen.{slurm}", err=True)
