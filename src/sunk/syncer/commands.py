"""`sunk syncer`, from the command line. What it imports to run is imported when it runs."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from sunk.kube.access import Access
    from sunk.service.process import Order
    from sunk.syncer.process import Choice

log = logging.getLogger(__name__)

LEVELS = ("debug", "info", "warning", "error")
F = TypeVar("F", bound=Callable[..., Any])
_POSITIVE = click.FloatRange(min=0)


def _manner(command: F) -> F:
    """The options that say how it behaves; they are the fields of `sunk.syncer.ground.Manner`."""
    made = (
        _seconds("--not-ready-after", 5.0, "A Pod that is not ready for so long drains its node."),
        click.option(
            "--wave-share",
            envvar="SUNK_WAVE_SHARE",
            type=click.FloatRange(0, 1),
            default=0.2,
            help="If more than this share of the Pods stop being ready together, they wait for --wave-delay instead.",
        ),
        _seconds("--wave-delay", 60.0, "How long they wait."),
        _seconds("--skew", 5.0, "How far the clocks of Slurm and Kubernetes may be apart."),
        _seconds("--calm", 5.0, "After an undrain a node does not respond for a moment; so long that is not told."),
        _seconds("--gather", 0.2, "The least time between two rounds of orders, so that many changes share a call."),
        _seconds(
            "--restart-unknown-after", 60.0, "A Pod that is ready, and unknown to Slurm for so long, starts anew."
        ),
        _seconds("--forget-after", 60.0, "A record that was ours, and is in no NodeSlice for so long, is deleted."),
        click.option(
            "--clean-up/--no-clean-up",
            envvar="SUNK_CLEAN_UP",
            default=True,
            help="Delete Slurm's record of nodes that have left.",
        ),
    )
    for option in made:
        command = option(command)
    return command


def _seconds(name: str, default: float, text: str) -> Callable[[F], F]:
    variable = f"SUNK_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, envvar=variable, type=_POSITIVE, default=default, help=f"Seconds. {text}")


@click.command(context_settings={"show_default": True})
@click.option("--cluster", envvar="SUNK_CLUSTER", required=True, help="Which SlurmCluster.")
@click.option(
    "--namespace",
    envvar="SUNK_NAMESPACE",
    default="",
    show_default="that of this Pod, or of the kubeconfig's context",
    help="Where it is.",
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
@click.option("--log-level", envvar="SUNK_LOG_LEVEL", type=click.Choice(LEVELS), default="info")
@click.option(
    "--workers",
    envvar="SUNK_WORKERS",
    type=click.IntRange(min=1),
    default=16,
    help="How many Pods are written to at once.",
)
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
    default=10.0,
    help="How long work in hand may take to end after SIGTERM. Stay 10 s below the Pod's grace period.",
)
@_manner
def syncer(  # noqa: PLR0913 - one argument an option
    *,
    cluster: str,
    namespace: str,
    identity: str,
    port: int,
    kubeconfig: Path | None,
    log_level: str,
    workers: int,
    qps: float,
    burst: int,
    stop_seconds: float,
    **manner: Any,
) -> None:
    """Keep Slurm's nodes and their Pods in step, both ways.

    Runs where libslurm is: in the image sunk, beside a sackd of the cluster, until SIGTERM. Any number of copies may
    run: one leads, the others stand by with everything read.
    """
    from sunk.kube import logs
    from sunk.service.process import Order
    from sunk.syncer.ground import Manner
    from sunk.syncer.process import Choice

    logs.start(level=log_level)
    found = _access(kubeconfig)
    choice = Choice(cluster=cluster, namespace=namespace or found.namespace, manner=Manner(**manner))
    order = Order(
        name=choice.name,
        namespaces=(choice.namespace,),
        workers=workers,
        lease_namespace=choice.namespace,
        identity=identity,
        port=port,
        qps=qps,
        burst=burst,
        farewell=stop_seconds,
    )
    _run(choice, order, access=found)


def _access(kubeconfig: Path | None) -> "Access":
    from sunk.kube import access
    from sunk.kube.credentials import AccessError
    from sunk.model.refusal import Refusal

    try:
        return access.find(kubeconfig)
    except AccessError as error:
        raise Refusal(str(error)) from error


def _run(choice: "Choice", order: "Order", *, access: "Access") -> None:
    """Run to the end. What a person can mend is a Refusal."""
    from sunk.kube import loop
    from sunk.model.refusal import Refusal
    from sunk.service.process import until_told
    from sunk.slurm.wire import Wire
    from sunk.syncer.metrics import Counted
    from sunk.syncer.process import syncer as build
    from sunk.syncer.waiting import until_usable

    if not loop.run(until_usable(host=order.host, port=order.port)):
        return
    library = Counted(Wire())
    try:
        loop.run(until_told(order, access=access, builds=(build(choice, library=library),)))
    except Refusal:
        raise
    except Exception:
        log.critical("the syncer ends, for it cannot go on", exc_info=True)
        _leave(1)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End at once. A call of libslurm that waits for a lost slurmctld would hold Python's own end for many seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
