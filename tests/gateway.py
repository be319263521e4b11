"""A gateway in front of the API server that can lose its way to it, and then answers with a page for people."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody

PAGE = "<html><head><title>Please sign in</title></head><body>Please sign in</body></html>\n"
_HOP = frozenset({"transfer-encoding", "content-length", "connection"})


class Gateway:
    """Passes requests on, until `page` is set: then it answers every request with that, and says that all is well."""

    def __init__(self) -> None:
        self.page = ""
        self.status = 200
        self.media = "text/html"
        self.pages = 0
        """How many it has given out."""
        self.also_does = False
        """Whether a write reaches the server all the same, and only its answer is lost."""

    @asynccontextmanager
    async def opened(self, access: Access) -> AsyncIterator[Access]:
        """Give an access to the same server that leads through the gateway, which speaks for us."""
        proof = await access.credentials.proof()
        connector = aiohttp.TCPConnector(ssl=proof.tls or access.tls or True)
        known = {"Authorization": proof.authorization} if proof.authorization else {}
        async with aiohttp.ClientSession(connector=connector, headers=known) as session:

            async def answer(request: web.BaseRequest) -> web.StreamResponse:
                return await self._answer(request, session, access.server)

            server = web.Server(answer)
            runner = web.ServerRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            try:
                port = runner.addresses[0][1]
                yield Access(server=f"http://127.0.0.1:{port}", tls=None, credentials=Nobody())
            finally:
                await runner.cleanup()

    async def _answer(
        self, request: web.BaseRequest, session: aiohttp.ClientSession, server: str
    ) -> web.StreamResponse:
        lost = bool(self.page)
        if not lost or (self.also_does and request.method != "GET"):
            passed = await self._pass(request, session, server, silently=lost)
            if not lost:
                return passed
        self.pages += 1
        return web.Response(text=self.page, status=self.status, content_type=self.media)

    async def _pass(
        self, request: web.BaseRequest, session: aiohttp.ClientSession, server: str, *, silently: bool
    ) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP | {"host"}}
        body = await request.read()
        async with session.request(request.method, server + request.raw_path, headers=headers, data=body) as reply:
            back = web.StreamResponse(status=reply.status)
            back.content_type = reply.content_type
            back.force_close()  # in HTTP/1.0 only that says where an answer ends
            if silently:
                await reply.read()
                return back
            await back.prepare(request)
            async for chunk in reply.content.iter_any():
                await back.write(chunk)
                if self.page:
                    break
            return back
