"""Follow the Pods of a namespace through watch, store and queue to a reconcile that does nothing but note the time.

It is ready when all Pods were reconciled once; `bench.kube.span` says how it is told when to measure. The answer is one
line of JSON.

How long the loop is held up is taken at its root by a follower of its own, which is given a third argument: every
callback is timed, in CPU of this thread, so that a machine with other work to do does not count as a stall. That works
with Python's own loop only; uvloop's callbacks do not pass through anything that could be timed.
"""

import asyncio
import sys
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from bench.kube.span import span
from bench.kube.sync import by_node
from sunk.kube.api.client import Client, Scope
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Source, itself
from sunk.kube.core import PODS, Pod
from sunk.kube.process.loop import run
from sunk.kube.resource import Key
from sunk.kube.tasks import running


class Reconciled(Struct, frozen=True, gc=False):
    """A reconcile: of which Pod, at which version, and when it was called."""

    name: str
    version: int
    at: float


class Followed(Struct, frozen=True):
    """What was seen between the two lines. `longest` counts from the start, the first list included; 0 if untimed."""

    cpu: float
    changes: int
    looks: tuple[Reconciled, ...]
    longest: float
    longest_in: str


class Callbacks:
    """The longest callback that the loop has run so far."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.where = ""

    def install(self) -> None:
        plain: Callable[[asyncio.Handle], None] = asyncio.Handle._run  # noqa: SLF001 - the one place all of them pass

        def timed(handle: asyncio.Handle) -> None:
            callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - as above; gone when it has run
            began = time.thread_time()
            plain(handle)
            spent = time.thread_time() - began
            if spent > self.longest:
                # The step of a task does not name it; what it is bound to does.
                self.longest, self.where = spent, repr(getattr(callback, "__self__", handle))

        setattr(asyncio.Handle, "_run", timed)  # noqa: B010 - it is no attribute to be set, says mypy, and right it is


class Follower:
    def __init__(self, client: Client, namespace: str) -> None:
        self.pods: Collection[Pod] = Collection(client, PODS, Scope(namespace=namespace), indexes={"node": by_node})
        self.controller: Controller[Key] = Controller(
            "bench", self._reconcile, sources=(Source(self.pods.store, itself),)
        )
        self.looks: list[Reconciled] = []
        self.changes = 0
        self.pods.store.subscribe(self._count)

    async def _reconcile(self, key: Key) -> None:
        at = time.monotonic()
        pod = self.pods.store.get(key)
        self.looks.append(Reconciled(key.name, int(pod.metadata.resource_version) if pod else 0, at))

    def _count(self, *_: object) -> None:
        self.changes += 1

    async def caught_up(self) -> None:
        """Wait until every Pod had a look and none waits for one."""
        await self.pods.store.complete()
        while len(self.looks) < len(self.pods.store) or not _at_rest(self.controller):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def _at_rest(controller: Controller[Key]) -> bool:
    queue = controller.statistics().queue
    return not queue.depth and not queue.working


async def main(callbacks: Callbacks, kubeconfig: str, namespace: str) -> None:
    async with Client(access.from_kubeconfig(kubeconfig)) as client:
        follower = Follower(client, namespace)
        async with running({"follow": follower.pods.run(), "reconcile": follower.controller.run()}):
            await follower.caught_up()
            async with span() as measured:
                follower.looks.clear()
                before = follower.changes
            changes, looks = follower.changes - before, tuple(follower.looks)
            found = Followed(measured.cpu, changes, looks, callbacks.longest, callbacks.where)
            print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    where, callbacks = sys.argv[1:3], Callbacks()
    if sys.argv[3:]:
        callbacks.install()
        asyncio.run(main(callbacks, *where))
    else:
        run(main(callbacks, *where))
