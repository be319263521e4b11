"""From a request to its answer: what is asked of a call before its hook is.

In this order; the first that fails is the answer. The cheap comes first, and nothing of a body is kept for somebody who
may not call.

| asked | if not |
| --- | --- |
| is the process going to stay? | 503 |
| are there fewer calls than `most`? | 503 |
| is the token good? | 401; 503 if nobody could say |
| is there such a hook, and is it called by this method? | 404, 405 |
| has this Pod fewer calls than `most_of_pod`? | 429 |
| does the caller speak for this node? | what `admit` answers: 403, or 404 if the Pod is not known yet |
| is the body small, and here in time? | 413, 400 |
| the hook | what it answers; 500 if it raised something, 503 if it took longer than `longest` |
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

from sunk.model.faults import survived
from sunk.service.hooks import answers
from sunk.service.hooks.answers import Admit, Hook, HookAnswer, HookCall
from sunk.service.hooks.connections import Connection
from sunk.service.hooks.tokens import Caller, TokenVerifier, Unverifiable

_PATH: Final = re.compile(r"/v1/nodes/([A-Za-z0-9][A-Za-z0-9.-]{0,252})/([a-z][a-z0-9-]{0,62})", re.ASCII)
_HEADERS: Final = {"Server": "sunk", "Cache-Control": "no-store"}


class CallLimits(Struct, frozen=True):
    """Times are in seconds: `patience` is for the body, `longest` for the hook."""

    most: int
    most_of_pod: int
    patience: float
    longest: float


class Calls:
    """All calls of one server. `reads` names the hooks that are called by GET."""

    def __init__(
        self,
        hooks: Mapping[str, Hook],
        *,
        verifier: TokenVerifier,
        admit: Admit,
        reads: frozenset[str],
        limits: CallLimits,
    ) -> None:
        self._hooks = hooks
        self._verifier = verifier
        self._admit = admit
        self._reads = reads
        self._limits = limits
        self._tasks: dict[asyncio.Task[Any], str] = {}
        """Of the calls in progress, and the hook that each of them calls."""
        self._told_to_stop: set[asyncio.Task[Any]] = set()
        """Those that were cancelled because we stop, and not because their caller hung up."""
        self._by_pod: Counter[str] = Counter()
        self._stopping = False
        self.answers: Final[Counter[tuple[str, int]]] = Counter()
        """Given so far, by hook and status."""

    def in_progress(self) -> dict[str, int]:
        """By hook. Calls of no hook that there is have an empty name."""
        return dict.fromkeys(self._hooks, 0) | Counter(self._tasks.values())

    def stop(self) -> None:
        """Answer 503 to all calls, now and from now on."""
        self._stopping = True
        for task in self._tasks:
            self._told_to_stop.add(task)
            task.cancel()

    async def ended(self, *, within: float) -> None:
        """Wait until all calls are over, but not for ever."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=within)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer, whatever happens, unless the caller has hung up."""
        node, name = self._route(request.path)
        answer, body = answers.BROKEN, msgspec.json.encode(answers.BROKEN.body)
        with survived(f"hook server: {name or 'call'}"):
            found = await self._answer(request, node=node, name=name)
            answer, body = found, msgspec.json.encode(found.body)
        self.answers[name, answer.status] += 1
        response = web.Response(body=body, status=answer.status, content_type="application/json", headers=_HEADERS)
        response.force_close()
        return response

    def _route(self, path: str) -> tuple[str, str]:
        """Node and hook; both empty if there is no such hook."""
        found = _PATH.fullmatch(path)
        return (found[1], found[2]) if found and found[2] in self._hooks else ("", "")

    async def _answer(self, request: web.BaseRequest, *, node: str, name: str) -> HookAnswer:
        if self._stopping or len(self._tasks) >= self._limits.most:
            return answers.STOPPING if self._stopping else answers.FULL
        with self._counted(name) as task:
            try:
                caller = await self._verifier.verify(_token(request))
                return await self._identified(request, caller, node=node, name=name) if caller else answers.NO_TOKEN
            except Unverifiable:
                return answers.UNVERIFIED
            except asyncio.CancelledError:
                if task not in self._told_to_stop:
                    self.answers[name, answers.HUNG_UP] += 1
                    raise
                task.uncancel()
                return answers.STOPPING

    @contextmanager
    def _counted(self, name: str) -> Iterator[asyncio.Task[Any]]:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("aiohttp runs each handler in a task")
        self._tasks[task] = name
        try:
            yield task
        finally:
            del self._tasks[task]
            self._told_to_stop.discard(task)

    async def _identified(self, request: web.BaseRequest, caller: Caller, *, node: str, name: str) -> HookAnswer:
        connection = _connection(request)
        connection.known()
        if not name:
            return answers.NO_HOOK
        method = "GET" if name in self._reads else "POST"
        if request.method != method:
            return answers.wrong_method(name, method=method)
        if self._by_pod[caller.uid] >= self._limits.most_of_pod:
            return answers.TOO_MANY
        with self._one_of(caller):
            refused = self._admit(caller, node)
            body = refused or await self._body(request)
            if isinstance(body, HookAnswer):
                return body
            connection.stop_listening()
            return await self._hook(self._hooks[name], HookCall(caller=caller, node=node, body=body))

    @contextmanager
    def _one_of(self, caller: Caller) -> Iterator[None]:
        self._by_pod[caller.uid] += 1
        try:
            yield
        finally:
            self._by_pod[caller.uid] -= 1
            if not self._by_pod[caller.uid]:
                del self._by_pod[caller.uid]

    async def _body(self, request: web.BaseRequest) -> bytes | HookAnswer:
        if (request.content_length or 0) > answers.MOST_BODY:
            return answers.TOO_LARGE
        body = b""
        try:
            async with asyncio.timeout(self._limits.patience):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > answers.MOST_BODY:
                        return answers.TOO_LARGE
        except (TimeoutError, web.RequestPayloadError):
            return answers.NO_BODY
        return body

    async def _hook(self, hook: Hook, call: HookCall) -> HookAnswer:
        limit = asyncio.timeout(self._limits.longest)
        try:
            async with limit:
                return await hook(call)
        except TimeoutError:
            if not limit.expired():
                raise  # the hook's own, which it should have seen to
            return answers.TOO_LONG


def _token(request: web.BaseRequest) -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _connection(request: web.BaseRequest) -> Connection:
    found = request.protocol
    if not isinstance(found, Connection):
        raise TypeError(f"a call came over {found!r}: only Connections makes them")
    return found
