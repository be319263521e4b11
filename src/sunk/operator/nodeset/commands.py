"""`sunk nodeset …`: the templates that a NodeSet had, from the command line."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sunk.kube.client import Client
    from sunk.kube.resource import Key
    from sunk.operator.nodeset.rollback import Kept

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


def _reaching(command: F) -> F:
    """The options that say which cluster and which namespace."""
    kubeconfig = click.option(
        "--kubeconfig", envvar="KUBECONFIG", type=click.Path(path_type=Path), help="How to reach the API server."
    )
    context = click.option("--context", help="Of the kubeconfig, if it is not to be the current one.")
    namespace = click.option("--namespace", "-n", help="Where the NodeSet is, if not in the context's namespace.")
    return kubeconfig(context(namespace(command)))


@click.group()
def nodeset() -> None:
    """What became of a NodeSet's template, and the way back."""


@nodeset.command()
@click.argument("name")
@_reaching
def history(*, name: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Show the templates that are kept, the newest last.

    PODS is how many Pods were made from each; the one that the NodeSet says now has a star.
    """
    from sunk.operator.nodeset import rollback as past

    kept = _asked(past.history, name, kubeconfig=kubeconfig, context=context, namespace=namespace)
    for line in table(kept, now=datetime.now(UTC)):
        click.echo(line)


@nodeset.command()
@click.argument("name")
@click.option("--to", type=click.IntRange(min=1), metavar="REVISION", help="Which one; the one before, if not said.")
@_reaching
def rollback(*, name: str, to: int | None, kubeconfig: Path | None, context: str | None, namespace: str | None) -> None:
    """Put an older template back.

    Pods are then updated as the NodeSet's strategy says, and none that runs a job is ended for it.
    """
    from sunk.operator.nodeset import rollback as past

    async def put(client: "Client", key: "Key") -> "Kept":
        return await past.roll_back(client, key, to=to)

    kept = _asked(put, name, kubeconfig=kubeconfig, context=context, namespace=namespace)
    done = "has it already" if kept.current else "has it again"
    click.echo(f"revision {kept.number} ({kept.name}): NodeSet {name} {done}")


def _asked(
    ask: "Callable[[Client, Key], Awaitable[T]]",
    name: str,
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> T:
    """Ask the API server; whatever it or the way to it refuses ends in a sentence."""
    from sunk.kube import access, loop
    from sunk.kube.client import Client
    from sunk.kube.credentials import AccessError
    from sunk.kube.errors import KubeError
    from sunk.kube.resource import Key
    from sunk.model.refusal import Refusal

    async def answer() -> T:
        found = access.find(kubeconfig, context=context)
        async with Client(found) as client:
            return await ask(client, Key(namespace or found.namespace, name))

    try:
        return loop.run(answer())
    except (AccessError, KubeError) as error:
        raise Refusal(str(error)) from error


def table(kept: "Iterable[Kept]", *, now: datetime) -> list[str]:
    """The lines that `history` prints."""
    rows = [("REVISION", "HASH", "AGE", "PODS", "")]
    for one in kept:
        age = "-" if one.made is None else lasting((now - one.made).total_seconds())
        rows.append((str(one.number), one.name, age, str(one.pods), "*" if one.current else ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def lasting(seconds: float) -> str:
    """A duration as kubectl writes it, in its greatest unit."""
    whole = max(0, int(seconds))
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
