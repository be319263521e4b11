"""Typed requests to one API server, each with an end in time.

The client caches nothing. It repeats nothing either unless it is given a `Retry`, and then only what `sunk.kube.api.retry`
finds safe to repeat. Every method raises what `sunk.kube.errors` holds and nothing else. Bodies are what msgspec can
encode: dicts, Structs, `msgspec.Raw`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self
from urllib.parse import urlencode

import aiohttp
from msgspec import DecodeError, Raw, Struct, ValidationError, field, json
from yarl import URL

from sunk.kube.api import transport
from sunk.kube.api.clock import ServerClock
from sunk.kube.api.exchange import Exchange, Observer, unobserved
from sunk.kube.api.limits import Bucket
from sunk.kube.api.patch import Apply, Body, Patch
from sunk.kube.api.retry import ONCE, Repeat, Retry, of_body, of_patch, persist
from sunk.kube.api.stream import TOO_DEEP, Stream, shallow
from sunk.kube.api.transport import Sockets
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import AccessError
from sunk.kube.errors import ApiError, Gone, Unreachable, Unreadable, refusal, somebody_else
from sunk.kube.resource import R, Resource

JSON: Final = "application/json"
PAGE: Final = 500
"""Objects per page of a list: small enough that decoding one does not hold up the loop."""

_IDLE: Final = 90.0
"""Seconds for which a connection without work is kept: a handshake takes longer than most requests."""
_LOST: Final = (aiohttp.ClientError, OSError, TimeoutError, AccessError)
_OK: Final = 300
_GLANCE: Final = 500
"""Bytes of a foreign answer that are read, to show its beginning."""
_TOO_OLD: Final = (400, 426, 505)
_UNAUTHORIZED: Final = 401
_UNREADABLE: Final = (DecodeError, RecursionError)
_UNSENT: Final = (aiohttp.ClientConnectorError, AccessError)


class Scope(Struct, frozen=True):
    """Which objects of a resource: of one namespace or all, by label and field selectors as kubectl writes them."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in chosen.items() if value}


