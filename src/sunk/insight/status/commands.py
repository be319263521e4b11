"""`sunk status`: how all SlurmClusters and their nodes are, on one page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sunk.service.asking import asked, reaching

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sunk.insight.status.overview import Overview
    from sunk.kube.api.client import Client

AROUND = 12
"""Lines of a screen that are not about members."""


@click.command()
@reaching
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Show all namespaces.")
@click.option("--json", "as_json", is_flag=True, help="JSON output; with --watch one line per change.")
@click.option("--watch", "-w", is_flag=True, help="Keep running and redraw on changes. Stop with Ctrl-C.")
def status(  # noqa: PLR0913 - one argument an option
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    everywhere: bool,
    as_json: bool,
    watch: bool,
) -> None:
    """Show SlurmClusters, their components and their nodes.

    Lists every condition that does not hold, and every NodeSet member that has a problem; healthy members are only
    counted. Ages are in brackets. LOCKED counts Nodes that are kept for Slurm now, LOCK PENDING those that other work has
    to leave before a job starts. Read-only, and reads only from Kubernetes: `sunk slurm` shows what Slurm reports.

    \b
      sunk status
      sunk status -A --watch
      sunk status --json | jq '.clusters[] | select(.ready | not) | .concerns'

    No colours if the output is not a terminal or NO_COLOR is set.
    """  # noqa: D301 - click's mark for a paragraph that is not wrapped

    async def show(client: "Client", where: str) -> None:
        looked = "" if everywhere else where
        await (_follow if watch else _once)(client, looked, as_json=as_json)

    try:
        asked(show, kubeconfig=kubeconfig, context=context, namespace=namespace)
    except KeyboardInterrupt:
        return


async def _once(client: "Client", namespace: str, *, as_json: bool) -> None:
    from msgspec import json

    from sunk.insight.status.overview import overview
    from sunk.insight.status.snapshot import read
    from sunk.terminal import console

    seen = overview(await read(client, namespace))
    if as_json:
        click.echo(json.format(json.encode(seen)))
    else:
        console().print(_page(seen, namespace))


async def _follow(client: "Client", namespace: str, *, as_json: bool) -> None:
    import logging
    from contextlib import aclosing

    from rich.live import Live

    from sunk.insight.status.overview import overview
    from sunk.insight.status.snapshot import follow
    from sunk.terminal import console

    # What a watch has to complain about is on the page; log lines would run across it.
    logging.getLogger("sunk").setLevel(logging.CRITICAL)
    screen = console()
    last: tuple[Overview, str] | None = None
    async with aclosing(follow(client, namespace)) as changes:
        if screen.is_terminal and not as_json:
            with Live(console=screen, screen=True, auto_refresh=False) as live:
                async for found, trouble in changes:
                    live.update(_screen(overview(found), trouble, namespace, console=screen), refresh=True)
            return
        async for found, trouble in changes:
            seen = overview(found), trouble
            if seen != last:
                last = seen
                _print(*seen, namespace, screen, as_json=as_json)


def _print(seen: "Overview", trouble: str, namespace: str, screen: "Console", *, as_json: bool) -> None:
    from msgspec import json

    if as_json:
        click.echo(json.encode({"trouble": trouble, "overview": seen}))
    else:
        screen.print(_screen(seen, trouble, namespace, console=None), "")


def _screen(seen: "Overview", trouble: str, namespace: str, *, console: "Console | None") -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    most = max(console.size.height - AROUND, 1) if console else None
    return Group(*([Text(trouble, style="bold red")] if trouble else []), _page(seen, namespace, most=most))


def _page(seen: "Overview", namespace: str, *, most: int | None = None) -> "RenderableType":
    from datetime import UTC, datetime

    from sunk.insight.status.tables import draw

    return draw(seen, now=datetime.now(UTC), where=f"in namespace {namespace}" if namespace else "", most=most)
