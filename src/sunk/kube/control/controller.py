"""Bring what is to what should be, key by key: events say where to look, never what was seen there.

    async def reconcile(key: Key) -> Requeue | None: ...

    controller = Controller("nodes", reconcile, sources=(Source(nodes.store, itself), Source(pods.store, node_of)))
    async with running({"follow nodes": nodes.run(), "follow pods": pods.run(), "reconcile nodes": controller.run()}):
        await stop.wait()
        await controller.shut_down()

The problem. Events come twice, late, or for things that have changed again since. A program that acts on their content
must get every one of them right; one that only ever compares "is" with "should be" may lose its memory at any moment.

The design. Every difference in a store is mapped to keys, from the record before as well as from the one after: who
has lost an object must look as well as who has got one. `reconcile` gets nothing but the key, reads the stores, and
acts. It is called by one worker at a time for each key, and again until it has seen the last change. Workers start
when every store is complete, since half a list looks like a world in which the other half was deleted.

What goes wrong is tried again, later and later; `Terminal` says that only a change can help. A reconcile that hangs is
cancelled. Before each one, all stores must be certain: while the answer to a write of ours is missing in one of them,
nothing is decided on it.

Cancelling `run` ends all work at once, as the loss of a lease wants it; `shut_down` first lets work in hand come to its
end. What was refused: a finer rule for doubts (only the keys concerned wait). A write without an answer is rare and
soon settled, and which keys are concerned by an object that may or may not exist is a guess.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Generic

from msgspec import Struct

from sunk.kube.api.allowance import Allowance, Expired
from sunk.kube.cache.store import Store
from sunk.kube.control.queue import USUAL, K, Priority, Queue, QueueStatistics
from sunk.kube.errors import Conflict, KubeError, TooManyRequests
from sunk.kube.resource import Key, R, Record
from sunk.kube.tasks import forever
from sunk.model import faults, loopclock
from sunk.model.backoff import BackOff

log = logging.getLogger(__name__)

_SLICE: Final = 0.001
"""Seconds for which a worker goes on with the next key before it lets others run."""
_WALK: Final = 500
"""Records mapped to keys in one go, when a whole store is walked through."""


class Requeue(Struct, frozen=True):
    """Reconcile again in a while, in seconds. An event in between comes first, and this request is then forgotten."""

    after: float


class Terminal(Exception):  # noqa: N818 - named as what it is
    """Nothing is gained by trying again before something changes. The message says what has to."""


class Source(Struct, Generic[R, K], frozen=True):
    """Where differences come from, and which keys to enqueue because of a record there.

    None is fine: a store that is only read belongs here too, so that it is complete and certain for every reconcile.
    """

    store: Store[R]
    keys: Callable[[R], Iterable[K]]


def itself(record: Record) -> tuple[Key]:
    return (record.key,)


def owner(kind: str) -> Callable[[Record], Iterator[Key]]:
    """Map a record to the object of this kind that controls it."""

    def keys(record: Record) -> Iterator[Key]:
        for reference in record.metadata.owner_references:
            if reference.controller and reference.kind == kind:
                yield Key(record.metadata.namespace, reference.name)

    return keys


class Effort(Struct, frozen=True):
    """How much a controller does at once, and how long one reconcile may take.

    Every `resync` seconds all keys are enqueued though nothing has changed; zero means never.
    """

    workers: int = 8
    patience: float = 60.0
    resync: float = 0.0
    back_off: BackOff = USUAL


class ControllerStatistics(Struct, frozen=True):
    """How reconciles have ended since the start; `retried` ones by an error, of which `late` took too long."""

    queue: QueueStatistics
    succeeded: int
    retried: int
    late: int
    terminal: int


class _Late(KubeError):  # noqa: N818 - as Terminal
    """A reconcile took longer than it may."""


class Controller(Generic[K]):
    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Requeue | None]],
        *,
        sources: Sequence[Source[Any, K]],
        effort: Effort = Effort(),  # noqa: B008 - it is frozen
    ) -> None:
        self.name: Final = name
        self._reconcile = reconcile
        self._sources = tuple(sources)
        self._effort = effort
        self._queue: Queue[K] = Queue(back_off=effort.back_off)
        self._succeeded = self._retried = self._late = self._terminal = 0
        self.began: float = 0.0
        """When the present run began, by the loop's clock: what was decided before was not seen by it."""

    async def run(self) -> None:
        """Work for ever. Cancelling this cancels reconciles in hand."""
        self.began = loopclock.now()
        with ExitStack() as subscriptions:
            known = [(source, source.store.all()) for source in self._sources]
            for source in self._sources:
                subscriptions.callback(source.store.subscribe(self._listener(source)))
            for source in self._sources:
                await source.store.complete()
            async with asyncio.TaskGroup() as group:
                duties = {f"{self.name}: worker {number + 1}": self._work() for number in range(self._effort.workers)}
                for name, duty in (duties | {f"{self.name}: resync": self._resync_for_ever(known)}).items():
                    group.create_task(forever(duty, name=name), name=name)

    async def shut_down(self) -> None:
        """Begin nothing new, and wait for what is in hand. Bound this by a timeout; then cancel `run`."""
        self._queue.close()
        await self._queue.idle()

    @property
    def busy(self) -> bool:
        """Whether a key is in work."""
        return bool(self._queue.statistics().working)

    def enqueue(self, key: K, *, priority: Priority = Priority.FRESH) -> None:
        """Reconcile a key for a reason that no store knows."""
        self._queue.add(key, priority=priority)

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics(
            queue=self._queue.statistics(),
            succeeded=self._succeeded,
            retried=self._retried,
            late=self._late,
            terminal=self._terminal,
        )

    def _listener(self, source: Source[R, K]) -> Callable[[Key, R | None, R | None], None]:
        store, keys, add = source.store, partial(self._keys, source), self._queue.add

        def listen_to_itself(key: Any, *_: object) -> None:
            add(key, priority=Priority.FRESH if store.synced else Priority.LATER)

        def listen(_: Key, before: R | None, after: R | None) -> None:
            priority = Priority.FRESH if store.synced else Priority.LATER
            old = () if before is None else keys(before)
            new = () if after is None else keys(after)
            for key in dict.fromkeys((*old, *new)):
                add(key, priority=priority)

        return listen_to_itself if source.keys is itself else listen

    def _keys(self, source: Source[R, K], record: R) -> Iterable[K]:
        """Which keys to enqueue because of a record. One that nobody can make sense of enqueues none, and ends nothing."""
        where = f"{self.name}: {source.store.name}"
        try:
            found = tuple(source.keys(record))
        except Exception as fault:  # noqa: BLE001 - as it says
            fault.add_note(f"{source.store.name} {record.key}")
            faults.note(where, fault)
            return ()
        if faults.lasting:
            faults.over(where)
        return found

    async def _resync_for_ever(self, known: Iterable[tuple[Source[Any, K], Sequence[Any]]]) -> None:
        """Enqueue what the stores held before we listened, and all they hold at every resync."""
        while True:
            for source, records in known:
                for start in range(0, len(records), _WALK):
                    for record in records[start : start + _WALK]:
                        for key in self._keys(source, record):
                            self._queue.add(key, priority=Priority.LATER)
                    await asyncio.sleep(0)
            await asyncio.sleep(self._effort.resync or float("inf"))
            known = [(source, source.store.all()) for source in self._sources]

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        end, allowance = clock() + _SLICE, Allowance()
        while True:
            paused = not self._queue.ready  # the wait for a key lets others run
            if not paused and clock() > end:
                await asyncio.sleep(0)  # a reconcile with nothing to await would otherwise keep the loop to itself
                paused = True
            key = await self._queue.get()
            if paused:
                end = clock() + _SLICE
            try:
                await self._process(key, allowance)
            finally:
                self._queue.done(key)

    async def _process(self, key: K, allowance: Allowance) -> None:
        try:
            requeue = await allowance.within(self._effort.patience, self._reconcile_certain(key))
        except Expired:
            self._late += 1
            self._failed(key, _Late(f"not done after {self._effort.patience:.0f} s, cancelled"))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys still need us
            self._failed(key, error)
        else:
            self._succeeded += 1
            self._queue.forget(key)
            if requeue is not None:
                self._queue.add_after(key, delay=requeue.after)

    def _reconcile_certain(self, key: K) -> Awaitable[Requeue | None]:
        for source in self._sources:
            if source.store.doubtful:
                return self._wait_and_reconcile(key)
        return self._reconcile(key)

    async def _wait_and_reconcile(self, key: K) -> Requeue | None:
        for source in self._sources:
            await source.store.certain()
        return await self._reconcile(key)

    def _failed(self, key: K, error: Exception) -> None:
        causes = list(_leaves(error))
        said = "; ".join(str(cause) or type(cause).__name__ for cause in causes)
        if _all(causes, Terminal):
            self._terminal += 1
            self._queue.forget(key)
            log.error("%s: %s: %s; not retried until something changes", self.name, key, said)
            return
        self._retried += 1
        asked = max((cause.retry_after for cause in causes if isinstance(cause, TooManyRequests)), default=0.0)
        delay = self._queue.retry(key, at_least=asked)
        level = logging.INFO if _all(causes, Conflict) else logging.WARNING
        # A traceback only where the error is none that we know: there it is the one way to find the place.
        trace = None if _all(causes, KubeError) else error
        log.log(level, "%s: %s: %s; retrying in %.1f s", self.name, key, said, delay, exc_info=trace)


def _all(errors: Iterable[BaseException], kind: type[BaseException]) -> bool:
    return all(isinstance(error, kind) for error in errors)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
