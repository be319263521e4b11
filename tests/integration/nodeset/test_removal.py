"""How members leave: in which order, upon whose word, and what is left of them."""

import asyncio
import time
from contextlib import suppress

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Operator, Stage, eventually, message, says

from sunk.kube.api.client import Deletion, Scope
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.core import NODES, PODS, Pod
from sunk.kube.errors import NotFound
from sunk.local.fakekubelet import NodeTraits, steer
from sunk.model import names
from sunk.objects.nodesets import NODESETS, NODESLICES, claim_of
from sunk.operator.nodeset.observe import reader


async def gone_sets(stage: Stage) -> bool:
    return not (await stage.client.list(NODESETS, Scope(namespace=stage.namespace))).items


async def marks_of(stage: Stage, node: str) -> list[str]:
    """Everything of ours on a Node."""
    found = (await stage.node(node)).metadata
    return [mark for mark in (*found.labels, *found.annotations) if mark.startswith(names.GROUP)]


async def so_many_marked(stage: Stage, count: int) -> dict[str, str]:
    return await eventually(stage.marked, lambda found: len(found) == count)


async def clean(stage: Stage, node: str) -> None:
    await eventually(lambda: marks_of(stage, node), lambda found: not found)


# One after the other


async def test_who_leaves_first_is_not_ready_then_idle_then_draining_then_running(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=5) as stage, Operator(kube) as operator:
        await stage.create()
        await stage.settled(5)
        await stage.say("gpu-000-005", SlurmRunning=True)
        await stage.say("gpu-000-004", SlurmRunning=True, SlurmDrain=True)
        await stage.say("gpu-000-003", SlurmRunning=False, SlurmDrain=True)
        await steer(stage.client, PODS, "gpu-000-001", namespace=stage.namespace, ready="false")
        await eventually(lambda: stage.pod("gpu-000-001"), lambda pod: not says(pod, "Ready"))
        await operator.caught_up()
        order = []
        for left in (4, 3, 2):
            await stage.change(replicas=left)
            marked = await so_many_marked(stage, 5 - left)
            order += [name for name in marked if name not in order]
        assert order == ["gpu-000-001", "gpu-000-002", "gpu-000-003"]
        await stage.change(replicas=0)
        assert set((await eventually(stage.marked, lambda found: len(found) == 5)).values()) == {"scaled in"}
        assert operator.deleted() == [], "no syncer has answered"


@pytest.mark.full
async def test_of_equals_the_newest_leaves_first(stage: Stage, operator: Operator) -> None:
    del operator
    await stage.create()
    await stage.settled(3)
    old = await stage.pods()
    await stage.client.delete(PODS, "gpu-000-001", namespace=stage.namespace)
    pods = await eventually(stage.pods, lambda pods: _is_another(pods, old, name="gpu-000-001"))
    made = {name: pod.metadata.creation_timestamp for name, pod in pods.items()}
    await stage.change(replicas=2)
    marked = await eventually(stage.marked, bool)
    # Dates are whole seconds, so that others may be as new as the one that was made last.
    assert made[next(iter(marked))] == made["gpu-000-001"]


def _is_another(pods: dict[str, Pod], old: dict[str, Pod], *, name: str) -> bool:
    return name in pods and pods[name].metadata.uid != old[name].metadata.uid and says(pods[name], "Ready")


async def test_a_member_leaves_in_steps_and_leaves_nothing_behind(stage: Stage, operator: Operator) -> None:
    await stage.create(cluster="c")
    await stage.settled(3)
    await stage.change(replicas=2)
    name = next(iter(await eventually(stage.marked, bool)))
    node = (await stage.entries())[name].node
    await eventually(stage.states, lambda found: found[name] == "leaving")
    assert operator.deleted() == []
    await stage.clear(name)
    await eventually(stage.pods, lambda pods: name not in pods)
    assert await operator.has_deleted(1) == [name]
    found = await eventually(stage.nodeset, lambda one: one.status.replicas == 2)
    assert found.status.members == 3, "the name is taken until Slurm has forgotten it"
    assert await marks_of(stage, node)
    await stage.release(name)
    await stage.settled(2)
    assert name not in await stage.entries()
    await clean(stage, node)
    assert name in await stage.event("Left")


