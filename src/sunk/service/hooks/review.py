"""Ask the API server itself whose token it is: the way that is left where its keys cannot be had or do not do.

It costs a request for each token, in the very moment in which a thousand prologs start and their locks have to be
written. So this is bounded in number, rate and time, and who finds no room is told to try again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.api.limits import Bucket
from sunk.kube.errors import KubeError
from sunk.kube.resource import Record, Resource
from sunk.model.faults import words
from sunk.service.hooks.claims import Caller, Unverifiable, User, bearer

RATE: Final = 20.0
"""Reviews a second, in the long run."""
BURST: Final = 40
AT_ONCE: Final = 8
PATIENCE: Final = 5.0
"""Seconds that a caller waits for its turn and the answer."""


class _Status(Struct, frozen=True, gc=False):
    authenticated: bool = False
    audiences: tuple[str, ...] = ()
    user: User = User()


class _TokenReview(Record, frozen=True, gc=False):
    status: _Status = _Status()


_REVIEWS: Final = Resource(
    _TokenReview, group="authentication.k8s.io", version="v1", plural="tokenreviews", namespaced=False
)


async def review(token: str, *, client: Client, audience: str) -> Caller | None:
    """Have one token reviewed."""
    spec = {"token": token, "audiences": [audience]}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": spec}
    status = (await client.create(_REVIEWS, body)).status
    # A server that names no audience has not looked at it: by its own rules that is no yes.
    return bearer(status.user) if status.authenticated and audience in status.audiences else None


class Reviews:
    """Reviews by `ask`, within bounds."""

    def __init__(self, ask: Callable[[str], Awaitable[Caller | None]]) -> None:
        self._ask = ask
        self._limit = Bucket(RATE, burst=BURST)
        self._room = asyncio.Semaphore(AT_ONCE)

    async def caller(self, token: str) -> Caller | None:
        """The Pod that bears this token, if the API server says so. Raises Unverifiable if it says nothing."""
        if self._limit.statistics().waiting >= RATE * PATIENCE:
            raise Unverifiable("too many tokens wait for a TokenReview")
        try:
            async with asyncio.timeout(PATIENCE):
                await self._limit.take()
                async with self._room:
                    return await self._ask(token)
        except TimeoutError:
            raise Unverifiable("no TokenReview in time") from None
        except KubeError as error:
            raise Unverifiable(f"no TokenReview: {words(error)}") from error
