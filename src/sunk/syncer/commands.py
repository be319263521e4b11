"""`sunk syncer`, from the command line. What it imports to run is imported when it runs."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import Struct

from sunk.model import settings
from sunk.model.cluster.daemons import HooksApi, SyncerSettings
from sunk.model.contract import hooks
from sunk.service.options import ServiceOptions, run, serving

if TYPE_CHECKING:
    from sunk.kube.auth.access import Access
    from sunk.service.process import ServiceSettings
    from sunk.syncer.hooks.api import HookSettings
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


class HookOptions(Struct, frozen=True):
    """What was asked for about hooks: a field for each option."""

    hooks_port: int
    hooks_folder: Path
    hooks_timeout: float
    node_permissions: bool
    node_reboot_condition: str
    node_reboot_reason: str

    def settings(self) -> "HookSettings":
        from sunk.syncer.hooks.api import HookSettings
        from sunk.syncer.hooks.reboot import RebootSettings

        return HookSettings(
            port=self.hooks_port,
            folder=self.hooks_folder,
            timeout=self.hooks_timeout,
            reboot=RebootSettings(self.node_permissions, self.node_reboot_condition, self.node_reboot_reason),
        )


_DEFAULTS: Final = HooksApi()
_HOOKS: Final = (
    click.option(
        "--hooks-port",
        envvar="SUNK_HOOKS_PORT",
        show_envvar=True,
        type=click.IntRange(0, 65535),
        default=0,
        help="Port of the hook API for compute Pods; 0 turns it off.",
    ),
    click.option(
        "--hooks-folder",
        envvar="SUNK_HOOKS_FOLDER",
        show_envvar=True,
        type=click.Path(path_type=Path),
        default=hooks.SERVER_FOLDER,
        help="Folder with the certificate and the key of the hook API.",
    ),
    click.option(
        "--hooks-timeout",
        envvar="SUNK_HOOKS_TIMEOUT",
        show_envvar=True,
        type=click.FloatRange(min=1),
        default=float(_DEFAULTS.timeout),
        help="Maximum seconds that a prolog waits for other work to leave its Node.",
    ),
    click.option(
        "--node-permissions/--no-node-permissions",
        envvar="SUNK_NODE_PERMISSIONS",
        show_envvar=True,
        default=False,
        help="Let compute Pods request a reboot of their Nodes.",
    ),
    click.option(
        "--node-reboot-condition",
        envvar="SUNK_NODE_REBOOT_CONDITION",
        show_envvar=True,
        default=_DEFAULTS.node_reboot_condition,
        help="Type of the Node condition that requests a reboot.",
    ),
    click.option(
        "--node-reboot-reason",
        envvar="SUNK_NODE_REBOOT_REASON",
        show_envvar=True,
        default=_DEFAULTS.node_reboot_reason,
        help="Reason of that condition.",
    ),
)


def _hook_options(command: F) -> F:
    """The options of the hook API, as the argument `hook_options`."""

    @wraps(command)
    def gathered(*arguments: Any, **options: Any) -> Any:
        chosen = {name: options.pop(name) for name in HookOptions.__struct_fields__}
        return command(*arguments, hook_options=HookOptions(**chosen), **options)

    made: Any = gathered
    for option in reversed(_HOOKS):
        made = option(made)
    found: F = made
    return found


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
@click.option(
    "--users-config-map",
    envvar="SUNK_USERS_CONFIG_MAP",
    show_envvar=True,
    default="",
    show_default="<cluster>-users",
    help="ConfigMap with the users of the cluster.",
)
@serving(workers=16, at_once="Number of Pods written to concurrently.", stop_seconds=10.0)
@_hook_options
@_settings
def syncer(
    *,
    cluster: str,
    namespace: str,
    users_config_map: str,
    service_options: ServiceOptions,
    hook_options: HookOptions,
    **chosen: Any,
) -> None:
    """Run the syncer, which keeps Slurm nodes and their Pods in sync in both directions.

    Needs libslurm, so it runs in the image sunk, next to a sackd of the cluster, until SIGTERM. Any number of replicas
    can run: one leads, the others stand by with warm caches.
    """
    from sunk.syncer.process import SyncerOptions

    access = service_options.begin()
    options = SyncerOptions(
        cluster=cluster,
        namespace=namespace or access.namespace,
        settings=SyncerSettings(**chosen),
        hooks=hook_options.settings(),
        users=users_config_map,
    )
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
