"""The options that every process of ours has, and how one begins and ends by them.

    @click.command(context_settings={"show_default": True})
    @click.option("--cluster", required=True)
    @serving(workers=16, at_once="How many Pods are written to at once.", stop_seconds=10.0)
    def syncer(*, cluster: str, service_options: ServiceOptions) -> None: ...

What a process needs beside these it declares itself. Nothing is imported here that `--help` does not need.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import Struct

from sunk.model.contract import clusterobjects

if TYPE_CHECKING:
    from sunk.kube.auth.access import Access
    from sunk.service.part import Build
    from sunk.service.process import ServiceSettings

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
LEVELS: Final = ("debug", "info", "warning", "error")


class ServiceOptions(Struct, frozen=True):
    """What was asked for by the shared options: a field for each."""

    identity: str
    port: int
    kubeconfig: Path | None
    log_level: str
    workers: int
    qps: float
    burst: int
    stop_seconds: float

    def begin(self) -> "Access":
        return begin(kubeconfig=self.kubeconfig, log_level=self.log_level)

    def settings(self, *, name: str, namespaces: tuple[str, ...], lease_namespace: str) -> "ServiceSettings":
        from sunk.service.process import ServiceSettings

        return ServiceSettings(
            name=name,
            namespaces=namespaces,
            workers=self.workers,
            lease_namespace=lease_namespace,
            identity=self.identity,
            port=self.port,
            qps=self.qps,
            burst=self.burst,
            grace=self.stop_seconds,
        )


def begin(*, kubeconfig: Path | None, log_level: str) -> "Access":
    """Start the log and find the way to the API server; one that cannot be found is a Refusal."""
    from sunk.kube.auth import access
    from sunk.kube.auth.credentials import AccessError
    from sunk.kube.process import logs
    from sunk.model.refusal import Refusal

    logs.start(level=log_level)
    try:
        return access.find(kubeconfig)
    except AccessError as error:
        raise Refusal(str(error)) from error


def serving(*, workers: int, at_once: str, stop_seconds: float) -> Callable[[F], F]:
    """Give a command the shared options, as its argument `service_options`. `at_once` says what the workers do."""

    def given(command: F) -> F:
        @wraps(command)
        def gathered(*arguments: Any, **options: Any) -> Any:
            shared = {name: options.pop(name) for name in ServiceOptions.__struct_fields__}
            return command(*arguments, service_options=ServiceOptions(**shared), **options)

        made: Any = gathered
        for option in reversed((*_OPTIONS, *_bounds(workers=workers, at_once=at_once, stop_seconds=stop_seconds))):
            made = option(made)
        found: F = made
        return found

    return given


PORT: Final = click.option(
    "--port",
    envvar="SUNK_PORT",
    show_envvar=True,
    type=click.IntRange(0, 65535),
    default=clusterobjects.HEALTH_PORT,
    help="Port of /healthz, /readyz and /metrics; 0 picks a free one.",
)
KUBECONFIG: Final = click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    show_envvar=True,
    type=click.Path(path_type=Path),
    show_default="the Pod's service account",
    help="Kubeconfig file to use.",
)
LOG_LEVEL: Final = click.option(
    "--log-level",
    envvar="SUNK_LOG_LEVEL",
    show_envvar=True,
    type=click.Choice(LEVELS),
    default="info",
    help="Minimum severity to log.",
)
_OPTIONS: Final = (
    click.option(
        "--identity",
        envvar="SUNK_IDENTITY",
        show_envvar=True,
        default="",
        show_default="derived from the host name",
        help="Unique name of this replica in the Lease and in Events.",
    ),
    PORT,
    KUBECONFIG,
    LOG_LEVEL,
    click.option(
        "--qps",
        envvar="SUNK_QPS",
        show_envvar=True,
        type=click.FloatRange(min=0, min_open=True),
        default=1000.0,
        help="Maximum requests per second to the API server, on average.",
    ),
    click.option(
        "--burst",
        envvar="SUNK_BURST",
        show_envvar=True,
        type=click.IntRange(min=1),
        default=2000,
        help="Maximum burst of requests to the API server.",
    ),
)


def _bounds(*, workers: int, at_once: str, stop_seconds: float) -> tuple[Callable[[F], F], ...]:
    """The options whose defaults are each process's own."""
    return (
        click.option(
            "--workers",
            envvar="SUNK_WORKERS",
            show_envvar=True,
            type=click.IntRange(min=1),
            default=workers,
            help=at_once,
        ),
        click.option(
            "--stop-seconds",
            envvar="SUNK_STOP_SECONDS",
            show_envvar=True,
            type=click.FloatRange(min=0),
            default=stop_seconds,
            help="Seconds that running work may take to finish after SIGTERM. Keep it 10 s below the Pod's grace period.",
        ),
    )


def run(settings: "ServiceSettings", *, access: "Access", builds: "Iterable[Build]", called: str) -> int:
    from sunk.service.process import until_told

    return run_to_end(until_told(settings, access=access, builds=builds), called=called)


def run_to_end(main: Coroutine[Any, Any, None], *, called: str) -> int:
    """Run a process; returns the exit code. What a person can mend is a Refusal."""
    from sunk.kube.process import loop
    from sunk.model.refusal import Refusal

    try:
        loop.run(main)
    except Refusal:
        raise
    except Exception:
        log.critical("the %s stops because of an unexpected error", called, exc_info=True)
        return 1
    return 0
