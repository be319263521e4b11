"""`sunk operator`, from the command line. What it imports to run is imported when it runs."""

import logging
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.model.names import CORDON_REASON

if TYPE_CHECKING:
    from sunk.service.part import Build
    from sunk.service.process import Order

log = logging.getLogger(__name__)

NAME = "sunk-controller-manager"
"""Of the Deployment and of the Lease."""
LEVELS = ("debug", "info", "warning", "error")


def _names(text: str) -> tuple[str, ...]:
    """Read names of namespaces, each once. One that cannot exist would be waited for in vain."""
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if odd := [name for name in names if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)]:
        raise click.BadParameter(f"«{odd[0]}» cannot be the name of a namespace: write them like a,b")
    return names


def _key(text: str) -> str:
    """Read the key of an annotation. One that cannot exist would be looked for in vain."""
    prefix = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    if not re.fullmatch(prefix + r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", text):
        raise click.BadParameter(f"«{text}» cannot be the key of an annotation: write it like {CORDON_REASON}")
    return text


@click.command(context_settings={"show_default": True})
@click.option(
    "--namespaces",
    envvar="SUNK_NAMESPACES",
    default="",
    callback=lambda _context, _option, text: _names(text),
    show_default="all",
    help="Where to look for NodeSets, by commas.",
)
@click.option(
    "--workers",
    envvar="SUNK_WORKERS",
    type=click.IntRange(min=1),
    default=8,
    help="How many objects each controller works on at once.",
)
@click.option(
    "--lease-namespace",
    envvar="SUNK_LEASE_NAMESPACE",
    default="",
    show_default="that of this Pod, or of the kubeconfig's context",
    help="Where the Lease is that decides which copy leads.",
)
@click.option(
    "--identity",
    envvar="SUNK_IDENTITY",
    default="",
    show_default="made from the host's name",
    help="What this copy is called in the Lease and in Events. No other may have the same.",
)
@click.option(
    "--port",
    envvar="SUNK_PORT",
    type=click.IntRange(0, 65535),
    default=8080,
    help="Of /healthz, /readyz and /metrics; 0 lets the system choose.",
)
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    type=click.Path(path_type=Path),
    show_default="the Pod's own account",
    help="How to reach the API server.",
)
@click.option(
    "--cordon-reason-annotation",
    envvar="SUNK_CORDON_REASON_ANNOTATION",
    default=CORDON_REASON,
    callback=lambda _context, _option, text: _key(text),
    help="The annotation of Nodes in which people and programs say why they cordon one.",
)
@click.option("--log-level", envvar="SUNK_LOG_LEVEL", type=click.Choice(LEVELS), default="info")
@click.option(
    "--qps",
    envvar="SUNK_QPS",
    type=click.FloatRange(min=0, min_open=True),
    default=1000.0,
    help="Requests a second to the API server at most, in the long run.",
)
@click.option(
    "--burst", envvar="SUNK_BURST", type=click.IntRange(min=1), default=2000, help="How many of them at once."
)
@click.option(
    "--stop-seconds",
    envvar="SUNK_STOP_SECONDS",
    type=click.FloatRange(min=0),
    default=20.0,
    help="How long work in hand may take to end after SIGTERM. Stay 10 s below the Pod's grace period.",
)
def operator(  # noqa: PLR0913 - one argument an option
    *,
    namespaces: tuple[str, ...],
    workers: int,
    lease_namespace: str,
    identity: str,
    port: int,
    kubeconfig: Path | None,
    cordon_reason_annotation: str,
    log_level: str,
    qps: float,
    burst: int,
    stop_seconds: float,
) -> None:
    """Build Slurm clusters out of Pods.

    Runs until SIGTERM. Any number of copies may run: one leads, the others stand by with everything read.
    """
    from sunk.kube import logs
    from sunk.service.process import Order

    logs.start(level=log_level)
    order = Order(
        name=NAME,
        namespaces=namespaces,
        workers=workers,
        lease_namespace=lease_namespace,
        identity=identity,
        port=port,
        qps=qps,
        burst=burst,
        farewell=stop_seconds,
    )
    sys.exit(_run(order, kubeconfig=kubeconfig, builds=_builds(cordon_reason=cordon_reason_annotation)))


def _run(order: "Order", *, kubeconfig: Path | None, builds: "tuple[Build, ...]") -> int:
    """Run to the end; returns the exit code. What a person can mend is a Refusal."""
    from sunk.kube import access, loop
    from sunk.kube.credentials import AccessError
    from sunk.model.refusal import Refusal
    from sunk.service.process import until_told

    try:
        found = access.find(kubeconfig)
    except AccessError as error:
        raise Refusal(str(error)) from error
    try:
        loop.run(until_told(order, access=found, builds=builds))
    except Refusal:
        raise
    except Exception:
        log.critical("the operator ends, for it cannot go on", exc_info=True)
        return 1
    return 0


def _builds(*, cordon_reason: str) -> "tuple[Build, ...]":
    """The parts of the operator, in the order in which they hear of a change."""
    from sunk.operator.node.controller import nodes
    from sunk.operator.nodeset.controller import nodesets
    from sunk.operator.pod.controller import pods
    from sunk.operator.slurmcluster.controller import slurmclusters

    return (partial(pods, cordon_reason=cordon_reason), nodesets, slurmclusters, nodes)
