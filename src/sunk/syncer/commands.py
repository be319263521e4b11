"""`sunk syncer`, from the command line. What it imports to run is imported when it runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sunk.model import settings
from sunk.model.cluster.daemons import SyncerSettings
from sunk.service.options import ServiceOptions, run, serving

if TYPE_CHECKING:
    from sunk.kube.auth.access import Access
    from sunk.service.process import ServiceSettings
    from sunk.syncer.process import SyncerOptions

F = TypeVar("F", bound=Callable[..., Any])
_FORMER = {"clock_skew": "--skew", "slurm_node_clean_up": "--clean-up/--no-clean-up"}
"""As an operator of an earlier release says it, which may be upgraded after the image."""


def _settings(command: F) -> F:
    """The options that say how it behaves, as `sunk.model.cluster.daemons.SyncerSettings` declares them."""
    for option in reversed(settings.options(SyncerSettings)):
        command = _setting(option)(command)
    return command


def _setting(option: settings.SettingOption) -> Callable[[F], F]:
    names = [option.name, f"{option.flag}/{option.negative}" if option.is_switch else option.flag]
    names += [_FORMER[option.name]] if option.name in _FORMER else []
    kind = None if option.is_switch else click.FloatRange(option.least, option.most)
    return click.option(
        *names, envvar=option.variable, show_envvar=True, type=kind, default=option.default, help=option.help
    )


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
@serving(workers=16, at_once="Number of Pods written to concurrently.", stop_seconds=10.0)
@_settings
def syncer(*, cluster: str, namespace: str, service_options: ServiceOptions, **chosen: Any) -> None:
    """Run the syncer, which keeps Slurm nodes and their Pods in sync in both directions.

    Needs libslurm, so it runs in the image sunk, next to a sackd of the cluster, until SIGTERM. Any number of replicas
    can run: one leads, the others stand by with warm caches.
    """
    from sunk.syncer.process import SyncerOptions

    access = service_options.begin()
    options = SyncerOptions(cluster=cluster, namespace=namespace or access.namespace, settings=SyncerSettings(**chosen))
    service = service_options.settings(
        name=options.name, namespaces=(options.namespace,), lease_namespace=options.namespace
    )
    _run(options, service, access=access)


def _run(options: "SyncerOptions", service: "ServiceSettings", *, access: "Access") -> None:
    from sunk.kube.process import loop
    from sunk.slurm.libslurm.exit import exit_now
    from sunk.slurm.libslurm.wire import Wire
    from sunk.syncer.config.startup import until_usable
    from sunk.syncer.metrics import CountingLibrary
    from sunk.syncer.process import syncer as build

    if not loop.run(until_usable(host=service.host, port=service.port)):
        return
    library = CountingLibrary(Wire())
    exit_now(run(service, access=access, builds=(build(options, library=library),), called="syncer"))
