"""Killed, paused, replaced: whoever leads next goes on from what is there, and who no longer leads does no harm."""

import asyncio

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Operator, Stage, eventually

from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import NODES
from sunk.kube.errors import Conflict
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.model import names
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NODESLICES, claim_of
from sunk.operator.nodeset.act.claims import claim
from sunk.operator.nodeset.act.slicecontrol import SliceControl
from sunk.operator.nodeset.decide.slices import shards, spread
from sunk.service.part import Setting
from sunk.service.scoped import Scoped


async def said(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in line for line in caplog.messages)


async def test_who_may_not_write_deletes_nothing_though_it_was_cleared(
    stage: Stage, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    """G1."""
    await stage.create()
    await stage.settled(3)
    operator.leads = False
    await stage.change(replicas=2)
    name = next(iter(await eventually(stage.marked, bool)))
    await stage.clear(name)
    with caplog.at_level("WARNING", logger="sunk.kube.control.controller"):
        await eventually(lambda: said(caplog, "another replica may be the leader"), bool)
    assert operator.deleted() == []
    assert name in await stage.pods()
    operator.leads = True
    async with stage.syncer():  # a clearance that got too old meanwhile is given again
        await eventually(stage.pods, lambda pods: name not in pods)


async def test_a_claim_upon_an_old_view_of_the_node_is_refused(stage: Stage) -> None:
    """G1: of two that want a Node the second loses, however long it was paused."""
    mine, other = await stage.create("mine"), await stage.create("other")
    node = stage.nodes[0]
    paused = Collection(stage.client, NODES)
    old = await paused.confirm(Key("", node))
    assert old is not None
    alive = Collection(stage.client, NODES)
    await alive.confirm(Key("", node))
    assert await claim(alive, node, owner=other, name="o-1", free=lambda found: not claim_of(found))
    version = {"uid": old.metadata.uid, "resourceVersion": old.metadata.resource_version}
    late = Merge({"metadata": version | {"annotations": {names.CLAIM: mine.metadata.uid}}})
    with pytest.raises(Conflict):
        await paused.patch(Key("", node), late)
    assert not await claim(paused, node, owner=mine, name="m-1", free=lambda found: not claim_of(found))
    assert claim_of(await stage.node(node)) == other.metadata.uid


async def test_slices_are_not_written_upon_an_old_view(stage: Stage, operator: Operator) -> None:
    """G1: a paused leader does not put back whom another has let go."""
    made = await stage.create()
    await stage.settled(3)
    await operator.kill()
    setting = Setting(stage.client, None, lambda: True, namespaces=(stage.namespace,))  # type: ignore[arg-type]
    old = await stage.slices()
    slices = Scoped(setting, NODESLICES, indexes={"owner": lambda _: ()})
    async with running({"follow": slices.collections[0].run()}):
        await slices.collections[0].store.complete()
        await stage.release()
        patch = Merge({"spec": {"entries": []}})
        await slices.collections[0].patch(old[0].key, patch)
        back = spread(shards(old), [Entry(name="gpu-000-001", node=stage.nodes[0])])
        with pytest.raises(Conflict):
            await SliceControl(slices).write(made, old, back)
    assert await stage.entries() == {}


async def test_a_claim_without_an_entry_is_taken_up_or_taken_back(stage: Stage, operator: Operator) -> None:
    """Killed between the first write of joining and the second."""
    await operator.kill()
    made = await stage.create(template=stage.template(pool="blue"))
    for name, node in zip(("gpu-9", "gpu-8"), stage.nodes, strict=False):
        labels = {names.NODESET: "gpu", names.NAMESPACE: stage.namespace, names.POD: name}
        mark = {"annotations": {names.CLAIM: made.metadata.uid}, "labels": labels}
        await stage.client.patch(NODES, node, Merge({"metadata": mark}))
    await stage.label(stage.nodes[0], pool="blue")
    operator.start()
    await stage.settled(1)
    assert await stage.entries() == {"gpu-9": Entry(name="gpu-9", node=stage.nodes[0])}, "its name was decided by then"
    await eventually(lambda: stage.node(stage.nodes[1]), lambda node: not claim_of(node))
    left = (await stage.node(stage.nodes[1])).metadata.labels
    assert not [label for label in left if label.startswith(names.GROUP)]


async def test_a_pod_without_an_entry_is_written_down(stage: Stage, operator: Operator) -> None:
    """Killed between Pods and slices: the Pod may hold a job by now, so it is a member, whatever is wished."""
    await stage.create()
    await stage.settled(3)
    await operator.kill()
    pods = await stage.pods()
    await stage.client.delete(NODESLICES, "gpu-0", namespace=stage.namespace)
    await stage.change(replicas=1)
    operator.start()
    await eventually(stage.marked, lambda found: len(found) == 2)
    assert (await stage.entries()).keys() == pods.keys()
    assert operator.deleted() == []


@pytest.mark.full
async def test_killed_again_and_again_while_many_join_it_comes_to_the_same_end(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=40) as stage, Operator(kube) as operator:
        await stage.create()
        for turns in range(0, 60, 6):
            await more_written(operator)
            for _ in range(turns):
                await asyncio.sleep(0)
            await operator.kill()
            operator.start()
        await stage.settled(40)
        pods = await stage.pods()
        assert {pod.spec.node_name for pod in pods.values()} == set(stage.nodes)
        assert {name: entry.node for name, entry in (await stage.entries()).items()} == {
            name: pod.spec.node_name for name, pod in pods.items()
        }
        assert operator.deleted() == []


async def more_written(operator: Operator) -> None:
    """Wait for the next write, unless there can hardly be one."""
    before = len(operator.writes)

    async def written() -> int:
        return len(operator.writes)

    await eventually(written, lambda found: found > before or found > 100)


async def test_a_new_leader_does_not_begin_a_second_time(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    before = await stage.pods(), await stage.slices(), await stage.nodeset()
    await operator.kill()
    fresh = Operator(stage.kube)
    async with fresh:
        await stage.change(revisionHistoryLimit=7)
        await eventually(stage.nodeset, lambda one: one.status.observed_generation == one.metadata.generation)
    assert {one.resource for one in fresh.writes} <= {"nodesets/status", "pods"}, "a trial run and the status"
    assert (await stage.pods(), await stage.slices()) == before[:2]
