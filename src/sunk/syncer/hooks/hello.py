"""A Pod says that it reaches the syncer: the end of the drain `k8s: syncer not reached`.

A prolog that gets no answer drains its node and leaves a flag. While the flag is there, a service in the Pod calls here
every few seconds (`compute/hello.sh`), until it is answered 200. So the answer has to mean that the drain is off:

1. The call counts as long as it lasts: the cause of the drain does not hold for a node with a call that waits here
   (`is_reached`). So the drain controller lifts the drain, as it does with any other that has lost its cause.
2. It is answered when a read that began after the call shows the node without that drain, or with somebody else's.
3. After `PATIENCE` it is answered 503, and the Pod calls again.

Nothing is remembered between calls. A mark "was reached" would have to be voided by the next such drain, which a read may
show only after the next call; and whoever still calls is reached now.

Only the leader lifts drains, so a standby answers 503 at once, and the Pod's next call may find another replica.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sunk.model import loopclock
from sunk.model.contract import drains
from sunk.service.hooks.server import HookAnswer, HookCall
from sunk.slurm.mirror.confidence import Known, State
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.records import Node

PATIENCE: Final = 8.0
"""Seconds. The caller gives up after ten."""
_REACHED: Final = HookAnswer(200, {"result": "reached"})
_STANDBY: Final = HookAnswer(503, {"message": "This replica does not lead; try again."})
_NOT_YET: Final = HookAnswer(503, {"message": "The drain of this node is not lifted yet; try again."})


def is_unreached(row: Node | None) -> bool:
    """Whether a prolog has drained a node because no syncer answered. Nothing else tells of that."""
    told = drains.read(row.reason) if row is not None and row.state.draining else None
    return told is not None and told.unreached


class _Waiting:
    __slots__ = ("answer", "node", "since")

    def __init__(self, node: str) -> None:
        self.node: Final = node
        self.since: Final = loopclock.now()
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Hello:
    """A hook of the hook server. `lift` has the drain of a node decided again."""

    def __init__(self, mirror: Mirror, *, leads: Callable[[], bool], lift: Callable[[str], None]) -> None:
        self._mirror = mirror
        self._leads = leads
        self._lift = lift
        self._calls: dict[str, dict[_Waiting, None]] = {}
        mirror.subscribe(self._on_read)

    def is_reached(self, node: str) -> bool:
        """Whether the Pod of a node is calling right now."""
        return node in self._calls

    async def __call__(self, call: HookCall) -> HookAnswer:
        if not self._leads():
            return _STANDBY
        waiting = _Waiting(call.node)
        with self._registered(waiting):
            if is_unreached(self._mirror.nodes.get(call.node)):
                self._lift(call.node)  # a drain that a read shows only later is decided about upon that
            try:
                async with asyncio.timeout(PATIENCE):
                    await waiting.answer
            except TimeoutError:
                return _NOT_YET
        return _REACHED

    @contextmanager
    def _registered(self, waiting: _Waiting) -> Iterator[None]:
        self._calls.setdefault(waiting.node, {})[waiting] = None
        try:
            yield
        finally:
            del self._calls[waiting.node][waiting]
            if not self._calls[waiting.node]:
                del self._calls[waiting.node]

    def _on_read(self, state: State) -> None:
        """Answer those for whom a read is there that began after their call."""
        if not self._calls or not isinstance(state, Known):
            return
        begun = self._mirror.begun
        for node, calls in self._calls.items():
            if is_unreached(self._mirror.nodes.get(node)):
                continue
            for waiting in calls:
                if waiting.since < begun and not waiting.answer.done():
                    waiting.answer.set_result(None)
