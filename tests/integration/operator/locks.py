"""What tests of locks do and ask: the syncer's hand that asks, work of others on a Node, and what the Node says of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import Struct
from tests.integration.nodeset.stage import EVENTS, Stage, eventually
from tests.integration.operator.scene import POD, node_carries

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.cache.collection import Collection
from sunk.kube.cache.store import number
from sunk.kube.core import NODES, PODS, Node, Pod
from sunk.kube.errors import NotFound
from sunk.kube.tasks import running
from sunk.local.fakekubelet.behaviour import annotations
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockAnswer, LockRequest, State
from sunk.operator.node.lock import is_tainted

SEVEN: Final = LockRequest(1, runs=(JobRun(7),))
EIGHT: Final = LockRequest(2, runs=(JobRun(8),))
STRICT: Final = LockRequest(1, strict=True, runs=(JobRun(7),))
IDLE: Final = LockRequest(1)
EVERYTHING: Final = ({"operator": "Exists"},)


async def ask(stage: Stage, request: LockRequest, status: str = "True", *, pod: str = POD) -> None:
    """Write a request and SlurmRunning in one patch, as the syncer does."""
    told = {"type": names.SLURM_RUNNING, "status": status, "reason": "Busy" if status == "True" else "Idle"}
    now = stage.client.clock.now().replace(microsecond=0)
    body = {
        "metadata": {"annotations": {names.LOCK_REQUEST: lock.write(request)}},
        "status": {"conditions": [told | {"lastTransitionTime": now}]},
    }
    await stage.client.patch(PODS, pod, Strategic(body), namespace=stage.namespace, subresource="status")


async def idle(stage: Stage, request: LockRequest = IDLE, *, pod: str = POD) -> None:
    await ask(stage, request, "False", pod=pod)


# Work of others


async def tenant(
    stage: Stage, name: str, *, node: str = "", stop_after: str = "", meta: Any = None, **spec: Any
) -> None:
    """A Pod on a Node, the first by default, that takes so long to stop. It runs, or has ended, when this returns."""
    made: dict[str, Any] = {"name": name} | (meta or {})
    if stop_after:
        made["annotations"] = made.get("annotations", {}) | annotations(stop_after=stop_after)
    container = {"name": "main", "image": "none"}
    body = {"nodeName": node or stage.nodes[0], "containers": [container], "terminationGracePeriodSeconds": 600}
    await stage.client.create(PODS, {"metadata": made, "spec": body | spec}, namespace=stage.namespace)

    async def phase() -> str:
        with suppress(NotFound):  # evicted, and gone by now
            return (await stage.pod(name)).status.phase
        return "Succeeded"

    await eventually(phase, lambda found: found in {"Running", "Succeeded"})


async def there(stage: Stage, node: str = "") -> dict[str, Pod]:
    """All Pods on a Node but its compute Pod, by a read of their own."""
    found = await stage.client.list(PODS, Scope(fields=f"spec.nodeName={node or stage.nodes[0]}"))
    return {pod.metadata.name: pod for pod in found.items if not pod.metadata.owner_references}


async def freed(stage: Stage, name: str) -> None:
    """Take the finalizers of a Pod off."""
    await stage.client.patch(PODS, name, Merge({"metadata": {"finalizers": None}}), namespace=stage.namespace)


# What is seen


class Seen(Struct, frozen=True):
    """A moment of a Node, as far as its lock goes."""

    state: str
    number: int
    tainted: bool
    owner: str = ""
    claim: str = ""


def seen(node: Node) -> Seen:
    marks = node.metadata.annotations
    answer = lock.answer(marks) or LockAnswer()
    claim = marks.get(names.CLAIM, "")
    return Seen(marks.get(names.LOCK, ""), answer.number, is_tainted(node), owner=answer.owner, claim=claim)


@asynccontextmanager
async def history(stage: Stage, node: str = "") -> AsyncIterator[list[Seen]]:
    """All that a Node says of its lock while the block lasts, each change once."""
    name = node or stage.nodes[0]
    told: list[Seen] = []
    nodes = Collection(stage.client, NODES, Scope(fields=f"metadata.name={name}"))

    def hear(_: Any, __: Node | None, after: Node | None) -> None:
        if after is not None and (not told or told[-1] != seen(after)):
            told.append(seen(after))

    nodes.store.subscribe(hear)
    async with running({"history": nodes.run()}):
        await nodes.store.complete()
        yield told
        await _heard(nodes, await stage.node(name))


async def _heard(nodes: Collection[Node], last: Node) -> None:
    """Wait for the watch itself: a list would show the end alone, and not what led there."""

    async def version() -> int:
        found = nodes.store.get(last.key)
        return 0 if found is None else number(found)

    await eventually(version, lambda found: found >= number(last))


def words(told: list[Seen]) -> list[str]:
    """A history in words, without what a Node was like before it had a lock."""
    return [f"{one.state} {one.number}{' tainted' * one.tainted}" for one in told if one.state]


async def is_locked(stage: Stage, state: State = "locked", number: int = 1, *, node: str = "") -> Node:
    """Wait until a Node says this, with the taint if it has to have it."""
    wanted = (state, number, state != lock.UNLOCKED)

    def holds(found: Node) -> bool:
        one = seen(found)
        return (one.state, one.number, one.tainted) == wanted

    return await eventually(lambda: stage.node(node or stage.nodes[0]), holds)


async def pod_says(stage: Stage, state: State, number: int = 1, *, pod: str = POD) -> Pod:
    """Wait until the copy on the Pod is this."""

    def holds(found: Pod) -> bool:
        return lock.answer(found.metadata.annotations) == LockAnswer(state, number, found.metadata.uid)

    return await eventually(lambda: stage.running(pod), holds)


async def stays(stage: Stage, state: State, *, seconds: float = 1.0) -> None:
    """See that nothing changes for a while."""
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        assert seen(await stage.node(stage.nodes[0])).state == state
        await asyncio.sleep(0.1)


async def unlocked(stage: Stage) -> Node:
    return await node_carries(stage, names.LOCK, lock.UNLOCKED)


async def node_events(stage: Stage, reason: str, node: str = "") -> list[str]:
    """What Events about a Node say; those live in the namespace `default`."""
    name = node or stage.nodes[0]
    found = await stage.client.list(EVENTS, Scope(namespace="default"))
    return [one.note for one in found.items if one.reason == reason and one.metadata.name.startswith(f"{name}.")]


async def node_event(stage: Stage, reason: str, node: str = "") -> str:
    """Wait for an Event about a Node."""
    return (await eventually(lambda: node_events(stage, reason, node), bool))[0]
