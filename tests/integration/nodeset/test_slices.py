"""NodeSlices as their readers see them: bounded, and never without somebody who is a member."""

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Operator, Stage, eventually
from tests.integration.nodeset.witness import Witness

from sunk.kube.api.client import Deletion
from sunk.kube.tasks import running
from sunk.objects.nodesets import NODESLICES
from sunk.operator.nodeset.act.batches import in_parallel
from sunk.operator.nodeset.decide.slices import added, spread

SIZE = 100


async def test_a_member_that_moves_to_another_slice_is_never_missing(
    kube: Kube, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rule in (spread, added):
        assert rule.__kwdefaults__ is not None
        monkeypatch.setitem(rule.__kwdefaults__, "size", 4)
    await moved(kube, staging, size=4, more=2, left=3)


@pytest.mark.full
async def test_a_member_that_moves_to_another_slice_of_a_hundred_is_never_missing(kube: Kube, staging: Staging) -> None:
    await moved(kube, staging, size=SIZE, more=10, left=70)


async def moved(kube: Kube, staging: Staging, *, size: int, more: int, left: int) -> None:
    """M4: those of the second slice are made to stay, so that they have to move when the first one empties."""
    async with staging(nodes=size + more) as stage, Operator(kube) as operator, stage.syncer():
        witness = Witness(stage)
        async with running(witness.duties()):
            await stage.create()
            await stage.settled(size + more)
            assert [len(one.spec.entries) for one in await stage.slices()] == [size, more]
            last = [entry.name for entry in (await stage.slices())[1].spec.entries]
            assert await in_parallel(last, lambda name: stage.say(name, SlurmRunning=True)) == []
            await operator.caught_up()  # who is chosen to leave before that has a job that never ends
            await stage.change(replicas=left)
            await stage.settled(left)
            slices = await eventually(stage.slices, lambda found: len(found) == 1)
            await witness.caught_up()
        assert witness.judge() == []
        assert {entry.name for entry in slices[0].spec.entries} >= set(last)


async def test_slices_that_somebody_deleted_are_written_again_with_the_same_names(
    stage: Stage, operator: Operator
) -> None:
    """M4: a member without an entry still has its Pod, and what is on it."""
    await stage.create()
    await stage.settled(3)
    before, pods = await stage.entries(), await stage.pods()
    await stage.client.delete(NODESLICES, "gpu-0", Deletion(), namespace=stage.namespace)
    await eventually(stage.entries, lambda found: found == before)
    await stage.settled(3)
    assert {pod.metadata.uid for pod in (await stage.pods()).values()} == {pod.metadata.uid for pod in pods.values()}
    assert operator.deleted() == []


async def test_the_status_says_how_many_members_a_reader_has_to_see(stage: Stage, operator: Operator) -> None:
    del operator
    await stage.create()
    found = await stage.settled(3)
    assert (found.status.members, found.status.slices) == (3, 1)
    assert found.status.observed_generation == found.metadata.generation


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_two_thousand_nodes_get_their_pods_and_then_nothing_is_written(kube: Kube, staging: Staging) -> None:
    count = 2000
    async with staging(nodes=count) as stage, Operator(kube) as operator:
        await stage.create()
        await eventually(stage.nodeset, lambda one: one.status.number_ready == count, seconds=600)
        await stage.settled(count)
        slices = await stage.slices()
        assert len(slices) == count // SIZE
        entries = [entry for one in slices for entry in one.spec.entries]
        assert {len(one.spec.entries) for one in slices} == {SIZE}
        assert len({entry.name for entry in entries}) == count
        pods = await stage.pods()
        assert {pod.spec.node_name for pod in pods.values()} == set(stage.nodes)
        assert {entry.name: entry.node for entry in entries} == {name: pod.spec.node_name for name, pod in pods.items()}
        written = len(operator.tried)
        # One more look at everything, which ends in a status: nothing else is to be written for it.
        await stage.change(replicas=count)
        await stage.settled(count)
        # The status can be read before the answer to its write has come back to the operator.
        await eventually(stage.nodeset, lambda _: len(operator.tried) > written)
        assert {one.resource for one in operator.tried[written:]} == {"nodesets/status"}
        assert len(operator.tried) - written <= 2
