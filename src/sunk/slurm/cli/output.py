"""Show pages to a person or a program, until it is enough."""

import asyncio
import os
import sys
from contextlib import aclosing
from importlib.util import find_spec
from typing import Final, NoReturn

import click
import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sunk import terminal
from sunk.model.refusal import Refusal
from sunk.slurm.cli.pages import Page, Pages
from sunk.slurm.errors import SlurmError, Unauthenticated, Unreachable
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.loading import EXTENSION

AROUND: Final = 6
"""Lines of a screen that are not rows."""
NOT_THERE: Final = 1
_JSON: Final = msgspec.json.Encoder()


def show(pages: Pages, *, as_json: bool, watch: bool) -> None:
    library = _library()
    try:
        asyncio.run(_follow(pages, library, as_json=as_json) if watch else _once(pages, library, as_json=as_json))
    except KeyboardInterrupt:
        _leave(0)
    except SlurmError as error:
        click.echo(f"sunk: {_advice(error)}", err=True)
        _leave(2)
    finally:
        library.close()


def _library() -> Library:
    if find_spec(EXTENSION) is None:
        raise Refusal(
            "libslurm is not in reach: this command runs where the image sunk does, beside a Slurm. "
            "In a cluster of ours: kubectl exec deploy/<name>-syncer -- sunk slurm …"
        )
    return Library.load()


def _advice(error: SlurmError) -> str:
    if isinstance(error, Unreachable):
        return f"slurmctld does not answer. ({error}) Look whether it runs, and whether this machine may reach it."
    if isinstance(error, Unauthenticated):
        return f"slurmctld does not believe who we are. ({error}) Look at sackd beside this process, and at the clocks."
    return str(error)


def _leave(code: int) -> NoReturn:
    """End at once. A call of libslurm that waits for a lost slurmctld would hold Python's own end for many seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _once(pages: Pages, library: Library, *, as_json: bool) -> None:
    page = await pages.once(library)
    if as_json:
        click.echo(msgspec.json.format(_JSON.encode(page.plain())))
    else:
        terminal.console().print(page.draw(None))
    if page.missing:
        click.echo(f"sunk: Slurm has no node called {page.missing}.", err=True)
        sys.exit(NOT_THERE)


async def _follow(pages: Pages, library: Library, *, as_json: bool) -> None:
    console = terminal.console()
    async with aclosing(pages.follow(library)) as found:
        if as_json:
            async for page in found:
                # One line for each, as programs read them.
                click.echo(_JSON.encode({"trouble": page.trouble, "rows": page.plain()}))
        elif console.is_terminal:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                async for page in found:
                    live.update(_screen(page, console=console), refresh=True)
        else:
            async for page in found:
                console.print(_screen(page, console=None), "")


def _screen(page: Page, *, console: Console | None) -> Group:
    most = max(console.size.height - AROUND, 1) if console else None
    return Group(*([Text(page.trouble, style="bold red")] if page.trouble else []), page.draw(most))
