"""What each command shows: read once, or followed through the mirror for as long as somebody looks.

A page is drawn anew only when one of its rows changed, or how sure they are. While slurmctld is away the last rows
stay, under a line that says since when nothing is known.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import RenderableType

from sunk.model import loopclock
from sunk.slurm import rpcs
from sunk.slurm.cli import cells, selection, tables
from sunk.slurm.errors import SlurmError
from sunk.slurm.libslurm.library import Library
from sunk.slurm.membership import partitions_by_node
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


class Seen(Struct, frozen=True):
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


class Tables(Struct, frozen=True):
    """Pages made of the tables called by these names."""

    names: tuple[str, ...]
    page: Callable[[Seen], Page]

    async def once(self, library: Library) -> Page:
        found = {name: await getattr(library, name)() for name in self.names}
        return self.page(Seen(**{name: table.rows if table else () for name, table in found.items()}))

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
                page = self.page(Seen(**{name: tuple(getattr(mirror, name).all()) for name in self.names}))
                page = replace(page, trouble=told[0] or "", missing="")
                if last is None or (page.content, page.trouble) != (last.content, last.trouble):
                    last = page
                    yield page


def trouble(mirror: Mirror) -> str:
    """Why what is shown may not be so; empty if it is."""
    if isinstance(mirror.state, Unknown):
        return _unknown(ago=loopclock.now() - mirror.state.since, reason=mirror.state.reason)
    return "; ".join(f"Hard to believe: {each.reason}" for each in mirror.suspicions)


def _unknown(*, ago: float, reason: str) -> str:
    since = cells.moment(round(time.time() - ago))
    return f"Unknown since {since}; below is what was last known.\n{words(reason)}"


def of_nodes(wanted: selection.Nodes) -> Tables:
    def page(seen: Seen) -> Page:
        inside = seen.by_node
        rows = wanted.pick(seen.nodes, partitions=inside)
        return Page(
            draw=lambda most: tables.nodes(rows, partitions=inside, most=most),
            plain=lambda: [plain_node(row, partitions=inside.get(row.name, ())) for row in rows],
            content=tuple((row, inside.get(row.name)) for row in rows),
            missing=", ".join(wanted.missing(seen.nodes)),
        )

    return Tables(names=("nodes", "partitions"), page=page)


def of_jobs(wanted: selection.Jobs) -> Tables:
    def page(seen: Seen) -> Page:
        rows = wanted.pick(seen.jobs)
        return Page(
            draw=lambda most: tables.jobs(rows, now=time.time(), most=most),
            plain=lambda: [plain_job(row) for row in rows],
            content=tuple(rows),
        )

    return Tables(names=("jobs",), page=page)


def of_partitions() -> Tables:
    def page(seen: Seen) -> Page:
        rows = sorted(seen.partitions, key=lambda row: row.name)
        inside = seen.by_node
        nodes = {row.name: [node for node in seen.nodes if row.name in inside.get(node.name, ())] for row in rows}
        return Page(
            draw=lambda _: tables.partitions(rows, nodes=nodes),
            plain=lambda: [asdict(row) for row in rows],
            content=(rows, nodes),
        )

    return Tables(names=("nodes", "partitions"), page=page)


class OfStatistics(Struct, frozen=True):
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
        "callers": [{"name": cells.user(each.key), **asdict(each)} for each in found.callers],
    }
