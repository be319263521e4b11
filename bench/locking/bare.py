"""The writes of a lock by somebody who waits for nobody: nothing that locks Nodes could be faster.

They are as large as the real ones and of the same kind: the status of a Pod with the request in it, a JSON patch of the
Node with taint and state, another one with the state, and the copy on the Pod; then two that take it back. The Nodes are
those of the stage, but taint and annotations are the bench's own, which no process of ours minds. The Pods are nobody's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from bench.kube.writer import in_parallel
from bench.sync.played import TAINT
from sunk.kube.api.client import Client
from sunk.kube.api.patch import Json, Merge, Strategic
from sunk.kube.core import NODES, PODS, Node
from sunk.kube.errors import AlreadyExists, Conflict, Invalid
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import State

NAMESPACE: Final = "default"
WORKERS: Final = 32
"""As many as syncer, Node and Pod controller have together."""
REQUEST, NUMBER, OWNER = f"{TAINT}-request", f"{TAINT}-number", f"{TAINT}-owner"


async def at_once() -> None:
    """Nobody is in the way."""


class BareLocks:
    def __init__(self, client: Client, nodes: Sequence[str]) -> None:
        self._client = client
        self._names = nodes
        self._nodes: dict[int, Node] = {}
        self._round = 0

    async def prepare(self) -> None:
        """Make a Pod for each Node that only the server looks after."""
        spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}

        async def create(number: int) -> None:
            with suppress(AlreadyExists):
                body = {"metadata": {"name": _pod(number)}, "spec": spec}
                await self._client.create(PODS, body, namespace=NAMESPACE)

        await in_parallel(create, range(len(self._names)))

    async def read(self, numbers: Sequence[int]) -> None:
        """Know the versions of Nodes that the next writes depend on, as a cache would."""

        async def get(number: int) -> None:
            self._nodes[number] = await self._client.get(NODES, self._names[number])

        self._round += 1
        await in_parallel(get, numbers)

    async def read_all(self) -> None:
        await self.read(range(len(self._names)))

    async def lock(
        self, number: int, *, room: asyncio.Semaphore | None = None, left: Callable[[], Awaitable[None]] = at_once
    ) -> None:
        """The four writes, as soon as there is room for each. Between the second and the third others leave the Node."""
        room = room or asyncio.Semaphore()
        async with room:
            await self._ask(number)
        async with room:
            await self._write(number, lock.PENDING)
        await left()
        async with room:
            await self._write(number, lock.LOCKED)
        async with room:
            await self._copy(number, lock.LOCKED)

    async def lock_all(self, left: Callable[[int], Awaitable[None]] | None = None) -> None:
        """All Nodes, by as many workers as ours have."""
        room = asyncio.Semaphore(WORKERS)
        async with asyncio.TaskGroup() as group:
            for number in range(len(self._names)):
                gone = _of(left, number) if left else at_once
                group.create_task(self.lock(number, room=room, left=gone), name=f"bare lock {number}")

    async def unlock(self, number: int) -> None:
        await self._write(number, lock.UNLOCKED)
        await self._copy(number, lock.UNLOCKED)

    async def unlock_all(self) -> None:
        await in_parallel(self.unlock, range(len(self._names)))

    async def _ask(self, number: int) -> None:
        request = lock.LockRequest(number=self._round, runs=(lock.JobRun(self._round),))
        running = {
            "type": names.SLURM_RUNNING,
            "status": "True",
            "reason": "Busy",
            "message": f"ALLOCATED, round {self._round}",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        meta = {"annotations": {REQUEST: lock.write(request)}, "labels": {f"{TAINT}-running": str(self._round)}}
        patch = Strategic({"metadata": meta, "status": {"conditions": [running]}})
        await self._client.patch(PODS, _pod(number), patch, namespace=NAMESPACE, subresource="status")

    async def _write(self, number: int, state: State) -> None:
        while True:
            node = self._nodes[number]
            try:
                self._nodes[number] = await self._client.patch(
                    NODES, node.metadata.name, Json(self._changes(node, state))
                )
            except (Conflict, Invalid):
                self._nodes[number] = await self._client.get(NODES, node.metadata.name)
            else:
                return

    def _changes(self, node: Node, state: State) -> list[dict[str, Any]]:
        return [
            {"op": "test", "path": "/metadata/uid", "value": node.metadata.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": node.metadata.resource_version},
            *_taints(node, on=state != lock.UNLOCKED),
            *(_added(f"annotations/{name}", value) for name, value in self._said(node, state).items()),
            _added(f"labels/{TAINT}", state),
        ]

    def _said(self, node: Node, state: State) -> dict[str, str]:
        return {TAINT: state, NUMBER: str(self._round), OWNER: node.metadata.uid}

    async def _copy(self, number: int, state: State) -> None:
        patch = Merge({"metadata": {"annotations": self._said(self._nodes[number], state)}})
        await self._client.patch(PODS, _pod(number), patch, namespace=NAMESPACE)


def _pod(number: int) -> str:
    return f"bare-lock-{number}"


def _of(left: Callable[[int], Awaitable[None]], number: int) -> Callable[[], Awaitable[None]]:
    return lambda: left(number)


def _taints(node: Node, *, on: bool) -> list[dict[str, Any]]:
    here = [place for place, taint in enumerate(node.spec.taints) if taint.key == TAINT]
    if on and not here:
        body = {"key": TAINT, "value": lock.TAINT_VALUE, "effect": lock.TAINT_EFFECT}
        whole = {"op": "add", "path": "/spec/taints", "value": [body]}
        return [{"op": "add", "path": "/spec/taints/-", "value": body} if node.spec.taints else whole]
    return [] if on else [{"op": "remove", "path": f"/spec/taints/{place}"} for place in reversed(here)]


def _added(path: str, value: str) -> dict[str, Any]:
    room, _, name = path.partition("/")
    return {"op": "add", "path": f"/metadata/{room}/{name.replace('/', '~1')}", "value": value}