async def test_who_turns_round_in_time_stays_and_is_cleared_of_nothing(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    operator.leads = False  # or else a Pod that is cleared would be gone at once
    await stage.change(replicas=2)
    name = next(iter(await eventually(stage.marked, bool)))
    before = await stage.pod(name)
    await stage.clear(name)
    await stage.change(replicas=3)
    await eventually(stage.marked, lambda found: not found)
    operator.leads = True
    await stage.settled(3)
    pod = await stage.pod(name)
    assert pod.metadata.uid == before.metadata.uid
    assert names.CLEAR_TO_DELETE not in pod.metadata.annotations
    assert set((await stage.states()).values()) == {"joined"}


async def test_a_pod_is_recreated_when_the_syncer_asks_for_it_and_not_long_after(
    stage: Stage, operator: Operator
) -> None:
    await stage.create()
    await stage.settled(3)
    first, second, third = sorted(await stage.pods())
    before = await stage.pod(first)

    async def ask(name: str, at: float, *conditions: dict[str, str]) -> None:
        mark = {names.RESTART: f"{int(at)}:Slurm has no node of this name"}
        patch = Strategic({"metadata": {"annotations": mark}, "status": {"conditions": conditions}})
        await stage.client.patch(PODS, name, patch, namespace=stage.namespace, subresource="status")

    await ask(second, time.time() - 3600)
    await ask(third, time.time(), {"type": names.SLURM_RUNNING, "status": "True"})
    await ask(first, time.time())
    await eventually(stage.pods, lambda found: first in found and found[first].metadata.uid != before.metadata.uid)
    await stage.settled(3)
    assert operator.deleted() == [first], "an old request is not heeded, nor one for a node that runs a job by now"


@pytest.mark.full
async def test_a_clearance_without_a_mark_deletes_nothing(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    await stage.clear("gpu-000-001")
    await stage.change(replicas=2)
    await stage.client.patch(NODES, stage.nodes[0], Merge({"metadata": {"labels": {"x": "y"}}}))
    await eventually(stage.marked, bool)
    assert "gpu-000-001" not in operator.deleted()


async def test_a_pod_that_never_started_needs_no_clearance(stage: Stage, operator: Operator) -> None:
    await stage.create(template=stage.template(**{"fake-kubelet.sunk/start-after": "1h"}))
    await eventually(stage.pods, lambda pods: len(pods) == 3)
    await stage.change(replicas=0)
    await eventually(stage.pods, lambda pods: not pods)
    assert len(await operator.has_deleted(3)) == 3
    await stage.release(*await stage.entries())
    await stage.settled(0)


async def test_a_member_that_slurm_does_not_let_go_is_said_and_holds_up_nobody(
    stage: Stage, operator: Operator
) -> None:
    """M7."""
    del operator
    await stage.create()
    await stage.settled(3)
    await stage.change(replicas=1)
    one, other = await eventually(stage.marked, lambda found: len(found) == 2)
    for name in (one, other):
        await stage.clear(name)
    await eventually(stage.pods, lambda pods: len(pods) == 1)
    await stage.release(other, refused=[(one, "it is in a reservation")])
    await eventually(stage.entries, lambda found: other not in found)
    found = await eventually(stage.nodeset, lambda found: "it is in a reservation" in message(found, "Progressing"))
    assert says(found, "Progressing")
    assert one in await stage.entries()


# All at once


async def test_force_deletes_at_once_and_says_what_it_kills(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    await stage.say("gpu-000-001", SlurmRunning=True)
    await stage.say("gpu-000-002", SlurmRunning=False)
    await stage.change(replicas=0)
    await eventually(stage.marked, lambda found: len(found) == 3)
    assert operator.deleted() == []
    await stage.annotate(force_deletion="true")
    await stage.settled(0)
    await eventually(
        lambda: stage.events("Forced"),
        lambda found: any("gpu-000-001" in one.note and "was running" in one.note for one in found),
    )
    assert await stage.entries() == {}


async def test_a_deleted_set_goes_when_its_nodes_have_left_and_not_before(stage: Stage, operator: Operator) -> None:
    """M8."""
    await stage.create()
    await stage.settled(3)
    await stage.client.delete(NODESETS, "gpu", namespace=stage.namespace)
    marked = await eventually(stage.marked, lambda found: len(found) == 3)
    assert set(marked.values()) == {"the NodeSet is deleted"}
    assert operator.deleted() == []
    assert (await stage.nodeset()).metadata.finalizers == (names.FINALIZER,)
    async with stage.syncer():
        await eventually(lambda: gone_sets(stage), bool)
    for node in stage.nodes:
        assert not await marks_of(stage, node)
    await eventually(stage.slices, lambda found: not found)


async def test_a_set_deleted_in_mid_rollout_gives_up_the_rollout(stage: Stage, operator: Operator) -> None:
    await stage.create(updateStrategy={"rollingUpdate": {"maxUnavailable": 1}})
    await stage.settled(3)
    await stage.change(template=stage.template(colour="red"))
    await eventually(stage.marked, lambda found: len(found) == 1)
    await stage.client.delete(NODESETS, "gpu", namespace=stage.namespace)
    await eventually(stage.marked, lambda found: set(found.values()) == {"the NodeSet is deleted"} and len(found) == 3)
    assert operator.deleted() == []
    async with stage.syncer():
        await eventually(lambda: gone_sets(stage), bool)


async def test_a_set_that_is_made_again_under_its_name_starts_over(stage: Stage, operator: Operator) -> None:
    async with stage.syncer():
        first = await stage.create()
        await stage.settled(3)
        await stage.client.delete(NODESETS, "gpu", namespace=stage.namespace)
        await eventually(lambda: gone_sets(stage), bool)
        second = await stage.create()
        await stage.settled(3)
    assert first.metadata.uid != second.metadata.uid
    made = [one.code for one in operator.tried if one.verb == "create" and one.resource == "nodeslices"]
    assert made == [201, 201], "no slice of the first was in the way of the second"
    for one in await stage.slices():
        assert one.spec.node_set_uid == second.metadata.uid
        assert [owner.uid for owner in one.metadata.owner_references] == [second.metadata.uid]
    for pod in (await stage.pods()).values():
        assert [owner.uid for owner in pod.metadata.owner_references] == [second.metadata.uid]


# Nodes that no longer fit


async def test_a_node_that_no_longer_fits_leaves_and_may_come_back_as_it_was(stage: Stage, operator: Operator) -> None:
    await stage.label(stage.nodes[0], pool="blue")
    await stage.label(stage.nodes[1], pool="blue")
    await stage.create(template=stage.template(pool="blue"))
    await stage.settled(2)
    await stage.label(stage.nodes[0], pool=None)
    await stage.taint(stage.nodes[1], "sick")
    marked = await eventually(stage.marked, lambda found: len(found) == 2)
    assert "affinity" in marked["gpu-000-001"]
    assert "sick" in marked["gpu-000-002"]
    await eventually(stage.nodeset, lambda one: one.status.number_misscheduled == 2)
    await stage.label(stage.nodes[0], pool="blue")
    await stage.taint(stage.nodes[1], "sick", on=False)
    await stage.settled(2)
    await eventually(stage.marked, lambda found: not found)
    assert operator.deleted() == []


async def test_a_node_that_comes_back_too_late_joins_again_when_slurm_has_forgotten_it(
    stage: Stage, operator: Operator
) -> None:
    """M6: the name belongs to the syncer in between."""
    await stage.create()
    await stage.settled(3)
    await stage.taint(stage.nodes[0], "sick")
    await eventually(stage.marked, bool)
    await stage.clear("gpu-000-001")
    await eventually(stage.pods, lambda pods: "gpu-000-001" not in pods)
    await stage.taint(stage.nodes[0], "sick", on=False)
    await eventually(stage.nodeset, lambda one: one.status.number_misscheduled == 0)
    assert (await stage.states())["gpu-000-001"] == "leaving"
    assert "gpu-000-001" not in await stage.pods()
    async with stage.syncer():
        await stage.settled(3)
    assert operator.deleted() == ["gpu-000-001"]


async def test_a_great_loss_is_held_until_it_is_accepted(kube: Kube, staging: Staging) -> None:
    """A label taken from all Nodes, one after the other, is rather a mistake."""
    traits = {number: NodeTraits(labels={"pool": "blue"}) for number in range(8)}
    async with staging(nodes=8, traits=traits) as stage, Operator(kube) as operator:
        await stage.create(template=stage.template(pool="blue"))
        await stage.settled(8)
        for node in stage.nodes:
            await stage.label(node, pool=None)
        told = await stage.told("Held", holds=True)
        assert names.ACCEPT_LOSS in told
        assert await stage.event("Held")
        states = list((await stage.states()).values())
        assert states.count("joined") >= 4, "at most half has left before the loss was seen"
        assert operator.deleted() == []
        await stage.annotate(accept_loss="8")
        await eventually(stage.marked, lambda found: len(found) == 8)
        await stage.told("Held", holds=False)


@pytest.mark.full
async def test_a_great_loss_is_over_when_the_nodes_are_back(kube: Kube, staging: Staging) -> None:
    traits = {number: NodeTraits(labels={"pool": "blue"}) for number in range(6)}
    async with staging(nodes=6, traits=traits) as stage, Operator(kube) as operator:
        await stage.create(template=stage.template(pool="blue"))
        await stage.settled(6)
        async with asyncio.TaskGroup() as group:
            for node in stage.nodes:
                group.create_task(stage.label(node, pool=None))
        await stage.told("Held", holds=True)
        for node in stage.nodes:
            await stage.label(node, pool="blue")
        await stage.told("Held", holds=False)
        await eventually(stage.marked, lambda found: not found)
        await stage.settled(6)
        assert operator.deleted() == []


async def test_nodes_that_vanish_all_at_once_are_held(
    kube: Kube, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "GRACE", 0.5)
    async with staging(nodes=6) as stage, Operator(kube) as operator:
        await stage.create()
        await stage.settled(6)
        async with asyncio.TaskGroup() as group:
            for node in stage.nodes:
                group.create_task(stage.client.delete(NODES, node))
        await stage.told("Held", holds=True)
        assert len(await stage.entries()) == 6
        assert operator.deleted() == []


@pytest.mark.full
async def test_a_change_of_the_spec_is_meant_however_many_leave(kube: Kube, staging: Staging) -> None:
    traits = {0: NodeTraits(labels={"pool": "blue"})}
    async with staging(nodes=6, traits=traits) as stage, Operator(kube), stage.syncer():
        await stage.create()
        await stage.settled(6)
        await stage.change(template=stage.template(pool="blue"))
        await stage.settled(1)


# Nodes that vanish


async def test_a_node_that_registers_again_keeps_its_place_though_others_want_it(
    stage: Stage, operator: Operator
) -> None:
    """The claim goes with the Node object; the entry and the Pod stay, and so does the law."""
    await stage.create("a", podNamePrefix="a")
    await stage.settled(3, "a")
    await stage.create("b", podNamePrefix="b")
    await stage.settled(0, "b")
    made = await stage.nodeset("a")
    await stage.client.delete(NODES, stage.nodes[0])
    await stage.add_node(stage.nodes[0])
    await eventually(lambda: stage.node(stage.nodes[0]), lambda node: claim_of(node) == made.metadata.uid)
    await eventually(lambda: stage.nodeset("a"), lambda one: one.status.members == 3)
    assert (await stage.entries()).keys() == {"a-000-001", "a-000-002", "a-000-003"}
    assert set((await stage.states()).values()) == {"joined"}
    assert operator.deleted() == []


async def test_a_node_whose_claim_somebody_took_off_is_cleaned_all_the_same(stage: Stage, operator: Operator) -> None:
    """The claim is written again as long as it is a member; here it goes in the moment in which the member does."""
    await stage.create()
    await stage.settled(3)
    await operator.kill()
    mark = {"annotations": {names.CLAIM: None}}
    await stage.client.patch(NODES, stage.nodes[0], Merge({"metadata": mark}))
    await stage.client.delete_all(PODS, Scope(namespace=stage.namespace, labels=f"{names.COMPONENT}=compute"))
    await eventually(stage.pods, lambda pods: not pods)
    for one in await stage.slices():
        entries = [{"name": each.name, "node": each.node, "state": "leaving"} for each in one.spec.entries]
        await stage.client.patch(
            NODESLICES, one.metadata.name, Merge({"spec": {"entries": entries}}), namespace=stage.namespace
        )
    await stage.change(replicas=0)
    await stage.release(*await stage.entries())
    operator.start()
    await stage.settled(0)
    for node in stage.nodes:
        await clean(stage, node)


async def test_a_node_that_stays_away_leaves(stage: Stage, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    del operator
    monkeypatch.setattr(reader, "GRACE", 0.5)
    await stage.create()
    await stage.settled(3)
    await stage.client.delete(NODES, stage.nodes[0])
    found = await eventually(stage.entries, lambda found: found["gpu-000-001"].state == "leaving")
    assert found["gpu-000-001"].reason == "its Node is gone"
    await stage.clear("gpu-000-001")
    # Nobody is left to stop the Pod; Kubernetes takes it away after a while, and here we do.
    with suppress(NotFound):  # it may have done so by now
        await stage.client.delete(PODS, "gpu-000-001", Deletion(grace_period_seconds=0), namespace=stage.namespace)
    await eventually(stage.pods, lambda pods: "gpu-000-001" not in pods)
    async with stage.syncer():
        await stage.settled(2)


# Pods that end by themselves


async def test_a_pod_that_was_evicted_is_recreated(stage: Stage, operator: Operator) -> None:
    await stage.create()
    await stage.settled(3)
    before = await stage.pod("gpu-000-001")
    failed = Strategic({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}})
    await stage.client.patch(PODS, "gpu-000-001", failed, namespace=stage.namespace, subresource="status")
    await eventually(
        stage.pods, lambda pods: "gpu-000-001" in pods and pods["gpu-000-001"].metadata.uid != before.metadata.uid
    )
    await stage.settled(3)
    assert "low on memory" in await stage.event("Replaced")
    assert operator.deleted() == ["gpu-000-001"]
    assert (await stage.states())["gpu-000-001"] == "joined"


async def test_a_pod_that_is_refused_again_and_again_is_made_later_and_later(stage: Stage, operator: Operator) -> None:
    await stage.refuse(stage.nodes[0], "OutOfcpu")
    await stage.create(replicas=1)

    async def deleted() -> int:
        return len(operator.deleted())

    await eventually(deleted, lambda found: found >= 3)
    # Each waits from when the one before was decided on, which is some time after that Pod was made.
    _, first, second = operator.sent("create")[:3]
    assert operator.sent("delete")[1] - first > 0.9
    assert operator.sent("delete")[2] - second > 1.8
