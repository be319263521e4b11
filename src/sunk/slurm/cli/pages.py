"""What each command shows: read once, or followed through the mirror for as long as somebody looks.

A page is redrawn only when one of its rows changed, or how sure they are. While slurmctld is away the last rows
stay, under a line that says since when nothing is known.

`show` and `follow` at the end bring pages to a person or a program.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any, Final, Protocol

import click
import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sunk import terminal
from sunk.model import loopclock
from sunk.model.refusal import Refusal
from sunk.slurm import rpcs
from sunk.slurm.cli import selection, tables
from sunk.slurm.cli.selection import partitions_by_node
from sunk.slurm.errors import SlurmError, Unauthenticated, Unreachable
from sunk.slurm.libslurm.exit import exit_now
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.loading import EXTENSION
from sunk.slurm.mirror.confidence import Unknown
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.records import Job, Node, Partition, Statistics
from sunk.terminal import words

PERIOD: Final = 2.0
"""Statistics count also how often they were asked for, so they change with every look."""


class Page(Struct, frozen=True):
    """One view, to be drawn with that many rows at most, or given to a program. `missing` was asked for by name.

    Two pages of equal `content` look alike.
    """

    draw: Callable[[int | None], RenderableType]
    plain: Callable[[], Any]
    content: tuple[Any, ...] = ()
    trouble: str = ""
    missing: str = ""


class PageRows(Struct, frozen=True):
    """The tables that pages are made of."""

    nodes: Collection[Node] = ()
    jobs: Collection[Job] = ()
    partitions: Collection[Partition] = ()

    @property
    def by_node(self) -> Mapping[str, tuple[str, ...]]:
        return partitions_by_node(self.partitions)


class Pages(Protocol):
    """A command's way to its pages."""

    async def once(self, library: Library) -> Page: ...
    def follow(self, library: Library) -> AsyncGenerator[Page, None]: ...


class TablePages(Struct, frozen=True):
    """Pages made of the tables called by these names."""

    names: tuple[str, ...]
    page: Callable[[PageRows], Page]

    async def once(self, library: Library) -> Page:
        found = {name: await getattr(library, name)() for name in self.names}
        return self.page(PageRows(**{name: table.rows if table else () for name, table in found.items()}))

    async def follow(self, library: Library) -> AsyncGenerator[Page, None]:
        mirror = Mirror(library)
        changed = asyncio.Event()
        told: list[str | None] = [None]

        def listen(_: object) -> None:
            if trouble(mirror) != told[0]:
                told[0] = trouble(mirror)
                changed.set()

        for name in self.names:
            getattr(mirror, name).subscribe(lambda *_: changed.set())
        mirror.subscribe(listen)
        last: Page | None = None
        async with mirror.running():
            while await changed.wait():
                changed.clear()
                page = self.page(PageRows(**{name: tuple(getattr(mirror, name).all()) for name in self.names}))
                page = replace(page, trouble=told[0] or "", missing="")
                if last is None or (page.content, page.trouble) != (last.content, last.trouble):
                    last = page
                    yield page


def trouble(mirror: Mirror) -> str:
    """Why what is shown may not be so; empty if it is."""
    if isinstance(mirror.state, Unknown):
        return _unknown(ago=loopclock.now() - mirror.state.since, reason=mirror.state.reason)
    return "; ".join(f"Not confirmed: {each.reason}" for each in mirror.suspicions)


def _unknown(*, ago: float, reason: str) -> str:
    since = tables.moment(round(time.time() - ago))
    return f"No answer since {since}; this is the last known state.\n{words(reason)}"


def of_nodes(wanted: selection.NodeSelection) -> TablePages:
    def page(seen: PageRows) -> Page:
        inside = seen.by_node
        rows = wanted.pick(seen.nodes, partitions=inside)
        return Page(
            draw=lambda most: tables.nodes(rows, partitions=inside, most=most),
            plain=lambda: [plain_node(row, partitions=inside.get(row.name, ())) for row in rows],
            content=tuple((row, inside.get(row.name)) for row in rows),
            missing=", ".join(wanted.missing(seen.nodes)),
        )

    return TablePages(names=("nodes", "partitions"), page=page)


