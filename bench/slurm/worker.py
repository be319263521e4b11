"""Runs inside our image: takes requests by lines of JSON on standard input, and answers each with one line."""

import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import Struct

from bench.slurm import memory, quiet, submits
from bench.slurm.rest import Read
from sunk.kube.process import loop
from sunk.slurm.libslurm.library import Library


class Request(Struct, frozen=True):
    """Something to measure."""

    what: str
    options: dict[str, Any] = {}


async def nodes(library: Library) -> Read:
    began = time.monotonic()
    table = await library.all_nodes()
    return Read(seconds=time.monotonic() - began, bytes=0, rows=len(table.rows))


async def jobs(library: Library) -> Read:
    began = time.monotonic()
    table = await library.jobs()
    return Read(seconds=time.monotonic() - began, bytes=0, rows=len(table.rows) if table else 0)


WHAT: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "nodes": nodes,
    "jobs": jobs,
    "quiet": quiet.follow,
    "bare": quiet.bare,
    "unchanged": quiet.one_after_another,
    "drain": quiet.drain,
    "submit": submits.timed,
    "memory": memory.round_of,
}


async def serve() -> None:
    library = Library.load()
    # Nothing else happens in this loop between two requests, so it may as well wait in the read.
    for line in sys.stdin:
        request = msgspec.json.decode(line, type=Request)
        found = await WHAT[request.what](library, **request.options)
        print(msgspec.json.encode(found).decode(), flush=True)
    library.close()


if __name__ == "__main__":
    loop.run(serve())
