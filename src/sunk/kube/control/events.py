"""Tell people what was done to an object, and why, where they look first: `kubectl describe`.

    async with Recorder(client, reporter="shop.example/till") as events:
        events.warn(about(pod, kind="Pod"), "NotReached", "the till did not answer: {why}", action="Count", why=text)

Events are for people and never worth a failed or slow reconcile. So to record one is a plain call that returns at
once, raises nothing and may be forgotten: a task of its own writes them, at a bounded rate, from a bounded memory. What
is dropped is counted.

The same thing said again within `window` is no new Event but one more in the series of the first: same object,
reason, action, type and note, where a note is compared before its `{values}` are put in. A series is written at most
every `calm` seconds, however often it is said. The API lets only the series of an Event change, hence its note stays as
it was said first.
"""

import asyncio
import logging
import secrets
import socket
from collections import OrderedDict
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.api.limits import Bucket
from sunk.kube.api.patch import Merge
from sunk.kube.errors import AlreadyExists, ApiError, KubeError, NotFound, TooManyRequests
from sunk.kube.resource import Record, Resource
from sunk.model import loopclock

log = logging.getLogger(__name__)

EVENTS: Final = Resource(Record, group="events.k8s.io", version="v1", plural="events")
LONGEST_NOTE: Final = 1024
_LONGEST_NAME: Final = 230
_SERVER_TROUBLE: Final = 500


