import asyncio
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from sunk.kube.process.loop import run

TRIES = 50
AT_ONCE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: a connection that is closed is reset."""


def test_what_it_runs_gives_its_result_on_a_loop_of_uvloop() -> None:
    async def which() -> list[str]:
        await asyncio.sleep(0)
        return [kind.__module__ for kind in type(asyncio.get_running_loop()).__mro__]

    assert "uvloop" in run(which())


@contextmanager
def resetting() -> Iterator[tuple[str, int]]:
    """The address of a server that resets each connection as soon as it has it."""

    def serve(server: socket.socket) -> None:
        for _ in range(TRIES):
            connection, _ = server.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()
        thread.join()


def test_a_connection_that_is_reset_at_once_leaves_no_number_that_others_get() -> None:
    async def connect(address: tuple[str, int]) -> socket.socket:
        loop, tls = asyncio.get_running_loop(), ssl.create_default_context()
        made = socket.socket()
        made.settimeout(0)
        try:
            await loop.sock_connect(made, address)
        except OSError:
            made.close()
            return made
        await asyncio.sleep(0.002)  # the reset is there
        with suppress(OSError):
            await loop.create_connection(asyncio.Protocol, sock=made, ssl=tls, server_hostname="nobody")
        return made

    async def several() -> list[int]:
        with resetting() as address:
            found = [await connect(address) for _ in range(TRIES)]
        await asyncio.sleep(0.1)
        return [made.fileno() for made in found]

    assert run(several()) == [-1] * TRIES
