"""How the Pod controller copies the lock of a Node: when, and at what cost."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.operator.node.factories import annotated, node, pod
from tests.unit.operator.node.scripted import NOWHERE
from tests.unit.operator.nodeset.factories import nodeset

from sunk.kube.api.client import Client
from sunk.kube.cache.view import Changed, Synced
from sunk.kube.control.controller import Requeue
from sunk.kube.control.events import Recorder
from sunk.kube.core import Pod
from sunk.kube.resource import Key, Record, Resource
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import LockAnswer
from sunk.operator.caches import shared_caches
from sunk.operator.keptdrains import kept_drains
from sunk.operator.lockmetrics import lock_metrics
from sunk.operator.node.controller import nodes
from sunk.operator.pod.controller import MOMENT, PodReconciler
from sunk.service.part import Setting

pytestmark = pytest.mark.looptime

KEY = Key("team", "gpu-0")


class Server(Client):
    """Takes patches of Pods."""

    pod: Pod
    patches: list[dict[str, Any]]
    versions: Iterator[int]

    async def patch(self, resource: Resource[Any], name: str, patch: Any, **_: Any) -> Any:
        assert (resource.plural, name) == ("pods", KEY.name)
        change = patch.body["metadata"]["annotations"]
        self.patches.append(change)
        here = {key: text for key, text in (self.pod.metadata.annotations | change).items() if text is not None}
        metadata = replace(self.pod.metadata, annotations=here, resource_version=str(next(self.versions)))
        self.pod = replace(self.pod, metadata=metadata)
        return self.pod


class Stage:
    """A Node, its Pod, and the reconciler between them."""

    def __init__(self) -> None:
        self.server = Server(NOWHERE)
        self.server.patches, self.server.versions, self.server.pod = [], iter(range(10, 10_000)), pod()
        recorder = Recorder(self.server, reporter="test", instance="test")
        self.setting = Setting(client=self.server, recorder=recorder, may_write=lambda: True)
        self.shared = self.setting.once(shared_caches)
        drains = self.setting.once(kept_drains)
        metrics = self.setting.once(lock_metrics)
        self.reconciler = PodReconciler(self.shared, drains, metrics, cordon_reason=names.CORDON_REASON)
        for collection in self.shared.sets.collections:
            self._take(collection.store, nodeset("gpu", uid="set", meta={"namespace": "team"}))
        self._take(self.shared.pods.store, self.server.pod)

    def _take(self, store: Any, record: Record) -> None:
        newer = replace(record.metadata, resource_version=str(next(self.server.versions)))
        store.take(Changed(replace(record, metadata=newer)), version="")

    def says(self, state: lock.State, number: int = 1, *, cordoned: bool = False) -> None:
        """Have the Node say this of its lock."""
        answer = LockAnswer(state, number, self.server.pod.metadata.uid)
        self._take(self.shared.nodes.store, annotated(node(unschedulable=cordoned), **answer.annotations))

    async def look(self) -> Requeue | None:
        return await self.reconciler.reconcile(KEY)

    @property
    def copies(self) -> list[str]:
        return [change[names.LOCK] for change in self.server.patches if names.LOCK in change]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    await made.server.close()


async def test_a_lock_of_an_empty_node_costs_one_copy(stage: Stage) -> None:
    stage.says("pending")
    wait = await stage.look()
    assert wait is not None
    assert wait.after == MOMENT
    stage.says("locked")
    assert await stage.look() is None
    stage.says("false")
    assert await stage.look() is None
    assert stage.copies == ["locked", "false"]
    assert len(stage.server.patches) == 2


async def test_a_lock_that_is_pending_for_a_moment_is_said_to_be(stage: Stage) -> None:
    stage.says("pending")
    await stage.look()
    await asyncio.sleep(MOMENT / 2)
    wait = await stage.look()
    assert wait is not None
    await asyncio.sleep(wait.after)
    assert await stage.look() is None
    assert stage.copies == ["pending"]


async def test_the_moment_begins_again_with_the_next_lock(stage: Stage) -> None:
    stage.says("pending")
    await stage.look()
    await asyncio.sleep(MOMENT)
    stage.says("locked")
    await stage.look()
    stage.says("pending", 2)
    wait = await stage.look()
    assert wait is not None
    assert wait.after == MOMENT


async def test_a_cordon_waits_for_no_lock(stage: Stage) -> None:
    stage.says("pending", cordoned=True)
    wait = await stage.look()
    assert stage.server.patches == [{names.CORDON: ""}]
    assert wait is not None


async def test_nothing_is_written_twice(stage: Stage) -> None:
    stage.says("locked")
    await stage.look()
    await stage.look()
    assert len(stage.server.patches) == 1


# Who hears of what


async def test_pods_of_others_enqueue_no_node_and_a_compute_pod_its_own(stage: Stage) -> None:
    """Thousands of them change every second."""
    (controller,) = nodes(stage.setting).controllers
    store = stage.shared.pods.store
    store.take(Synced(), version="")
    for number in range(1000):
        plain = replace(pod(), metadata=replace(pod().metadata, name=f"web-{number}", owner_references=()))
        stage._take(store, plain)  # noqa: SLF001 - as the watch does
    assert controller.statistics().queue.adds == 0
    stage._take(store, pod(lock_request=lock.write(lock.LockRequest(1))))  # noqa: SLF001
    assert controller.statistics().queue.depth == 1