class Preconditions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a delete was decided on: it meets that object, that version, or nothing."""

    uid: str | None = None
    resource_version: str | None = None


class Deletion(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How to delete. `grace_period_seconds=0` means: now, without asking the kubelet."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None


EVERYWHERE: Final = Scope()
PLAINLY: Final = Deletion()

STRICTLY: Final = {"fieldValidation": "Strict"}
"""Asked of every write: a field that the server does not know is refused with its path, instead of dropped unsaid."""


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    more: str = field(name="continue", default="")


class ListPage(Struct):
    """A part of a list, its items not yet decoded: one that does not fit its record must not spoil the others."""

    metadata: _ListMeta
    items: tuple[Raw, ...] | None = None


class Listing(Struct, Generic[R], frozen=True):
    """Objects as they all were at one resourceVersion."""

    items: tuple[R, ...]
    resource_version: str


class Client:
    """One session with one API server; use it as an async context manager, or call `close`.

    `limit` holds requests up before they are sent, `retry` says how long to repeat, `observe` hears of every exchange.
    """

    def __init__(  # noqa: PLR0913 - one keyword per trait
        self,
        access: Access,
        *,
        timeout: float = 30.0,
        connections: int = 64,
        limit: Bucket | None = None,
        retry: Retry = ONCE,
        observe: Observer = unobserved,
    ) -> None:
        self._access = access
        self._limit = limit
        self._retry = retry
        self._observe = observe
        self._sockets = Sockets()
        self.clock: Final = ServerClock()
        # Proxies are left alone (trust_env is off), and cookies have no business here.
        session = partial(
            aiohttp.ClientSession,
            connector=aiohttp.TCPConnector(
                limit=connections, keepalive_timeout=_IDLE, socket_factory=self._sockets.make
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout),
            headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "sunk"},
        )
        self._session = session()
        self._old_session = session(version=aiohttp.HttpVersion10, connector_owner=False)
        self._speaks_old = True
        self._decoders: dict[type[Any], json.Decoder[Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End everything; when this returns, no connection is left."""
        await self._old_session.close()
        await self._session.close()
        await self._sockets.end()

    async def get(self, resource: Resource[R], name: str, *, namespace: str = "", subresource: str = "") -> R:
        path = resource.path(namespace, name, subresource=subresource)
        return self.decode(resource, await self.request("GET", path, repeat=Repeat.UNKNOWN))

    async def list(self, resource: Resource[R], scope: Scope = EVERYWHERE, *, page: int = PAGE) -> Listing[R]:
        """Read all objects as they were at one moment. One that does not fit its record is an error here.

        `page=0` asks for all in one answer. That suits a field by which the server has an index, such as the Node of
        Pods, and which selects few: asked for pages, servers before 1.34 walk through all objects in their database.
        """
        try:
            return await self._list(resource, scope, limit=page)
        except Gone:  # the server forgot that moment before the last page was read
            return await self._list(resource, scope, limit=0)

    async def _list(self, resource: Resource[R], scope: Scope, *, limit: int) -> Listing[R]:
        items: list[R] = []
        version = ""
        async for page in self.pages(resource, scope, limit=limit):
            items.extend(self.decode(resource, item) for item in page.items or ())
            version = page.metadata.resource_version
        return Listing(tuple(items), version)

    async def pages(self, resource: Resource[Any], scope: Scope, *, limit: int = PAGE) -> AsyncIterator[ListPage]:
        """Read a list in pages; a limit of 0 means one page. Gone may be raised between two of them."""
        path, query = resource.path(scope.namespace), scope.query() | {"limit": str(limit)}
        while True:
            page = self._page(await self.request("GET", path, query=query, repeat=Repeat.UNKNOWN), asked=f"GET {path}")
            yield page
            if not page.metadata.more:
                return
            query["continue"] = page.metadata.more

    def _page(self, body: bytes, *, asked: str) -> ListPage:
        """Read a page. What is no list must not look like an empty one: all that is known would be gone."""
        decode = self._decoder(ListPage).decode
        try:
            try:
                page: ListPage = decode(body)
            except RecursionError:
                page = decode(shallow(body))
        except _UNREADABLE as error:
            raise somebody_else(body, asked=asked) from error
        if not page.metadata.resource_version:
            raise somebody_else(body, asked=asked)
        return page

    async def create(self, resource: Resource[R], body: Body | Raw, *, namespace: str = "") -> R:
        path = resource.path(namespace)
        reply = await self.request("POST", path, query=STRICTLY, body=body, repeat=Repeat.UNDONE)
        return self.decode(resource, reply)

    async def read(self, path: str, *, accept: str = JSON) -> bytes:
        """Read what is no object of a resource, such as `/version`. Some of it is JSON that has to be called otherwise."""
        return await self.request("GET", path, accept=accept, repeat=Repeat.UNKNOWN)

    async def post(self, path: str, body: Body | Raw) -> bytes:
        """Post to a subresource that answers with something else than the object: binding, eviction, token."""
        return await self.request("POST", path, body=body)

    async def replace(
        self, resource: Resource[R], name: str, body: Body | Raw, *, namespace: str = "", subresource: str = ""
    ) -> R:
        """Write the whole object. A resourceVersion in its metadata makes this depend on what was read."""
        path = resource.path(namespace, name, subresource=subresource)
        reply = await self.request("PUT", path, query=STRICTLY, body=body, repeat=of_body(body))
        return self.decode(resource, reply)

    async def patch(
        self, resource: Resource[R], name: str, patch: Patch, *, namespace: str = "", subresource: str = ""
    ) -> R:
        path = resource.path(namespace, name, subresource=subresource)
        query = dict(STRICTLY)
        if isinstance(patch, Apply):
            query |= {"fieldManager": patch.manager, "force": str(patch.force).lower()}
        reply = await self.request(
            "PATCH", path, body=patch.body, query=query, media=patch.media, repeat=of_patch(patch)
        )
        return self.decode(resource, reply)

    async def delete(
        self,
        resource: Resource[R],
        name: str,
        how: Deletion = PLAINLY,
        *,
        namespace: str = "",
    ) -> bytes:
        """Ask for the end of an object, which finalizers and a grace period may put off; the answer says which."""
        repeat = Repeat.UNKNOWN if how.preconditions else Repeat.UNDONE
        return await self.request("DELETE", resource.path(namespace, name), body=how, repeat=repeat)

    async def delete_all(self, resource: Resource[R], scope: Scope, how: Deletion = PLAINLY) -> None:
        """Delete a whole selection by one request; an empty selector would mean everything and is refused."""
        query = scope.query()
        if not query:
            raise ValueError(f"delete_all of {resource.plural} without a selector: give labels or fields")
        await self.request("DELETE", resource.path(scope.namespace), query=query, body=how, repeat=Repeat.UNDONE)

    def decode(self, resource: Resource[R], body: bytes | Raw) -> R:
        try:
            record: R = self._decoder(resource.record).decode(body)
            if TOO_DEEP in bytes(body):
                raise RecursionError("it is nested too deep")  # noqa: TRY301 - as if it had been read whole
        except (ValidationError, RecursionError) as error:
            raise Unreadable(f"{resource.plural}: an object does not match its type: {error}") from error
        except DecodeError as error:  # cut short, or no JSON at all
            raise somebody_else(bytes(body), asked=resource.plural) from error
        return record

    def _decoder(self, kind: type[Any]) -> json.Decoder[Any]:
        if kind not in self._decoders:
            self._decoders[kind] = json.Decoder(kind)
        return self._decoders[kind]

    async def request(  # noqa: PLR0913 - one keyword per part of a request
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        media: str = JSON,
        accept: str = JSON,
        repeat: Repeat = Repeat.NEVER,
    ) -> bytes:
        """Send one request, or as many as may be, and return the body of the answer; all else goes through here."""
        data = None if body is None else json.encode(body)

        async def send() -> bytes:
            headers = {"Content-Type": media, "Accept": accept}
            async with self._send(method, path, query, data=data, headers=headers) as reply:
                answer = await reply.read()
            # Within the block that is repeated: a page of some gateway is as good as no answer.
            if not answer.lstrip().startswith(b"{"):
                raise somebody_else(answer, asked=f"{method} {path}")
            return answer

        return await persist(send, retry=self._retry, repeat=repeat)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Stream]:
        """Open an answer without an end. The total time is not bounded; whoever reads bounds the silence.

        It is asked for in HTTP/1.0, where an answer comes as it is. In HTTP/1.1 the server wraps each change into a
        chunk and cuts that into two or three TLS records, and aiohttp handles every one of these by itself.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self._session.timeout.total)
        async with self._send("GET", path, query, timeout=limit, watch=True) as reply:
            if "json" not in reply.content_type:
                raise somebody_else(await reply.content.read(_GLANCE), asked=f"WATCH {path}")
            connection = self._sockets.under(reply.connection and reply.connection.transport)
            stream = Stream(transport.body(reply), connection)
            try:
                yield stream
            finally:
                stream.let_go()

    @asynccontextmanager
    async def messages(
        self, path: str, query: Sequence[tuple[str, str]], *, protocol: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a WebSocket, and give the binary messages that come until its end. The time is not bounded.

        A refusal comes without the body that would say why: aiohttp does not keep it.
        """
        asked = f"GET {path}"
        if self._limit is not None:
            await self._limit.take()
        try:
            async with await self._upgraded(path, query, protocol=protocol) as socket:
                yield (each.data async for each in socket if each.type is aiohttp.WSMsgType.BINARY)
        except aiohttp.WSServerHandshakeError as refused:
            raise refusal(b"", code=refused.status, asked=asked) from refused
        except _LOST as error:
            raise self._lost(error, asked=asked) from error

    async def _upgraded(
        self, path: str, query: Sequence[tuple[str, str]], *, protocol: str
    ) -> aiohttp.ClientWebSocketResponse:
        url = URL(f"{self._access.server}{path}?{urlencode(query)}", encoded=True)
        for last in (False, True):
            proof = await self._access.credentials.proof()
            try:
                return await self._session.ws_connect(
                    url,
                    protocols=(protocol,),
                    headers={"Authorization": proof.authorization} if proof.authorization else {},
                    ssl=proof.tls or self._access.tls or True,
                    server_hostname=self._access.server_name,
                )
            except aiohttp.WSServerHandshakeError as refused:
                if last or refused.status != _UNAUTHORIZED or not await self._access.credentials.refused(proof):
                    raise
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, *, watch: bool = False, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._limit is not None:
            await self._limit.take()
        clock = asyncio.get_running_loop().time
        began, code, heard = clock(), 0, False
        try:
            async with self._exchange(method, path, query, watch=watch, **options) as reply:
                heard = True
                self.clock.hear(reply.headers.get("Date", ""), sent=began, got=clock())
                self._observe(Exchange(method, path, reply.status, clock() - began, watch=watch))
                yield reply
        except ApiError as refused:
            code = refused.status
            raise
        except _LOST as error:
            raise self._lost(error, asked=f"{method} {path}") from error
        finally:
            if not heard:
                self._observe(Exchange(method, path, code, clock() - began, watch=watch))

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str] | None, *, watch: bool, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        session = self._old_session if watch and self._speaks_old else self._session
        url = URL(self._access.server + path + (f"?{urlencode(query)}" if query else ""), encoded=True)
        options["headers"] = dict(options.get("headers", ()))
        options["server_hostname"] = self._access.server_name
        for last in (False, True):
            proof = await self._access.credentials.proof()
            options["headers"] |= {"Authorization": proof.authorization} if proof.authorization else {}
            options["ssl"] = proof.tls or self._access.tls or True
            async with session.request(method, url, **options) as reply:
                if reply.status < _OK:
                    yield reply
                    return
                if watch and reply.status in _TOO_OLD:
                    self._speaks_old = False  # a gateway in between may want HTTP/1.1, and the next try will show
                # A token may have been renewed since it was read: once more with a fresh one, if there is one.
                if last or reply.status != _UNAUTHORIZED or not await self._access.credentials.refused(proof):
                    wait = reply.headers.get("Retry-After", "")
                    asked = f"{method} {path}"
                    raise refusal(await reply.read(), code=reply.status, asked=asked, retry_after=wait)

    def _lost(self, error: Exception, *, asked: str) -> Unreachable:
        sent = not isinstance(error, _UNSENT)
        if isinstance(error, AccessError):
            return Unreachable(f"{asked}: {error}", sent=sent)
        found = str(error) or type(error).__name__
        advice = "check that the API server runs and that the address is right"
        match error:
            case TimeoutError():
                found = "no answer in time"
            case aiohttp.ClientConnectorCertificateError():
                found, advice = str(error.certificate_error), "set the CA that signed the API server's certificate"
            case aiohttp.ClientConnectorError():
                found = error.os_error.strerror or str(error.os_error)
        return Unreachable(f"{asked} at {self._access.server}: {found}: {advice}", sent=sent)
