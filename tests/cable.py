"""A way to the API server that can be cut, and that can stop passing bytes without a word. It understands nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from msgspec.structs import replace

from sunk.kube.auth.access import Access


class Cable:
    """Bytes flow `out` and `back` while these are set. A cut ends what is connected; new connections need `whole`."""

    def __init__(self) -> None:
        self.whole = True
        self.out = asyncio.Event()
        self.back = asyncio.Event()
        self._connected: set[asyncio.StreamWriter] = set()
        self.mend()

    def cut(self) -> None:
        self.whole = False
        for writer in self._connected:
            writer.transport.abort()

    def stall(self) -> None:
        """Keep all connections and pass nothing: the failure that looks like a quiet day."""
        self.out.clear()
        self.back.clear()

    def mend(self) -> None:
        self.whole = True
        self.out.set()
        self.back.set()

    @asynccontextmanager
    async def laid(self, access: Access) -> AsyncIterator[Access]:
        """Give an access to the same server that leads through this cable."""
        goal = urlsplit(access.server)
        assert goal.hostname

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._carry(reader, writer, (str(goal.hostname), goal.port or 443))

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield replace(access, server=f"https://127.0.0.1:{port}", server_name=goal.hostname)
        finally:
            server.close()
            self.mend()
            self.cut()
            while self._connected:
                await asyncio.sleep(0.01)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, goal: tuple[str, int]) -> None:
        self._connected.add(writer)
        try:
            with suppress(OSError):
                if self.whole:
                    await self._connect(reader, writer, goal)
        finally:
            writer.transport.abort()
            self._connected.discard(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, goal: tuple[str, int]) -> None:
        far_reader, far_writer = await asyncio.open_connection(*goal)
        self._connected.add(far_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, far_writer, self.out), name="cable: out")
                group.create_task(_pump(far_reader, writer, self.back), name="cable: back")
        finally:
            far_writer.transport.abort()
            self._connected.discard(far_writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            await flowing.wait()
            writer.write(chunk)
            await writer.drain()
    writer.transport.abort()
