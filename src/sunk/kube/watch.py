"""Follow a resource: first everything there is, then every change, for ever.

The problem. A watch by itself is a stream of changes since some resourceVersion, and it breaks all the time: the
server ends it every few minutes, connections die without a word, the version one wanted to resume from is forgotten
(410 Gone). Whoever keeps a copy of the objects must come out of all this with an equal copy, and must hear of
deletions that took place while nobody listened.

The design. One async iterator that never ends by itself, and speaks four words:

- `Changed(object)`: this is how it looks now. Also said of objects that look as before, after a new list.
- `Deleted(object)`: it is gone; this is how it looked last.
- `Synced()`: everything that existed when the (new) list began has been said, and so have the deletions missed.
- `Bookmark()`: nothing new, but the view is as of now. Freshness is the age of the last event of any kind.

The first state comes as a streamed list (`sendInitialEvents`), which costs the server and us far less than a page of
JSON at a time; a server that refuses it gets a paged list instead, from then on. An interrupted stream is resumed
where it stood; if it cannot be, we list anew and say the difference. To say it, the iterator remembers the last record
under each key. These are the very records that a store holds, so this costs a dict and not a second copy.

It is pulled, not pushed: no task, no buffer of our own. A slow consumer makes the server wait, at worst until the
server hangs up, and then the stream is resumed. So no change is lost or overtaken, and memory is bounded. The timer
that notices a dead connection runs only while we wait for bytes, never while the consumer works.

An object that does not fit its record is skipped with a log line, and whatever was known under its key stays: what
cannot be read is not gone.

What was refused: aiohttp's `readline` (ends at 512 KiB; objects may have 3 MB), a queue between reader and consumer
(loses the back-pressure), trust in `timeoutSeconds` alone (a half-open connection outlives it).
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, Generic

import aiohttp
from msgspec import DecodeError, Raw, Struct, json

from sunk.kube.client import EVERYWHERE, PAGE, Client, Scope
from sunk.kube.errors import ApiError, Gone, Invalid, KubeError, Status, Unreadable, from_status
from sunk.kube.resource import Key, R, Record, Resource

log = logging.getLogger(__name__)


class Changed(Struct, Generic[R], frozen=True, gc=False):
    object: R


class Deleted(Struct, Generic[R], frozen=True, gc=False):
    object: R


class Synced(Struct, frozen=True, gc=False):
    pass


class Bookmark(Struct, frozen=True, gc=False):
    pass


Event = Changed[R] | Deleted[R] | Synced | Bookmark


class Pace(Struct, frozen=True):
    """How patient a watch is, in seconds. The server sends a bookmark about once a minute."""

    silence: float = 90.0
    lifetime: float = 420.0
    first_delay: float = 0.2
    longest_delay: float = 10.0


USUAL: Final = Pace()


@asynccontextmanager
async def watch(
    client: Client, resource: Resource[R], scope: Scope = EVERYWHERE, *, pace: Pace = USUAL
) -> AsyncIterator[AsyncIterator[Event[R]]]:
    """Open a watch; leaving the block ends its connection, whatever the reader was doing."""
    async with aclosing(_Watch(client, resource, scope, pace=pace).events()) as events:
        yield events


class _Frame(Struct):
    type: str
    object: Raw


class _Stale(Exception):
    """The stream cannot be resumed: list anew."""


class _Watch(Generic[R]):
    def __init__(self, client: Client, resource: Resource[R], scope: Scope, *, pace: Pace) -> None:
        self._client = client
        self._resource = resource
        self._scope = scope
        self._pace = pace
        self._path = resource.path(scope.namespace)
        self._known: dict[Key, R] = {}
        self._version = ""  # where to resume; empty means: list
        self._streams_lists = True
        self._delay = pace.first_delay

    async def events(self) -> AsyncIterator[Event[R]]:
        while True:
            try:
                async for event in self._round():
                    self._delay = self._pace.first_delay
                    yield event
            except (Gone, _Stale) as error:
                log.info("%s: %s; listing anew", self._path, error)
                self._version = ""
            except KubeError as error:
                await self._back_off(error)

    async def _round(self) -> AsyncIterator[Event[R]]:
        """Do one request's worth: a list, or a stream up to its end."""
        if not self._version and not self._streams_lists:
            async for event in self._paged():
                yield event
            return
        try:
            async for event in self._streamed(listing=not self._version):
                yield event
        except (Invalid, ApiError) as error:
            if self._version or error.status not in _REFUSED:
                raise
            log.info("%s: this server streams no lists (%s); reading pages", self._path, error.message)
            self._streams_lists = False
