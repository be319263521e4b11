"""How commands for people reach the API server, and how they end when it does not answer."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sunk.kube.api.client import Client

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def reaching(command: F) -> F:
    """The options that say which cluster and which namespace."""
    kubeconfig = click.option(
        "--kubeconfig", envvar="KUBECONFIG", type=click.Path(path_type=Path), help="Kubeconfig file to use."
    )
    context = click.option("--context", help="Context of the kubeconfig.  [default: the current one]")
    namespace = click.option("--namespace", "-n", help="Namespace to use.  [default: that of the context]")
    return kubeconfig(context(namespace(command)))


def asked(
    ask: "Callable[[Client, str], Awaitable[T]]", *, kubeconfig: Path | None, context: str | None, namespace: str | None
) -> T:
    """Ask the API server about a namespace; whatever it or the way to it refuses ends in a sentence."""
    from sunk.kube.api.client import Client
    from sunk.kube.auth import access
    from sunk.kube.auth.credentials import AccessError
    from sunk.kube.errors import KubeError
    from sunk.kube.process import loop
    from sunk.model.refusal import Refusal

    async def answer() -> T:
        found = access.find(kubeconfig, context=context)
        async with Client(found) as client:
            return await ask(client, namespace or found.namespace)

    try:
        return loop.run(answer())
    except (AccessError, KubeError) as error:
        raise Refusal(str(error)) from error
