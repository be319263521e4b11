"""Follow a resource: first everything there is, then every change, for ever.

The problem. A watch by itself is a stream of changes since some resourceVersion, and it breaks all the time: the
server ends it every few minutes, connections die without a word, the version one wanted to resume from is forgotten
(410 Gone). Whoever keeps a copy of the objects must come out of all this with an equal copy, and must hear of
deletions that took place while nobody listened.

The design. One async iterator that never ends by itself and speaks four words: `Changed`, `Deleted`, `Synced`,
`Bookmark` (see `sunk.kube.cache.view`). The first state comes as a streamed list (`sendInitialEvents`), which is far cheaper
for the server and for us than whole pages; a server that does not know it gets a paged list instead, from then on. An
interrupted stream is resumed where it stood; where it cannot be, we list again and say the difference. To say it, the
iterator remembers the last record under each key. These are the very records that a store holds, so this costs a dict
and not a second copy.

It is pulled, not pushed: no task, and no buffer but what one read gave, which is decoded in one go (`gulps`). A slow
consumer makes the server wait, at worst until the server hangs up, and then the stream is resumed. So no change is lost
or overtaken, and memory is bounded. The timer that notices a dead connection runs only while we wait for bytes, never
while the consumer works.

An object that does not fit its record is skipped with a log line, and whatever was known under its key stays: what
cannot be read is not gone. The same trouble is said once and not at every try; a resource that does not exist (its CRD
is missing) or that we may not read is tried at a slow pace, for somebody may mend that.

What was refused: aiohttp's `readline` (ends at 512 KiB; an object may have 3 MB), a queue between reader and consumer
(it loses the back-pressure), trust in `timeoutSeconds` alone (a half-open connection outlives it).
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Final, Generic

from msgspec import DecodeError, Raw, Struct, json

from sunk.kube.api.allowance import Allowance
from sunk.kube.api.client import EVERYWHERE, PAGE, Client, Scope
from sunk.kube.api.stream import Frame, Line, Lines, Stream, bare, ends_initial_list, error, frame, lean
from sunk.kube.cache.view import Bookmark, Event, View
from sunk.kube.errors import ApiError, Forbidden, Gone, KubeError, NotFound, TooManyRequests, Unreachable, Unreadable
from sunk.kube.resource import Key, R, Record, Resource
from sunk.model import loopclock
from sunk.model.backoff import BackOff

log = logging.getLogger(__name__)

_NO_STREAMED_LISTS: Final = (400, 422)
_SHORTEST_LIFE: Final = 1.0


class WatchPace(Struct, frozen=True):
    """How patient a watch is, in seconds. The server sends a bookmark about once a minute."""

    silence: float = 90.0
    listing: float = 60.0
    lifetime: float = 420.0
    first_delay: float = 0.2
    longest_delay: float = 10.0
    refused_delay: float = 30.0


USUAL: Final = WatchPace()


class WatchStatistics(Struct, frozen=True):
    """Counts since the start, and the seconds since the last word (or the start)."""

    events: int
    streams: int
    lists: int
    failures: int
    skipped: int
    silence: float


@asynccontextmanager
async def watch(
    client: Client, resource: Resource[R], scope: Scope = EVERYWHERE, *, pace: WatchPace = USUAL
) -> AsyncIterator[AsyncIterator[Event[R]]]:
    """Open a watch; leaving the block ends its connection, whatever its reader was doing."""
    async with aclosing(Watch(client, resource, scope, pace=pace).events()) as events:
        yield events


class _NoStreamedList(KubeError):  # noqa: N818 - named as in sunk.kube.errors
    """The server does not stream lists, or does not say where one ends."""


class Watch(Generic[R]):
    """One watch and all it remembers. Most callers want `watch`, which also closes it."""

    def __init__(self, client: Client, resource: Resource[R], scope: Scope, *, pace: WatchPace) -> None:
        self._client = client
        self._resource = resource
        self._scope = scope
        self._pace = pace
        self._path = resource.path(scope.namespace)
        self._view: View[R] = View()
        self.version = ""
        """Where an interrupted stream is resumed; empty means nowhere, so that a list comes first."""
        self._streams_lists = True
        self._listed_by = 0.0
        self._failed_in_a_row = 0
        self._trouble = ""
        self._allowance = Allowance()
        self._line = json.Decoder(Line[resource.record])  # type: ignore[name-defined]
        self._odd: set[Key] = set()
        self._heard: float | None = None
        self._events = self._streams = self._lists = self._failures = self._skipped = 0

    def statistics(self) -> WatchStatistics:
        now = loopclock.now()
        return WatchStatistics(
            events=self._events,
            streams=self._streams,
            lists=self._lists,
            failures=self._failures,
            skipped=self._skipped,
            silence=float("inf") if self._heard is None else now - self._heard,
        )

    async def events(self) -> AsyncGenerator[Event[R]]:
        async with aclosing(self.gulps()) as gulps:
            async for events in gulps:
                for event in events:
                    yield event

    async def gulps(self) -> AsyncGenerator[Sequence[Event[R]]]:
        """Give what was read together as one. `version` is then as of the last event of it."""
        while True:
            try:
                async with aclosing(self._round()) as heard:
                    async for events in heard:
                        if events:
                            self._well(len(events))
                            yield events
            except _NoStreamedList as refused:
                log.info("%s: %s; listing in pages from now on", self._path, refused)
                self._streams_lists = False
            except Gone as gone:
                log.info("%s: listing again: %s", self._path, gone.message)
                self.version = ""
            except KubeError as trouble:
                await self._back_off(trouble)

    def _round(self) -> AsyncGenerator[Sequence[Event[R]]]:
        """Do one request's worth: a list, a stream up to its end, or a stream that begins with a list."""
        if not self.version:
            self._view.begin()
            self._lists += 1
            self._listed_by = loopclock.now() + self._pace.listing
            if not self._streams_lists:
                return self._paged()
        return self._streamed()

    async def _paged(self) -> AsyncGenerator[Sequence[Event[R]]]:
        version, limit = "", PAGE
        while not version:
            try:
                async for page in self._client.pages(self._resource, self._scope, limit=limit):
                    yield tuple(chain.from_iterable(map(self._change, page.items or ())))
                    version = page.metadata.resource_version
            except Gone:  # the list grew too old between two pages; without pages it cannot
                if not limit:
                    raise
                version, limit = "", 0
        self.version = version
        yield tuple(self._view.end())

    async def _streamed(self) -> AsyncGenerator[Sequence[Event[R]]]:
        clock = asyncio.get_running_loop().time
        opened = clock()
        async with self._open() as stream:
            lines = Lines()
            while chunk := await self._read(stream):
                if self.version:  # a first list is wanted at once
                    stream.gather(len(chunk))
                for events in self._hear(lines.feed(chunk)):
                    yield events
        if not self.version or clock() - opened < _SHORTEST_LIFE:
            # A stream that ends before it began would otherwise be opened again at once, and again.
            raise Unreachable(f"GET {self._path}: the server ended the watch right after its start")

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Stream]:
        seconds = round(self._pace.lifetime * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
        query = self._scope.query() | {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        if self.version:
            query |= {"resourceVersion": self.version}
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            async with self._client.stream(self._path, query) as stream:
                self._streams += 1
                yield stream
        except ApiError as refused:
            if self.version or refused.status not in _NO_STREAMED_LISTS:
                raise
            raise _NoStreamedList(refused.message) from refused

    async def _read(self, stream: Stream) -> bytes:
        limit = self._pace.silence if self.version else self._listed_by - loopclock.now()
        try:
            return await self._allowance.within(limit, stream.readany())
        except TimeoutError:
            if self.version:
                # Not alarming: there are no bookmarks either for a resource of which the server holds no object.
                log.info("%s: silent for %.0f s; reconnecting", self._path, limit)
                return b""
            raise _NoStreamedList(f"no end of the streamed list within {self._pace.listing:.0f} s") from None

    def _hear(self, lines: bytes) -> Iterator[Sequence[Event[R]]]:
        """Take all lines in one go if they are what nearly all are; else one after the other, piece by piece."""
        usual = self._decoded(lines)
        if usual is None:
            for line in filter(None, lines.split(b"\n")):
                yield tuple(self._take(frame(line)))
        elif usual:
            self._advance(usual[-1].object)
            yield tuple(chain.from_iterable(map(self._usual, usual)))

    def _decoded(self, lines: bytes) -> list[Line[R]] | None:
        if self._odd:
            return None
        try:
            return self._line.decode_lines(lean(lines))
        except (DecodeError, RecursionError):
            return None

    def _usual(self, line: Line[R]) -> Iterable[Event[R]]:
        return self._view.delete(line.object) if line.type == "DELETED" else self._view.change(line.object)

    def _take(self, frame: Frame) -> Iterator[Event[R]]:
        match frame.type:
            case "BOOKMARK":
                yield from self._bookmark(frame.object)
            case "DELETED":
                yield from self._deletion(frame.object)
            case "ERROR":
                self.version = ""  # whatever it is, resuming at the same place would meet it again
                raise error(frame.object, asked=f"WATCH {self._path}")
            case _:
                yield from self._change(frame.object)

    def _bookmark(self, item: Raw) -> Iterator[Event[R]]:
        mark = bare(item)
        if mark is None:
            return
        if not self.version and ends_initial_list(mark):
            self.version = mark.metadata.resource_version
            yield from self._view.end()
        elif self.version:
            self._advance(mark)
            yield Bookmark()

    def _change(self, item: Raw) -> Iterator[Event[R]]:
        record = self._decode(item)
        if record is not None:
            self._advance(record)
            yield from self._view.change(record)
        elif (odd := bare(item)) is not None:
            self._advance(odd)
            self._view.keep(odd.key)

    def _deletion(self, item: Raw) -> Iterator[Event[R]]:
        record = self._decode(item)
        if record is not None:
            self._advance(record)
            yield from self._view.delete(record)
        elif (odd := bare(item)) is not None:
            self._advance(odd)
            yield from self._view.drop(odd.key)

    def _advance(self, record: Record) -> None:
        # During a streamed list objects come in no order of versions: only its end says where to resume.
        if self.version:
            self.version = record.metadata.resource_version

    def _decode(self, item: Raw) -> R | None:
        try:
            record = self._client.decode(self._resource, item)
        except Unreadable as odd:
            self._skip(bare(item), odd)
            return None
        if self._odd:
            self._odd.discard(record.key)
        return record

    def _skip(self, named: Record | None, odd: Unreadable) -> None:
        self._skipped += 1
        key = named.key if named else Key("", "an object without a name")
        if key not in self._odd:
            self._odd.add(key)
            log.error("%s: skipped %s: %s", self._path, key, odd)

    def _well(self, events: int) -> None:
        self._events += events
        self._heard = loopclock.now()
        self._failed_in_a_row = 0
        self._trouble = ""

    async def _back_off(self, trouble: KubeError) -> None:
        self._failures += 1
        self._failed_in_a_row += 1
        refused = isinstance(trouble, (NotFound, Forbidden))
        longest = self._pace.refused_delay if refused else self._pace.longest_delay
        wait = BackOff(self._pace.first_delay, longest).jittered(self._failed_in_a_row)
        if isinstance(trouble, TooManyRequests):
            wait = max(wait, trouble.retry_after)
        level = logging.DEBUG if str(trouble) == self._trouble else logging.WARNING
        log.log(level, "%s%s; watching again in %.1f s", trouble, _advice(trouble), wait)
        self._trouble = str(trouble)
        await asyncio.sleep(wait)


def _advice(trouble: KubeError) -> str:
    match trouble:
        case NotFound():
            return ": install its CustomResourceDefinition"
        case Forbidden():
            return ": grant the right to list and watch it"
    return ""
