"""What is known of a collection: the newest record under each key, how fresh that is, and never older than our own acts.

The problem. A watch tells the truth, but late. Whoever has just written an object would decide next on a copy from
before the write, and do it twice. A watch may also hang without an error, and what was true minutes ago then looks
like now. Both end in acts that nobody can take back.

The design. Versions of one resource are integers that only grow, across all its objects. So there is one rule for
everything that comes in, be it an event or an answer to a request: under each key the higher version stays. What that
rule cannot know by itself is written down beside the records until the watch has come past it:

- an *assumed* record came by an answer, and the watch has not said it yet. If the watch comes past its version without
  a word, the object is gone again, or was never in the watched selection;
- a *tombstone* stands where a request has shown that there is nothing; older events do not bring it back;
- a *doubt* stands where a write got no answer. `certain` waits until a read has shown what became of it.

`version` is how far the watch has come: all changes up to there are in here. A list has no order, so while one is
read the version stands still, and so does the freshness.

What was refused: expectations (counts of creations still to be seen, as in client-go), which say that something is
missing but not what, and must be given up by a timer when they are wrong; and bare assumption of what a write will do,
which is wrong whenever a webhook or another writer has a say.

There is no I/O in here. `sunk.kube.cache.collection` feeds it.

Records are also found by what they say: `Buckets` holds the keys under each value of an index.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic

from msgspec import Struct

from sunk.kube.cache.view import Changed, Deleted, Event, Synced
from sunk.kube.errors import KubeError
from sunk.kube.resource import Key, R, Record
from sunk.model import loopclock

Index = Callable[[R], Iterable[str]]
"""Under which values of an index a record is found; none is fine."""


class Buckets(Generic[R]):
    """The keys under each value.

    Most values of most indexes have one key only: that stands by itself, since a container for each of 50,000 would
    cost more than the keys, and the cyclic collector would have to walk through all of them.
    """

    def __init__(self, values: Index[R]) -> None:
        self._values = values
        self._keys: dict[str, Key | dict[Key, None]] = {}

    def keys(self, value: str) -> Iterator[Key]:
        found = self._keys.get(value)
        return iter(()) if found is None else iter((found,) if isinstance(found, Key) else found)

    def move(self, key: Key, before: R | None, after: R | None) -> None:
        old = () if before is None else tuple(self._values(before))
        new = () if after is None else tuple(self._values(after))
        if old != new:
            for value in old:
                self._remove(value, key)
            for value in new:
                self._add(value, key)

    def _add(self, value: str, key: Key) -> None:
        found = self._keys.setdefault(value, key)
        if isinstance(found, dict):
            found[key] = None
        elif found != key:
            self._keys[value] = {found: None, key: None}

    def _remove(self, value: str, key: Key) -> None:
        found = self._keys.get(value, {})
        if isinstance(found, dict):
            found.pop(key, None)
        if not found or found == key:
            self._keys.pop(value, None)


Subscriber = Callable[[Key, R | None, R | None], None]
"""Called with the key, the record before and the record after; where their uids differ, another took the name."""

MOST_TOMBSTONES: Final = 10_000
TOMBSTONE_LIFE: Final = 120.0


class Stale(KubeError):  # noqa: N818 - named as in sunk.kube.errors
    """What is known is too old to act upon. Nothing is wrong with the act; it has to wait."""


class Rewound(KubeError):  # noqa: N818 - as above
    """The server's history went back, as after a restored backup: nothing that was ever read is true any more.

    No store can heal from this alone, since everything decided on it is void too. It ends the process, which begins
    again from what there is.
    """


class _Tombstone(Struct, frozen=True, gc=False):
    """Nothing is here: not the object with this uid, nor anything up to this version."""

    uid: str
    version: int
    since: float


def number(record: Record) -> int:
    """Give the version of a record as what it is: a number that grows with every write to the resource."""
    text = record.metadata.resource_version
    return int(text) if text else 0


class Store(Generic[R]):
    """Records by key and by index, for any number of readers and one feeder. `name` is for messages."""

    def __init__(self, name: str, *, indexes: Mapping[str, Index[R]] | None = None) -> None:
        self.name: Final = name
        self.version = 0
        """Every change up to this version is in here."""
        self.synced = False
        """Whether a first list has been read to its end."""
        self._heard = 0.0
        self._watched = 0
        self._floor = 0
        self._records: dict[Key, R] = {}
        self._indexes = {each: Buckets(values) for each, values in (indexes or {}).items()}
        self._subscribers: list[Subscriber[R]] = []
        self._assumed: dict[Key, int] = {}
        self._tombstones: OrderedDict[Key, _Tombstone] = OrderedDict()  # a dict is slow to lose its first
        self._doubts: dict[Key, object] = {}
        self._doubted = asyncio.Event()
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    # What is known

    def get(self, key: Key) -> R | None:
        return self._records.get(key)

    def all(self) -> tuple[R, ...]:
        return tuple(self._records.values())

    def by(self, index: str, value: str) -> tuple[R, ...]:
        """Give the records under a value of an index, in time that depends on their number only."""
        return tuple(self._records[key] for key in self._indexes[index].keys(value))

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: Key) -> bool:
        return key in self._records

    def subscribe(self, subscriber: Subscriber[R]) -> Callable[[], None]:
        """Be called at every difference, in order, before anybody else runs. Returns how to end that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    # How sure it is

    @property
    def age(self) -> float:
        """Seconds since the last proof: a word of the watch, or a list of our own; infinite before the first list.

        Much of it need not mean harm, since a watch has nothing to say while nothing changes.
        """
        return loopclock.now() - self._heard if self.synced else float("inf")

    def require_fresh(self, *, within: float) -> None:
        """Stand in front of every act that destroys: what could not be read lately is not "gone"."""
        if self.age > within:
            found = f"last update {self.age:.0f} s ago" if self.synced else "not read yet"
            raise Stale(f"{self.name}: {found} (limit {within:.0f} s)")

    @property
    def doubtful(self) -> bool:
        """Whether there is any such key; asked before every reconcile."""
        return bool(self._doubts)

    @property
    def doubts(self) -> tuple[Key, ...]:
        """Keys under which a write may or may not have happened."""
        return tuple(self._doubts)

    async def complete(self) -> None:
        """Wait until a first list has been read to its end."""
        await self.until(lambda: self.synced)

    async def certain(self) -> None:
        """Wait until no write of ours is in doubt."""
        await self.until(lambda: not self._doubts)

    async def uncertain(self) -> None:
        """Wait until a write of ours is in doubt."""
        await self._doubted.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something about this store. It is asked at every step of the watch, so it must be cheap."""
        if not holds():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((holds, waiter))
            await waiter

    # What the watch says

    def take(self, *events: Event[R], version: str) -> None:
        """Take in events that came together. `version` is how far the watch has come; empty while it reads a list."""
        passed = int(version) if version else None
        if passed is not None and passed < self._watched:
            # Before anything else: the first words after it are the deletions of all that the past does not know.
            raise Rewound(f"{self.name}: version {passed} came after {self._watched}: restart")
        for event in events:
            if isinstance(event, Changed):
                self._changed(event.object)
            elif isinstance(event, Deleted):
                self._deleted(event.object)
            elif isinstance(event, Synced):
                self.synced = True
        if passed is not None:
            if self._assumed or self._tombstones:
                self._clear(passed)
            self._watched = passed
            self._vouch(passed)

    def _vouch(self, version: int) -> None:
        self.version = max(self.version, version)
        self._heard = loopclock.now()
        if self._waiters:
            self._wake()

    def _changed(self, record: R) -> None:
        key, version = record.key, number(record)
        held = self._records.get(key)
        # Where nothing is held, this may be a late word of what a list of ours has shown to be gone.
        known = self._floor if held is None else number(held)
        if version < known or (self._tombstones and self._buried(key, record)):
            return
        if self._assumed:
            self._assumed.pop(key, None)
        if version > known:
            self._put(key, held, record)

    def _deleted(self, record: R) -> None:
        # A tombstone stays: this may be an older word, of how the object left the selection before it came back.
        key = record.key
        held = self._records.get(key)
        if held is None or held.metadata.uid != record.metadata.uid or number(held) > number(record):
            return
        self._drop(key, held)

    def _clear(self, version: int) -> None:
        """Draw a line: the watch has said everything up to here, so what it left out does not exist."""
        if self._assumed:
            for key in [key for key, assumed in self._assumed.items() if assumed <= version]:
                self._drop(key, self._records[key])
        old = loopclock.now() - TOMBSTONE_LIFE
        while self._tombstones:
            stone = next(iter(self._tombstones.values()))
            if stone.since >= old and (stone.uid or stone.version > version):
                break  # they stand in the order of their making, and the rest can wait for this one
            self._tombstones.popitem(last=False)

    # What our own requests have shown

    def answered(self, record: R) -> None:
        """Take the server's answer to a read or a write of ours, which is often ahead of the watch."""
        key, version = record.key, number(record)
        held = self._records.get(key)
        if self._buried(key, record) or (held is not None and number(held) >= version):
            return
        if version > self.version:
            self._assumed[key] = version
        elif held is None:
            return  # the watch has come past it and knows no such object: it was deleted while the answer came
        self._put(key, held, record)

    def deleted(self, key: Key, *, uid: str) -> None:
        """Take the server's word that an object is gone for good."""
        held = self._records.get(key)
        if held is not None and held.metadata.uid != uid:
            return  # a successor is known already, and its version is higher than any event to come of this one
        self._bury(key, uid=uid, version=number(held) if held is not None else 0)
        if held is not None:
            self._drop(key, held)

    def absent(self, key: Key, *, version: int) -> None:
        """Take the server's word that at this version nothing was there, or nothing in the watched selection."""
        held = self._records.get(key)
        if held is not None and number(held) > version:
            return
        if version > self.version:
            self._bury(key, uid="", version=version)
        if held is not None:
            self._drop(key, held)

    def surveyed(self, version: int) -> None:
        """Hear that a whole list of this version has been compared with what is here, and nothing is left to say."""
        self._floor = max(self._floor, version)
        self._vouch(version)

    def doubt(self, key: Key) -> None:
        """Say that a write was sent and no answer came: until it is read again, nobody knows."""
        self._doubts[key] = object()
        self._doubted.set()
        self._wake()

    def doubt_of(self, key: Key) -> object | None:
        """Give the doubt itself, to settle it with. Only a read begun after it may do so."""
        return self._doubts.get(key)

    def settle(self, key: Key, doubt: object | None) -> None:
        if doubt is not None and self._doubts.get(key) is doubt:
            del self._doubts[key]
            if not self._doubts:
                self._doubted.clear()
            self._wake()

    # The parts of it

    def _put(self, key: Key, before: R | None, after: R) -> None:
        self._records[key] = after
        if self._tombstones:
            self._tombstones.pop(key, None)
        self._tell(key, before, after)

    def _drop(self, key: Key, before: R) -> None:
        del self._records[key]
        self._assumed.pop(key, None)
        self._tell(key, before, None)

    def _tell(self, key: Key, before: R | None, after: R | None) -> None:
        for buckets in self._indexes.values():
            buckets.move(key, before, after)
        for subscriber in self._subscribers:
            subscriber(key, before, after)

    def _bury(self, key: Key, *, uid: str, version: int) -> None:
        older = self._tombstones.pop(key, None)
        if older is not None:
            uid, version = uid or older.uid, max(version, older.version)
        self._tombstones[key] = _Tombstone(uid=uid, version=version, since=loopclock.now())
        if len(self._tombstones) > MOST_TOMBSTONES:
            self._tombstones.popitem(last=False)

    def _buried(self, key: Key, record: R) -> bool:
        stone = self._tombstones.get(key)
        return stone is not None and (record.metadata.uid == stone.uid or number(record) <= stone.version)

    def _wake(self) -> None:
        waiting = [each for each in self._waiters if not each[1].done()]
        for holds, waiter in waiting:
            if holds():
                waiter.set_result(None)
        self._waiters = [each for each in waiting if not each[1].done()]
