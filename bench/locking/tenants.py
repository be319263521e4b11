"""Other work: one Pod on every Node, which leaves when it is told to or never does. Its kubelet is played.

When such a Pod has ended is heard by a watch of our own.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from bench.kube.writer import in_parallel
from bench.locking.stage import LockStage
from sunk.kube.api.client import Client, Deletion, Scope
from sunk.kube.cache.view import Changed, Deleted, Synced
from sunk.kube.cache.watch import watch
from sunk.kube.core import NAMESPACES, PODS, Pod
from sunk.kube.errors import AlreadyExists, NotFound
from sunk.kube.tasks import running
from sunk.local.fakekubelet import annotations

NAMESPACE: Final = "tenants"
GRACE: Final = 3600
ENDED: Final = ("Succeeded", "Failed")
ACCOUNTS: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"


class Tenants:
    def __init__(self, client: Client, nodes: Sequence[str]) -> None:
        self._client = client
        self._nodes = nodes
        self._running: set[str] = set()
        self._ended: dict[str, asyncio.Event] = {}

    async def settle(self, *, stays: bool = False) -> None:
        """Let one run on every Node. One that stays takes an hour to end, once it is told to."""

        async def create(number: int) -> None:
            body = _body(number, node=self._nodes[number], stays=stays)
            await self._client.create(PODS, body, namespace=NAMESPACE)

        self._ended = {_name(number): asyncio.Event() for number in range(len(self._nodes))}
        await in_parallel(create, range(len(self._nodes)))
        while len(self._running) < len(self._nodes):  # noqa: ASYNC110 - for so many an event each is no less
            await asyncio.sleep(0.1)

    async def left(self, number: int) -> None:
        """Wait until the one of this Node has ended."""
        await self._ended[_name(number)].wait()

    async def remove(self) -> None:
        """Have no more of them, whatever they are about."""
        everything = PODS.path(NAMESPACE)
        await self._client.request("DELETE", everything, body=Deletion(grace_period_seconds=0))
        for ended in self._ended.values():
            await ended.wait()
        while (await self._client.list(PODS, Scope(namespace=NAMESPACE))).items:  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.2)

    async def follow(self, begun: asyncio.Event) -> None:
        async with watch(self._client, PODS, Scope(namespace=NAMESPACE)) as events:
            async for event in events:
                if isinstance(event, Synced):
                    begun.set()
                if isinstance(event, Changed | Deleted):
                    self._hear(event.object, gone=isinstance(event, Deleted))

    def _hear(self, pod: Pod, *, gone: bool) -> None:
        name = pod.metadata.name
        if gone or pod.status.phase in ENDED:
            self._running.discard(name)
            self._ended[name].set()
        elif pod.status.phase == "Running":
            self._running.add(name)


@asynccontextmanager
async def tenants(stage: LockStage) -> AsyncIterator[Tenants]:
    """Have them told of for the length of a block, at the end of which none is left."""
    made, begun = Tenants(stage.client, stage.nodes), asyncio.Event()
    await _namespace(stage.client)
    async with running({"bench: watch tenants": made.follow(begun)}):
        await begun.wait()
        try:
            yield made
        finally:
            await made.remove()


async def _namespace(client: Client) -> None:
    try:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        return
    while True:  # no Pod is taken before it has an account
        try:
            await client.request("GET", ACCOUNTS)
        except NotFound:
            await asyncio.sleep(0.05)
        else:
            return


def _body(number: int, *, node: str, stays: bool) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE,
        "containers": [{"name": "main", "image": "none"}],
    }
    behaviour = annotations(stop_after=f"{GRACE}s" if stays else "0s")
    return {"metadata": {"name": _name(number), "annotations": behaviour}, "spec": spec}


def _name(number: int) -> str:
    return f"tenant-{number}"
