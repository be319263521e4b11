"""The objects of one resource that somebody cares for: followed by a watch, kept in a store, written through one door.

Whoever writes elsewhere than through this door must tell the store themselves. Here it is done once for all: an answer is
in the store before the writer goes on, and a write without an answer is put in doubt until a read has shown what
became of it.

Some refusals mean that the store is behind: a conflict, an object that exists or does not, against expectation. The
watch would say so in a moment, or in minutes if it hangs. So the object is read at once, and the next try is decided
on what is there.

A proof of freshness. A watch of something that seldom changes may say nothing for hours: the server's bookmarks carry
the version of the last change, and one that would say nothing new is not sent. So age alone does not tell quiet from
dead. Who must know asks: `confirm` reads one object, which takes milliseconds, and `catch_up` a whole list, unless the
watch has spoken lately. That is cheaper than it looks, because what is large is seldom quiet. Both put what they find
into the store, so that a watch that hangs does not keep us from seeing.

What was refused: a second, short watch from where the first one stands, whose last bookmark would be the proof at the
price of a second, for any number of objects. It works only while something else moves the server's history on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from enum import Enum
from typing import Final, Generic

from msgspec import DecodeError, Raw, Struct, json

from sunk.kube.api.client import EVERYWHERE, PLAINLY, Client, Deletion, Listing, Scope
from sunk.kube.api.patch import Body, Patch
from sunk.kube.cache.store import Index, Stale, Store
from sunk.kube.cache.view import Changed, Deleted, Event
from sunk.kube.cache.watch import USUAL, Watch, WatchPace
from sunk.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, NotFound, Unreachable, Unreadable
from sunk.kube.resource import Key, R, Resource
from sunk.kube.tasks import forever

log = logging.getLogger(__name__)

_SERVER_FAULT: Final = 500
_SETTLE_PAUSE: Final = 1.0
_SLICE: Final = 500
_PATIENCE: Final = 10.0


class _Details(Struct, frozen=True):
    uid: str = ""


class _Status(Struct, frozen=True):
    """How the server answers a delete that took effect at once."""

    kind: str = ""
    details: _Details = _Details()


_status = json.Decoder(_Status)


class Fit(Enum):
    """Whether a record belongs into a collection, where no selector of the server could tell."""

    YES = "yes"
    NO = "no"
    NOT_YET = "not yet"


YES: Final = Fit.YES
NOT_YET: Final = Fit.NOT_YET
Fits = Callable[[R], Fit]


class Collection(Generic[R]):
    def __init__(  # noqa: PLR0913 - one keyword per trait
        self,
        client: Client,
        resource: Resource[R],
        scope: Scope = EVERYWHERE,
        *,
        indexes: Mapping[str, Index[R]] | None = None,
        pace: WatchPace = USUAL,
        fits: Fits[R] | None = None,
    ) -> None:
        self.store: Final[Store[R]] = Store(resource.path(scope.namespace), indexes=indexes)
        self._client = client
        self._resource = resource
        self._scope = scope
        self._fits = fits
        self._aside: dict[Key, R] = {}
        """What does not fit by now, and may later."""
        self.watch: Final[Watch[R]] = Watch(client, resource, scope, pace=pace)

    async def run(self) -> None:
        """Keep the store true, for ever. To be run once: the watch remembers what it has said, and to whom."""
        async with asyncio.TaskGroup() as group:
            for duty, name in ((self._follow(), "follow"), (self._settle(), "settle")):
                named = f"{name} {self.store.name}"
                group.create_task(forever(duty, name=named), name=named)

    async def _follow(self) -> None:
        async with aclosing(self.watch.gulps()) as gulps:
            async for events in gulps:
                chosen = events if self._fits is None else tuple(self._chosen(events))
                self.store.take(*chosen, version=self.watch.version)

    def _chosen(self, events: Iterable[Event[R]]) -> Iterator[Event[R]]:
        """Leave out what does not fit. What did and no longer does is gone from here."""
        for event in events:
            if isinstance(event, Changed) and not self._fit(event.object):
                if event.object.key in self.store:
                    yield Deleted(event.object)
                continue
            if isinstance(event, Deleted):
                self._aside.pop(event.object.key, None)
            yield event

    def _fit(self, record: R) -> bool:
        """Whether a record belongs here. One that may later is put aside."""
        fits = YES if self._fits is None else self._fits(record)
        self._aside.pop(record.key, None)
        if fits is NOT_YET:
            self._aside[record.key] = record
        return fits is YES

    def reconsider(self) -> None:
        """Hear that what was put aside may fit now."""
        for record in tuple(self._aside.values()):
            if self._fit(record):
                self.store.take(Changed(record), version="")

    async def _settle(self) -> None:
        while True:
            await self.store.uncertain()
            for key in self.store.doubts:
                try:
                    await self.confirm(key)
                except KubeError as trouble:
                    log.warning("%s: the outcome of a write to %s is still unknown: %s", self.store.name, key, trouble)
                    await asyncio.sleep(_SETTLE_PAUSE)

    # Reading what is there now

    async def confirm(self, key: Key) -> R | None:
        """Read one object as it is now. Whatever is decided next is decided on this, since the store has it too."""
        doubt = self.store.doubt_of(key)
        try:
            listing = await self._client.list(self._resource, self._only(key))
        except Unreadable:  # it is there, and to read it again would show no more: this much is certain
            self.store.settle(key, doubt)
            raise
        found = [record for record in listing.items if self._fit(record)]
        for record in found:
            self.store.answered(record)
        if not found:
            self.store.absent(key, version=int(listing.resource_version))
        self.store.settle(key, doubt)
        return found[0] if found else None

    def _only(self, key: Key) -> Scope:
        """Select one object as a list, since that has a version also where there is nothing, and keeps the selection."""
        fields = ",".join(filter(None, (self._scope.fields, f"metadata.name={key.name}")))
        return Scope(namespace=key.namespace, labels=self._scope.labels, fields=fields)

    async def catch_up(self, *, within: float = 0.0) -> None:
        """Have the store proven to be no older than `within` seconds, or else raise Stale."""
        if self.store.age <= within:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.store.complete()
                listing = await self._client.list(self._resource, self._scope)
        except (KubeError, TimeoutError) as trouble:
            reason = str(trouble) or f"nothing was read within {_PATIENCE:.0f} s"
            raise Stale(f"{self.store.name}: freshness was not proven: {reason}") from trouble
        await self._compare(listing)

    async def _compare(self, listing: Listing[R]) -> None:
        version = int(listing.resource_version)
        items = tuple(record for record in listing.items if self._fit(record)) if self._fits else listing.items
        for some in _slices(items):
            for record in some:
                self.store.answered(record)
            await asyncio.sleep(0)
        found = {record.key for record in items}
        for some in _slices(self.store.all()):
            for record in some:
                if record.key not in found:
                    self.store.absent(record.key, version=version)
            await asyncio.sleep(0)
        self.store.surveyed(version)

    # Writing

    async def create(self, key: Key, body: Body | Raw) -> R:
        """Create an object under a name known beforehand.

        One that the server invents could not be looked up after a lost answer, and would be created twice.
        """
        async with self._writing(key):
            return self._keep(await self._client.create(self._resource, body, namespace=key.namespace))

    async def patch(self, key: Key, patch: Patch, *, status: bool = False) -> R:
        subresource = "status" if status else ""
        async with self._writing(key):
            return self._keep(
                await self._client.patch(
                    self._resource, key.name, patch, namespace=key.namespace, subresource=subresource
                )
            )

    async def replace(self, key: Key, body: Body | Raw, *, status: bool = False) -> R:
        subresource = "status" if status else ""
        async with self._writing(key):
            return self._keep(
                await self._client.replace(
                    self._resource, key.name, body, namespace=key.namespace, subresource=subresource
                )
            )

    async def delete(self, key: Key, how: Deletion = PLAINLY) -> None:
        """Ask for the end of an object. Where that takes its time, the store has it as being deleted."""
        async with self._writing(key):
            answer = await self._client.delete(self._resource, key.name, how, namespace=key.namespace)
        uid = _gone_for_good(answer)
        if uid:
            self.store.deleted(key, uid=uid)
        else:
            # The object itself was the answer: it is on its way out, or was returned as its own last picture.
            await self._look_again(key)

    async def post(self, key: Key, body: Body | Raw, *, subresource: str) -> None:
        """Write to a subresource that does not answer with the object: binding, eviction."""
        async with self._writing(key):
            await self._client.post(self._resource.path(key.namespace, key.name, subresource=subresource), body)
        await self._look_again(key)

    def _keep(self, record: R) -> R:
        if self._fit(record):
            self.store.answered(record)
        return record

    @asynccontextmanager
    async def _writing(self, key: Key) -> AsyncIterator[None]:
        try:
            yield
        except (Unreachable, Unreadable, asyncio.CancelledError):
            # Also where nothing was sent: that is said of the last try only, and a lost one may have gone before.
            self.store.doubt(key)
            raise
        except (Conflict, AlreadyExists, NotFound):
            await self._look_again(key)
            raise
        except ApiError as refused:
            if refused.status >= _SERVER_FAULT:  # the server gave up waiting for its database, which may have done it
                self.store.doubt(key)
            raise

    async def _look_again(self, key: Key) -> None:
        with suppress(KubeError):
            await self.confirm(key)


def _slices(records: Sequence[R]) -> Iterator[Sequence[R]]:
    """Cut a long work into parts that do not hold up the loop."""
    return (records[start : start + _SLICE] for start in range(0, len(records), _SLICE))


def _gone_for_good(answer: bytes) -> str:
    """The uid of an object that a delete has ended at once; empty if the answer says less than that."""
    try:
        status = _status.decode(answer)
    except DecodeError:
        return ""
    return status.details.uid if status.kind == "Status" else ""
