"""The keys that the API server signs tokens with, as it publishes them, kept fresh.

They are read at the start and every few minutes, because keys rotate, and at once when a token names one that is not
known. A flood of tokens with invented keys is no flood of requests: between two reads there is a pause, and all that
come meanwhile share the next one. Reading is a task of its own and belongs to no caller, so that a caller who hangs up
takes nothing away from others.

What was read last is kept if the server does not answer: without the server nothing else goes on either.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Never

import msgspec
from jwt import PyJWK, PyJWTError
from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.errors import KubeError
from sunk.model import loopclock
from sunk.model.faults import words
from sunk.service.hooks.claims import ALGORITHMS

log = logging.getLogger(__name__)

CONFIGURATION: Final = "/.well-known/openid-configuration"
KEYS: Final = "/openid/v1/jwks"
_MEDIA: Final = "application/jwk-set+json"
PERIOD: Final = 300.0
RETRY: Final = 15.0
"""Seconds to the next try after one that failed, if nobody asks before."""
PAUSE: Final = 5.0
"""Seconds that pass at least between two reads, whatever tokens say."""
PATIENCE: Final = 5.0


class Published(Struct, frozen=True):
    """What the API server says of its tokens: in whose name they are issued, and the keys by their ids."""

    issuer: str = ""
    keys: Mapping[str, PyJWK] = {}


class _Configuration(Struct, frozen=True):
    issuer: str


class _KeySet(Struct, frozen=True):
    keys: tuple[dict[str, Any], ...]


async def published(client: Client) -> Published:
    configuration = msgspec.json.decode(await client.read(CONFIGURATION), type=_Configuration)
    found = msgspec.json.decode(await client.read(KEYS, accept=_MEDIA), type=_KeySet)
    return Published(issuer=configuration.issuer, keys=usable(found.keys))


def usable(keys: Iterable[dict[str, Any]]) -> dict[str, PyJWK]:
    """Those keys that can verify what an API server signs, by id."""
    found: dict[str, PyJWK] = {}
    for each in keys:
        with suppress(PyJWTError, ValueError, TypeError):
            key = PyJWK(each)
            asymmetric = key.algorithm_name in ALGORITHMS and key.public_key_use in {None, "sig"}
            if asymmetric and isinstance(key.key_id, str) and key.key_id:
                found[key.key_id] = key
    return found


class SigningKeys:
    def __init__(self, read: Callable[[], Awaitable[Published]]) -> None:
        self._read = read
        self._published = Published()
        self._trouble = ""
        self._wanted = asyncio.Event()
        self._attempt = asyncio.Event()
        """Set when the attempt that comes next, or is under way, is over."""
        self._tried = float("-inf")

    @property
    def issuer(self) -> str:
        return self._published.issuer

    def get(self, key_id: str) -> PyJWK | None:
        return self._published.keys.get(key_id)

    async def run(self) -> Never:
        while True:
            self._wanted.clear()
            await self._try()
            await asyncio.sleep(PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout((RETRY if self._trouble else PERIOD) - PAUSE):
                    await self._wanted.wait()

    async def refresh(self) -> None:
        """Have the keys read and wait for that, unless it was tried a moment ago. Never raises."""
        if loopclock.now() < self._tried + PAUSE:
            return
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._attempt.wait()

    async def _try(self) -> None:
        trouble = ""
        try:
            async with asyncio.timeout(PATIENCE):
                self._published = await self._read()
        except (KubeError, msgspec.MsgspecError, TimeoutError, RecursionError) as error:
            trouble = words(error)
        else:
            trouble = "" if self._published.keys else "it publishes no key that tokens can be checked by"
        finally:
            self._tried = loopclock.now()
            self._attempt.set()
            self._attempt = asyncio.Event()
        self._say(trouble)

    def _say(self, trouble: str) -> None:
        if trouble and not self._trouble:
            log.warning("keys of the API server: %s. Tokens with unknown keys are checked by TokenReview", trouble)
        elif self._trouble and not trouble:
            log.info("keys of the API server: read again")
        self._trouble = trouble