def of_jobs(wanted: selection.JobSelection) -> TablePages:
    def page(seen: PageRows) -> Page:
        rows = wanted.pick(seen.jobs)
        return Page(
            draw=lambda most: tables.jobs(rows, now=time.time(), most=most),
            plain=lambda: [plain_job(row) for row in rows],
            content=tuple(rows),
        )

    return TablePages(names=("jobs",), page=page)


def of_partitions() -> TablePages:
    def page(seen: PageRows) -> Page:
        rows = sorted(seen.partitions, key=lambda row: row.name)
        inside = seen.by_node
        nodes = {row.name: [node for node in seen.nodes if row.name in inside.get(node.name, ())] for row in rows}
        return Page(
            draw=lambda _: tables.partitions(rows, nodes=nodes),
            plain=lambda: [asdict(row) for row in rows],
            content=(rows, nodes),
        )

    return TablePages(names=("nodes", "partitions"), page=page)


class StatisticsPages(Struct, frozen=True):
    """Pages of what `sdiag` shows, with the costliest requests and users."""

    top: int

    async def once(self, library: Library) -> Page:
        return self._page(await library.statistics())

    async def follow(self, library: Library) -> AsyncGenerator[Page, None]:
        last: Page | None = None
        lost: float | None = None
        while True:
            try:
                last, lost = await self.once(library), None
                yield last
            except SlurmError as error:
                lost = time.monotonic() if lost is None else lost
                known = last or Page(draw=lambda _: "", plain=dict)
                said = _unknown(ago=time.monotonic() - lost, reason=str(error))
                yield replace(known, trouble=said)
            await asyncio.sleep(PERIOD)

    def _page(self, found: Statistics) -> Page:
        return Page(draw=lambda _: tables.statistics(found, top=self.top), plain=lambda: plain_statistics(found))


def plain_node(row: Node, *, partitions: tuple[str, ...]) -> dict[str, Any]:
    """Every field by its name, and what else a program would have to work out."""
    return {**asdict(row), "state": str(row.state).split("+"), "partitions": partitions}


def plain_job(row: Job) -> dict[str, Any]:
    return {**asdict(row), "state": str(row.state).split("+"), "gpus": row.gpus}


def plain_statistics(found: Statistics) -> dict[str, Any]:
    return {
        **asdict(found),
        "rpcs": [{"name": rpcs.name(each.key), **asdict(each)} for each in found.rpcs],
        "callers": [{"name": tables.user(each.key), **asdict(each)} for each in found.callers],
    }


AROUND: Final = 6
"""Lines of a screen that are not rows."""
NOT_THERE: Final = 1
_JSON: Final = msgspec.json.Encoder()


def show(pages: Pages, *, as_json: bool, watch: bool) -> None:
    library = _library()
    try:
        asyncio.run(_follow(pages, library, as_json=as_json) if watch else _once(pages, library, as_json=as_json))
    except KeyboardInterrupt:
        exit_now(0)
    except SlurmError as error:
        click.echo(f"sunk: {_advice(error)}", err=True)
        exit_now(2)
    finally:
        library.close()


def _library() -> Library:
    if find_spec(EXTENSION) is None:
        raise Refusal(
            "libslurm is not available: run this command in the image sunk, next to a Slurm. "
            "In a SUNK cluster: kubectl exec deploy/<name>-syncer -- sunk slurm …"
        )
    return Library.load()


def _advice(error: SlurmError) -> str:
    if isinstance(error, Unreachable):
        return f"slurmctld does not answer. ({error}) Check that it runs and that this machine can reach it."
    if isinstance(error, Unauthenticated):
        return f"slurmctld rejects our credentials. ({error}) Check sackd next to this process, and the clocks."
    return str(error)


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
