"""`sunk syncer`, from the command line. What it imports to run is imported when it runs."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from sunk.service.options import ServiceOptions, run, serving

if TYPE_CHECKING:
    from sunk.kube.auth.access import Access
    from sunk.service.process import ServiceSettings
    from sunk.syncer.process import SyncerOptions

F = TypeVar("F", bound=Callable[..., Any])
_POSITIVE = click.FloatRange(min=0)


def _settings(command: F) -> F:
    """The options that say how it behaves; they are the fields of `sunk.syncer.context.Settings`."""
    made = (
        _seconds("--not-ready-after", 5.0, "A node is drained after its Pod has not been ready for this long."),
        click.option(
            "--wave-share",
            envvar="SUNK_WAVE_SHARE",
            show_envvar=True,
            type=click.FloatRange(0, 1),
            default=0.2,
            help="If more than this share of the Pods stop being ready together, they wait for --wave-delay instead.",
        ),
        _seconds("--wave-delay", 60.0, "How long they wait."),
        _seconds("--skew", 5.0, "How far the clocks of Slurm and Kubernetes may be apart."),
        _seconds("--calm", 5.0, "Ignore NOT_RESPONDING for this long after an undrain."),
        _seconds("--gather", 0.2, "The least time between two rounds of orders, so that many changes share a call."),
        _seconds(
            "--restart-unknown-after",
            60.0,
            "A Pod that is ready is replaced after Slurm has not known it for this long.",
        ),
        _seconds(
            "--forget-after", 60.0, "A record that was ours is deleted after it has been in no NodeSlice for this long."
        ),
        click.option(
            "--clean-up/--no-clean-up",
            envvar="SUNK_CLEAN_UP",
            show_envvar=True,
            default=True,
            help="Delete Slurm's record of nodes that have left.",
        ),
    )
    for option in made:
        command = option(command)
    return command


def _seconds(name: str, default: float, text: str) -> Callable[[F], F]:
    variable = f"SUNK_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(
        name, envvar=variable, show_envvar=True, type=_POSITIVE, default=default, help=f"Seconds. {text}"
    )


@click.command(context_settings={"show_default": True})
@click.option("--cluster", envvar="SUNK_CLUSTER", show_envvar=True, required=True, help="Which SlurmCluster.")
@click.option(
    "--namespace",
    envvar="SUNK_NAMESPACE",
    show_envvar=True,
    default="",
    show_default="that of this Pod, or of the kubeconfig's context",
    help="Where it is.",
)
@serving(workers=16, at_once="How many Pods are written to at once.", stop_seconds=10.0)
@_settings
def syncer(*, cluster: str, namespace: str, service_options: ServiceOptions, **settings: Any) -> None:
    """Keep Slurm's nodes and their Pods in step, both ways.

    Runs where libslurm is: in the image sunk, beside a sackd of the cluster, until SIGTERM. Any number of replicas may
    run: one leads, the others stand by with everything read.
    """
    from sunk.syncer.context import Settings
    from sunk.syncer.process import SyncerOptions

    access = service_options.begin()
    options = SyncerOptions(cluster=cluster, namespace=namespace or access.namespace, settings=Settings(**settings))
    service = service_options.settings(
        name=options.name, namespaces=(options.namespace,), lease_namespace=options.namespace
    )
    _run(options, service, access=access)


def _run(options: "SyncerOptions", service: "ServiceSettings", *, access: "Access") -> None:
    from sunk.kube.process import loop
    from sunk.slurm.libslurm.wire import Wire
    from sunk.syncer.config.startup import until_usable
    from sunk.syncer.metrics import CountingLibrary
    from sunk.syncer.process import syncer as build

    if not loop.run(until_usable(host=service.host, port=service.port)):
        return
    library = CountingLibrary(Wire())
    _leave(run(service, access=access, builds=(build(options, library=library),), called="syncer"))


def _leave(code: int) -> NoReturn:
    """End at once. A call of libslurm that waits for a lost slurmctld would hold Python's own end for many seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
