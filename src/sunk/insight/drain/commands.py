"""`sunk drain` and `sunk undrain`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from sunk.insight.drain.request import RequestOutcome
    from sunk.kube.api.client import Client

_wait = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the answer.",
)


@click.command()
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--reason", "-r", required=True, help="Reason for the drain. Slurm shows it after your name.")
@_wait
@reaching
def drain(  # noqa: PLR0913 - one argument an option
    *,
    nodes: tuple[str, ...],
    reason: str,
    timeout: float,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> None:
    """Take Slurm nodes out of service.

    Running jobs continue, new ones do not start. SUNK never lifts this drain by itself: use `sunk undrain` or `scontrol`.
    NODE is a Slurm node, a hostlist such as `slurm-h100-012-[001-008]`, or a Kubernetes Node.

    \b
      sunk drain slurm-h100-012-002 --reason "fan is loud"
      sunk explain node slurm-h100-012-002
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped
    from sunk.insight.drain.request import signed

    _give(nodes, "drain", reason=signed(reason), timeout=timeout, at=(kubeconfig, context, namespace))


@click.command()
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@_wait
@reaching
def undrain(
    *, nodes: tuple[str, ...], timeout: float, kubeconfig: Path | None, context: str | None, namespace: str | None
) -> None:
    """Return Slurm nodes to service.

    Lifts a drain that a person or Slurm itself has set. A node that is down stays down. A drain whose reason begins with
    `k8s:` has a cause in Kubernetes and would come back, so it is refused with that cause. If the node gets another drain
    in the meantime, that one stays and is shown.
    """
    _give(nodes, "undrain", reason="", timeout=timeout, at=(kubeconfig, context, namespace))


def _give(
    nodes: tuple[str, ...],
    act: Literal["drain", "undrain"],
    *,
    reason: str,
    timeout: float,
    at: tuple[Path | None, str | None, str | None],
) -> None:
    async def give(client: "Client", where: str) -> "list[RequestOutcome]":
        from sunk.insight.drain import request

        order = request.order(act, reason)
        return await request.send(client, where, targets=nodes, order=order, patience=timeout)

    kubeconfig, context, namespace = at
    outcomes = asked(give, kubeconfig=kubeconfig, context=context, namespace=namespace)
    for outcome in outcomes:
        mark = "✓" if outcome.done else "✗"
        click.echo(f"{mark} {outcome.node}  {outcome.words or f'{act}ed'}", err=not outcome.done)
    sys.exit(0 if all(outcome.done for outcome in outcomes) else 1)