class Reference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The object that an Event is about."""

    kind: str
    name: str
    api_version: str = "v1"
    namespace: str = ""
    uid: str = ""

    @property
    def home(self) -> str:
        """The namespace in which its Events live: those of Nodes and other homeless objects in `default`."""
        return self.namespace or "default"


def about(record: Record, *, kind: str, api_version: str = "v1") -> Reference:
    at = record.metadata
    return Reference(kind=kind, name=at.name, api_version=api_version, namespace=at.namespace, uid=at.uid)


class EventLimits(Struct, frozen=True):
    """How much is said at most; times in seconds, rates in writes a second."""

    window: float = 360.0
    calm: float = 5.0
    remembered: int = 4096
    rate: float = 10.0
    burst: int = 50
    object_rate: float = 0.1
    object_burst: int = 25
    tries: int = 5
    grace: float = 3.0


USUAL: Final = EventLimits()


class RecorderStatistics(Struct, frozen=True):
    """`dropped` were too many for their object, for our memory, or for the API server; `pending` wait to be written."""

    recorded: int
    written: int
    dropped: int
    pending: int


class _Matter(Struct, frozen=True, gc=False):
    """What makes two sayings the same."""

    regarding: Reference
    reason: str
    action: str
    type: str
    note: str


class _Saying(Struct):
    """One Event: as it was first said, how often since, and what of that the API server knows."""

    name: str
    note: str
    began: str
    last: str
    heard_at: float
    count: int = 1
    written: int = 0
    due: float = 0.0
    tries: int = 0


class Recorder:
    """`reporter` is who says it, as a qualified name; `instance` which of them, by default this host."""

    def __init__(self, client: Client, *, reporter: str, instance: str = "", restraint: EventLimits = USUAL) -> None:
        self._client = client
        self._reporter = reporter
        self._instance = (instance or socket.gethostname())[:128]
        self._restraint = restraint
        self._limit = Bucket(restraint.rate, burst=restraint.burst)
        self._sayings: OrderedDict[_Matter, _Saying] = OrderedDict()
        self._unwritten: dict[_Matter, None] = {}
        self._buckets: OrderedDict[Reference, Bucket] = OrderedDict()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._recorded = self._written = self._dropped = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write_for_ever(), name=f"events of {self._reporter}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say what is left to say, for a moment; a server that does not listen must not keep us from ending."""
        assert self._task is not None  # noqa: S101 - for the reader and the type checker
        self._task.cancel()
        await asyncio.wait((self._task,))
        try:
            async with asyncio.timeout(self._restraint.grace):
                for matter in list(self._unwritten):
                    await self._write(matter)
        except TimeoutError:
            log.info("%d events were not written", len(self._unwritten))

    def tell(self, regarding: Reference, reason: str, note: str, *, action: str, **values: object) -> None:
        """Record that something went as it should."""
        self._record(_Matter(regarding=regarding, reason=reason, action=action, type="Normal", note=note), values)

    def warn(self, regarding: Reference, reason: str, note: str, *, action: str, **values: object) -> None:
        """Record something that a person may have to look into."""
        self._record(_Matter(regarding=regarding, reason=reason, action=action, type="Warning", note=note), values)

    def statistics(self) -> RecorderStatistics:
        return RecorderStatistics(
            recorded=self._recorded, written=self._written, dropped=self._dropped, pending=len(self._unwritten)
        )

    # What was said

    def _record(self, matter: _Matter, values: dict[str, object]) -> None:
        self._recorded += 1
        now = loopclock.now()
        known = self._sayings.get(matter)
        if known is not None and now - known.heard_at <= self._restraint.window:
            known.count, known.last, known.heard_at = known.count + 1, _stamp(), now
            self._sayings.move_to_end(matter)
        elif self._room_for(matter):
            self._sayings[matter] = self._begin(matter, values, now=now)
            self._sayings.move_to_end(matter)
        else:
            self._dropped += 1
            return
        self._unwritten[matter] = None
        self._news.set()

    def _begin(self, matter: _Matter, values: dict[str, object], *, now: float) -> _Saying:
        name = f"{matter.regarding.name[:_LONGEST_NAME]}.{secrets.token_hex(8)}"
        return _Saying(name=name, note=fill(matter.note, values), began=_stamp(), last=_stamp(), heard_at=now)

    def _room_for(self, matter: _Matter) -> bool:
        """See that neither this object nor all of them together say too much; what was said long ago is forgotten."""
        if len(self._sayings) >= self._restraint.remembered and matter not in self._sayings:
            oldest = next(iter(self._sayings))
            if oldest in self._unwritten:
                return False
            del self._sayings[oldest]
        return self._bucket(matter.regarding).try_take()

    def _bucket(self, regarding: Reference) -> Bucket:
        if regarding not in self._buckets:
            if len(self._buckets) >= self._restraint.remembered:
                self._buckets.popitem(last=False)
            restraint = self._restraint
            self._buckets[regarding] = Bucket(restraint.object_rate, burst=restraint.object_burst)
        self._buckets.move_to_end(regarding)
        return self._buckets[regarding]

    # Saying it

    async def _write_for_ever(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for matter in list(self._unwritten):
                if self._sayings[matter].due <= loopclock.now():
                    await self._limit.take()
                    await self._write(matter)
            if self._unwritten:
                await self._rest()

    async def _rest(self) -> None:
        """Sleep until the next write is due, or there is something new."""
        due = min(self._sayings[matter].due for matter in self._unwritten)
        try:
            async with asyncio.timeout_at(due):
                await self._news.wait()
        except TimeoutError:
            self._news.set()

    async def _write(self, matter: _Matter) -> None:
        saying = self._sayings[matter]
        count = saying.count
        try:
            await self._send(matter, saying)
        except KubeError as trouble:
            self._failed(matter, saying, trouble)
            return
        except Exception:
            log.exception("event %s about %s: not written: internal error", matter.reason, matter.regarding)
            self._forget(matter)
            return
        self._written += 1
        saying.written, saying.tries, saying.due = count, 0, loopclock.now() + self._restraint.calm
        if saying.count == count:
            del self._unwritten[matter]

    async def _send(self, matter: _Matter, saying: _Saying) -> None:
        if not saying.written:
            await self._create(matter, saying)
        if saying.count > 1:
            series = {"count": saying.count, "lastObservedTime": saying.last}
            await self._client.patch(EVENTS, saying.name, Merge({"series": series}), namespace=matter.regarding.home)

    async def _create(self, matter: _Matter, saying: _Saying) -> None:
        regarding = matter.regarding
        body = {
            "metadata": {"name": saying.name, "namespace": regarding.home},
            "eventTime": saying.began,
            "reportingController": self._reporter,
            "reportingInstance": self._instance,
            "regarding": regarding,
            "reason": matter.reason,
            "action": matter.action,
            "type": matter.type,
            "note": saying.note,
        }
        try:
            await self._client.create(EVENTS, body, namespace=regarding.home)
        except AlreadyExists:
            log.debug("event %s: an earlier attempt succeeded after all", saying.name)
        saying.written = 1

    def _failed(self, matter: _Matter, saying: _Saying, trouble: KubeError) -> None:
        saying.tries += 1
        if isinstance(trouble, NotFound) and saying.written:  # the server forgets Events after an hour
            saying.written = 0
            return
        if not _passing(trouble) or saying.tries >= self._restraint.tries:
            log.warning("event %s about %s was dropped: %s", matter.reason, matter.regarding.name, trouble)
            self._forget(matter)
        else:
            saying.due = loopclock.now() + 2.0 ** min(saying.tries, 5)

    def _forget(self, matter: _Matter) -> None:
        self._dropped += 1
        self._unwritten.pop(matter, None)
        self._sayings.pop(matter, None)


def _passing(trouble: KubeError) -> bool:
    """Tell trouble that may pass from a refusal that would be the same next time."""
    if isinstance(trouble, TooManyRequests):
        return True
    return not isinstance(trouble, ApiError) or trouble.status >= _SERVER_TROUBLE


def fill(note: str, values: dict[str, Any]) -> str:
    """Put values into a note and cut it to what the API takes, which counts bytes."""
    try:
        text = note.format_map(values) if values else note
    except Exception:  # noqa: BLE001 - a note with a mistake in it is better than none, and than a failed reconcile
        text = note
    whole = text.encode()
    if len(whole) <= LONGEST_NOTE:
        return text
    return whole[: LONGEST_NOTE - 3].decode(errors="ignore") + "…"


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
