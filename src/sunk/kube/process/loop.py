"""The event loop of a process of ours: uvloop where it is installed, as in the images, else Python's own.

uvloop is handed connected sockets by aiohttp, and from then on their descriptors are its own. If a server resets such a
connection in its first moment, uvloop (0.23) closes the descriptor and leaves the socket object with its number, and
when that object goes, it closes whichever descriptor has the number by then: another connection dies without a word, or a
new one is refused ("File descriptor 15 is used by transport"). Every API server that stops resets connections like that.
So a socket of which the descriptor is gone is told to forget it.
"""

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, as `asyncio.run` does."""
    # What was imported stays as long as we do. Walking through it takes the collector longer than all the records of
    # a large cluster, which it does not have to look at (`gc=False`).
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(main)


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not find_spec("uvloop"):
        return None
    import uvloop

    class Loop(uvloop.Loop):
        async def create_connection(self, *words: Any, sock: socket.socket | None = None, **options: Any) -> Any:
            if sock is None:
                return await super().create_connection(*words, **options)
            connection = os.fstat(sock.fileno()).st_ino
            try:
                return await super().create_connection(*words, sock=sock, **options)
            except BaseException:
                if not _is(sock, connection):
                    sock.detach()
                raise

    return Loop


def _is(sock: socket.socket, connection: int) -> bool:
    """Whether the descriptor that a socket names is still that of its connection."""
    try:
        return os.fstat(sock.fileno()).st_ino == connection
    except OSError:
        return False
