"""The lock of a Node on a real API server, with Kubernetes' own eviction: who is waited for, and what people may do to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from msgspec import json
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Operator, Stage, eventually
from tests.integration.operator.locks import (
    EIGHT,
    EVERYTHING,
    SEVEN,
    STRICT,
    ask,
    freed,
    history,
    idle,
    is_locked,
    node_event,
    node_events,
    pod_says,
    seen,
    stays,
    tenant,
    there,
    unlocked,
    words,
)
from tests.integration.operator.scene import BESIDE, POD, clean, joined, node_says, whole

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Json, Merge
from sunk.kube.core import NODES, PODS, Node
from sunk.kube.errors import Conflict, Invalid, NotFound
from sunk.local.fakekubelet import FLEET, NodeTraits, steer
from sunk.local.fakekubelet.behaviour import annotations
from sunk.model import names
from sunk.model.contract.lock import LockAnswer, LockRequest
from sunk.operator.node.controller import nodes
from sunk.operator.node.lock import is_tainted, operations
from sunk.operator.node.tenants import MIRROR
from sunk.operator.nodeset.controller import nodesets
from sunk.operator.pod.controller import pods
from sunk.service.part import Build

AT_ONCE: tuple[Build, ...] = (pods, nodesets, partial(nodes, lock_linger=0.0))


def bounded(seconds: int) -> dict[str, Any]:
    return {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


@pytest.fixture
async def operator(kube: Kube, stage: Stage) -> AsyncIterator[Operator]:
    """All of it that concerns Nodes, with three nodes that have joined. Nothing lingers."""
    async with whole(kube, builds=AT_ONCE) as made:
        await stage.create(cluster="slurm")
        await stage.settled(3)
        await joined(stage, POD, "gpu-000-002", "gpu-000-003")
        yield made


# How it comes about


async def test_taint_and_pending_come_first_and_locked_when_nobody_is_there(stage: Stage, operator: Operator) -> None:
    async with history(stage) as told:
        await ask(stage, SEVEN)
        await pod_says(stage, "locked")
        await idle(stage)
        await pod_says(stage, "false")
    assert words(told) == ["pending 1 tainted", "locked 1 tainted", "false 1"]
    node = await stage.node(stage.nodes[0])
    assert node.metadata.labels[names.LOCK] == "false"
    assert operator.deleted() == []


async def test_a_whole_cycle_costs_three_writes_to_lock_and_two_to_unlock(
    stage: Stage, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the request itself, and beside what the Node says of Slurm in a condition."""
    # On a machine that is starved `pending` would last long enough to be copied as well.
    monkeypatch.setattr("sunk.operator.pod.controller.MOMENT", 3600.0)
    await operator.caught_up()
    operator.writes.clear()
    await idle(stage)
    await node_says(stage, names.SLURM_RUNNING, "False")
    await operator.answered(lambda _: "nodes/status" in _writes(operator))
    await operator.caught_up()
    operator.writes.clear()
    await ask(stage, SEVEN)
    await pod_says(stage, "locked")
    await node_says(stage, names.SLURM_RUNNING, "True")
    await operator.answered(lambda _: len(_writes(operator)) >= 4)
    assert _writes(operator) == ["nodes", "nodes", "nodes/status", "pods"]
    operator.writes.clear()
    await idle(stage)
    await pod_says(stage, "false")
    await node_says(stage, names.SLURM_RUNNING, "False")
    await operator.answered(lambda _: len(_writes(operator)) >= 3)
    assert _writes(operator) == ["nodes", "nodes/status", "pods"]


def _writes(operator: Operator) -> list[str]:
    return sorted(one.resource for one in operator.writes if one.resource.startswith(("nodes", "pods")))


async def test_a_job_waits_until_other_work_is_evicted_and_that_is_told(stage: Stage, operator: Operator) -> None:
    del operator
    await tenant(stage, "web", stop_after="600s")
    await ask(stage, SEVEN)
    await pod_says(stage, "pending")
    assert "web" in await there(stage)
    await steer(stage.client, PODS, "web", namespace=stage.namespace, stop_after="0s")
    await is_locked(stage)
    await pod_says(stage, "locked")
    left = (await there(stage)).get("web")
    assert left is None or left.status.phase in {"Succeeded", "Failed"}
    assert f"{stage.namespace}/web" in await node_event(stage, "Evicting")


async def test_the_end_of_a_pod_calls_for_the_lock_and_no_timer_is_needed(
    stage: Stage, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    del operator
    monkeypatch.setattr("sunk.operator.node.lockcontrol.RELIST", 3600.0)
    await tenant(stage, "web", stop_after="1s")
    await tenant(stage, "orphan", meta={"annotations": {names.JOB_ID: "6"}}, tolerations=EVERYTHING)
    await ask(stage, SEVEN)
    await pod_says(stage, "pending")
    await stage.client.delete(PODS, "orphan", namespace=stage.namespace)
    await is_locked(stage)


async def test_a_pod_that_is_bound_in_the_same_moment_is_never_beside_a_job(stage: Stage, operator: Operator) -> None:
    """L3: whatever comes first, the Pod was waited for, or its kubelet has refused it."""
    del operator
    for number in range(1, 9):
        body = {"nodeName": stage.nodes[0], "containers": [{"name": "main", "image": "none"}]}
        made = {"metadata": {"name": f"web-{number}"}, "spec": body}
        await asyncio.gather(
            ask(stage, LockRequest(number, runs=SEVEN.runs)),
            stage.client.create(PODS, made, namespace=stage.namespace),
        )
        await is_locked(stage, number=number)
        running = [pod for pod in (await there(stage)).values() if pod.status.phase == "Running"]
        assert running == []
        await idle(stage, LockRequest(number))
        await is_locked(stage, "false", number)
        with suppress(NotFound):  # one that was refused stays
            how = Deletion(grace_period_seconds=0)
            await stage.client.delete(PODS, f"web-{number}", how, namespace=stage.namespace)


async def test_a_bounded_toleration_is_waited_for(stage: Stage, operator: Operator) -> None:
    """L10."""
    del operator
    await tenant(stage, "web", tolerations=[bounded(3)])
    clock = asyncio.get_running_loop().time
    async with history(stage) as told:
        began = clock()
        await ask(stage, SEVEN)
        await is_locked(stage)
        assert clock() - began >= 3
    assert words(told) == ["pending 1 tainted", "locked 1 tainted"]
    assert all(pod.status.phase != "Running" for pod in (await there(stage)).values())


async def test_who_does_not_count_is_not_waited_for(stage: Stage, operator: Operator) -> None:
    del operator
    await tenant(stage, "agent", tolerations=EVERYTHING)
    await tenant(stage, "mirror", stop_after="600s", meta={"annotations": {MIRROR: "x"}})
    await tenant(stage, "done", meta={"annotations": annotations(exit_after="0s")}, restartPolicy="Never")
    await tenant(stage, "placed", meta={"annotations": {names.JOB_ID: "7"}}, tolerations=EVERYTHING)
    await eventually(lambda: stage.pod("done"), lambda pod: pod.status.phase == "Succeeded")
    await ask(stage, STRICT)
    await is_locked(stage, "locked_strict")
    assert {"agent", "placed"} <= (await there(stage)).keys()


async def test_a_pod_whose_job_does_not_hold_the_node_is_an_orphan(stage: Stage, operator: Operator) -> None:
    del operator
    await tenant(stage, "orphan", meta={"annotations": {names.JOB_ID: "6"}}, tolerations=EVERYTHING)
    await ask(stage, SEVEN)
    await pod_says(stage, "pending")
    await stays(stage, "pending")
    await stage.client.delete(PODS, "orphan", namespace=stage.namespace)
    await is_locked(stage)


async def test_a_normal_lock_waits_for_containers_and_a_strict_one_for_objects(
    stage: Stage, operator: Operator
) -> None:
    """L16."""
    del operator
    await tenant(stage, "web", meta={"finalizers": ["example.com/stay"]})
    await ask(stage, SEVEN)
    await is_locked(stage)
    strict = LockRequest(2, strict=True, runs=SEVEN.runs)
    await ask(stage, strict)
    await is_locked(stage, "pending", 2)
    await stays(stage, "pending")
    await freed(stage, "web")
    await is_locked(stage, "locked_strict", 2)
    await ask(stage, LockRequest(3, strict=True, runs=EIGHT.runs))
    await pod_says(stage, "locked_strict", 3)


async def test_who_keeps_a_job_waiting_is_told_with_the_reason(
    stage: Stage, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    del operator
    monkeypatch.setattr("sunk.operator.node.lockcontrol.WAITED", 1.0)
    monkeypatch.setattr("sunk.operator.node.lockcontrol.RELIST", 0.5)
    await tenant(stage, "web", meta={"finalizers": ["example.com/stay"]})
    await ask(stage, STRICT)
    wanted = f"Lock for job 7 waits for 1 Pod: {stage.namespace}/web (kept by finalizer example.com/stay)"
    # Before it has stopped, another reason may have been told.
    await eventually(lambda: node_events(stage, "LockWaiting"), lambda notes: wanted in notes)
    await freed(stage, "web")
    await is_locked(stage, "locked_strict")


async def test_a_node_that_is_only_slurms_is_locked_from_the_start_and_a_change_frees_it(
    kube: Kube, stage: Stage
) -> None:
    async with whole(kube, builds=AT_ONCE):
        await stage.create(cluster="slurm", sharing="slurmOnly")
        await stage.settled(3)
        await is_locked(stage, number=0)
        await idle(stage, LockRequest())
        await stays(stage, "locked")
        await stage.change(sharing="open")
        await is_locked(stage, "false", 0)


# How it ends


async def test_an_idle_node_stays_locked_for_a_while_and_the_next_job_finds_it_so(kube: Kube, stage: Stage) -> None:
    """L9."""
    builds: tuple[Build, ...] = (pods, nodesets, partial(nodes, lock_linger=20.0))
    async with whole(kube, builds=builds):
        await stage.create(cluster="slurm")
        await stage.settled(3)
        async with history(stage) as told:
            await ask(stage, SEVEN)
            await is_locked(stage)
            await idle(stage)
            await stays(stage, "locked", seconds=1)
            await ask(stage, EIGHT)
            await is_locked(stage, number=2)
            await idle(stage, LockRequest(2))
            await is_locked(stage, "false", 2)
    assert words(told) == ["pending 1 tainted", "locked 1 tainted", "locked 2 tainted", "false 2"]


async def test_what_is_not_known_keeps_the_lock(stage: Stage, operator: Operator) -> None:
    """L12: a new Pod says nothing yet, and what it had been told before is not its own."""
    del operator
    await ask(stage, SEVEN)
    before = await pod_says(stage, "locked")
    await stage.client.delete(PODS, POD, Deletion(grace_period_seconds=0), namespace=stage.namespace)
    new = await eventually(lambda: stage.running(POD), lambda pod: pod.metadata.uid != before.metadata.uid)
    assert names.LOCK not in new.metadata.annotations
    await stays(stage, "locked")
    assert names.LOCK not in (await stage.pod(POD)).metadata.annotations
    await ask(stage, SEVEN)
    await pod_says(stage, "locked")
    await idle(stage)
    await pod_says(stage, "false")


# What people and machines do to it


async def test_a_taint_taken_off_by_hand_comes_back_and_others_are_not_touched(
    stage: Stage, operator: Operator
) -> None:
    """L13, L15."""
    del operator
    theirs = {"key": "example.com/fan", "effect": "PreferNoSchedule", "timeAdded": "2026-01-01T08:00:00Z"}
    theirs_alone = Merge({"spec": {"taints": [theirs]}})
    await stage.client.patch(NODES, stage.nodes[0], theirs_alone)
    await ask(stage, SEVEN)
    await is_locked(stage)
    assert theirs in await _taints(stage)
    async with history(stage) as told:
        await stage.client.patch(NODES, stage.nodes[0], theirs_alone)
        await eventually(lambda: stage.node(stage.nodes[0]), is_tainted)
        await is_locked(stage)
    assert words(told)[-2:] == ["pending 1 tainted", "locked 1 tainted"]
    assert theirs in await _taints(stage)
    await idle(stage)
    await unlocked(stage)
    assert await _taints(stage) == [theirs]


async def _taints(stage: Stage) -> list[dict[str, str]]:
    """With all their fields."""
    found = json.decode(await stage.client.request("GET", NODES.path(name=stage.nodes[0])))
    taints: list[dict[str, str]] = found["spec"].get("taints", [])
    return taints


async def test_a_node_that_registers_again_is_locked_again(stage: Stage, operator: Operator) -> None:
    """L13."""
    del operator
    await ask(stage, SEVEN)
    node = await is_locked(stage)
    await stage.client.delete(NODES, stage.nodes[0], Deletion(preconditions=Preconditions(uid=node.metadata.uid)))
    size = {"cpu": "128", "memory": "1Ti", "pods": "250"}
    status = {"addresses": [{"type": "InternalIP", "address": "10.80.0.1"}], "capacity": size, "allocatable": size}
    made = {"metadata": {"name": stage.nodes[0], "labels": {FLEET: stage.fleet}}, "status": status}
    await stage.client.create(NODES, made)
    again = await is_locked(stage)
    assert again.metadata.uid != node.metadata.uid


@pytest.mark.parametrize("left", ["taint", "annotation", "nonsense"])
async def test_whatever_somebody_who_died_has_left_ends_in_the_lock(kube: Kube, stage: Stage, left: str) -> None:
    async with whole(kube, builds=AT_ONCE):
        await stage.create(cluster="slurm")
        await stage.settled(3)
        await joined(stage)
    await ask(stage, SEVEN)
    uid = (await stage.pod(POD)).metadata.uid
    taint = [{"key": names.LOCK, "value": "true", "effect": "NoExecute"}]
    half: dict[str, dict[str, Any]] = {
        "taint": {"spec": {"taints": taint}},
        "annotation": {"metadata": {"annotations": LockAnswer("locked", 1, uid).annotations}},
        "nonsense": {"metadata": {"annotations": {names.LOCK: "yes", names.LOCK_NUMBER: "many"}}},
    }
    await stage.client.patch(NODES, stage.nodes[0], Merge(half[left]))
    await tenant(stage, "web", tolerations=[bounded(2)])
    async with whole(kube, builds=AT_ONCE):
        await is_locked(stage)
        assert all(pod.status.phase != "Running" for pod in (await there(stage)).values())
        await pod_says(stage, "locked")


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.006, 0.01, 0.02])
async def test_an_operator_killed_at_any_moment_goes_on_where_it_was(kube: Kube, stage: Stage, pause: float) -> None:
    async with whole(kube, builds=AT_ONCE) as operator:
        await stage.create(cluster="slurm")
        await stage.settled(3)
        for number in range(1, 4):
            await ask(stage, LockRequest(number, runs=SEVEN.runs))
            await asyncio.sleep(pause * number)
            await operator.kill()
            operator.start()
        await is_locked(stage, number=3)
        await pod_says(stage, "locked", 3)
        await idle(stage, LockRequest(3))
        await asyncio.sleep(pause)
        await operator.kill()
        operator.start()
        await is_locked(stage, "false", 3)
        await pod_says(stage, "false", 3)


async def test_a_write_upon_another_version_is_refused(stage: Stage) -> None:
    """By one error or the other: the server applies the operations before it compares versions."""
    node = await stage.node(stage.nodes[0])
    answer = LockAnswer("locked", 1, "pod")
    await stage.label(stage.nodes[0], touched="yes")
    with pytest.raises(Conflict):
        await stage.client.patch(NODES, stage.nodes[0], Json(operations(node, answer)))
    locked = await _written(stage, answer)
    assert is_tainted(locked)
    freed = await _written(stage, None)
    assert not is_tainted(freed)
    with pytest.raises(Invalid):
        await stage.client.patch(NODES, stage.nodes[0], Json(operations(locked, None)))


async def _written(stage: Stage, answer: LockAnswer | None) -> Node:
    """Write it upon the version that the Node has now, whoever else writes to it."""
    while True:
        fresh = await stage.node(stage.nodes[0])
        with suppress(Conflict):
            return await stage.client.patch(NODES, stage.nodes[0], Json(operations(fresh, answer)))


# Leaving


async def test_a_node_that_leaves_is_clean_of_its_lock(kube: Kube, staging: Staging) -> None:
    """L14: also while it lingers."""
    traits = {number: NodeTraits(labels={"pool": "a"}) for number in range(2)}
    async with staging(nodes=2, traits=traits) as stage, whole(kube), stage.syncer():
        await stage.create(template=stage.template(pool="a"), cluster="slurm")
        await stage.settled(2)
        await ask(stage, SEVEN)
        await is_locked(stage)
        await stage.label(stage.nodes[0], pool=None)
        await stays(stage, "locked")  # a job runs there
        await idle(stage)
        assert not is_tainted(await clean(stage))


async def test_a_nodeset_that_vanished_leaves_no_lock_behind(kube: Kube, stage: Stage) -> None:
    async with whole(kube, builds=AT_ONCE) as operator:
        await stage.create(cluster="slurm")
        await stage.settled(3)
        await ask(stage, SEVEN)
        await is_locked(stage)
        await operator.kill()
        await stage.close()
        with suppress(NotFound):  # Kubernetes collects what the NodeSet has left
            await stage.client.delete(PODS, POD, Deletion(grace_period_seconds=0), namespace=stage.namespace)
        operator.start()
        assert not is_tainted(await clean(stage))


async def test_a_node_that_moves_begins_without_the_lock_of_the_one_that_it_left(kube: Kube, staging: Staging) -> None:
    """L17."""
    async with (
        staging(nodes=1, traits={0: NodeTraits(labels={"pool": "a"})}) as stage,
        whole(kube, builds=AT_ONCE),
        stage.syncer(),
    ):
        first = await stage.create("one", template=stage.template(pool="a"), cluster="one")
        second = await stage.create("two", template=stage.template(pool="b"), cluster="two")
        await stage.settled(1, "one")
        await ask(stage, SEVEN, pod="one-000-001")
        await is_locked(stage)
        owner = seen(await stage.node(stage.nodes[0])).owner
        async with history(stage) as told:
            await stage.label(stage.nodes[0], pool="b")
            await idle(stage, pod="one-000-001")
            await stage.settled(1, "two")
            await ask(stage, SEVEN, pod="two-000-001")
            await pod_says(stage, "locked", pod="two-000-001")
    assert {one.claim for one in told} >= {first.metadata.uid, second.metadata.uid}
    assert not [one for one in told if one.claim == second.metadata.uid and one.owner == owner]


async def test_an_operator_for_other_namespaces_leaves_locks_alone(kube: Kube, stage: Stage) -> None:
    async with whole(kube, builds=AT_ONCE):
        await stage.create(cluster="slurm")
        await stage.settled(3)
        await ask(stage, SEVEN)
        await is_locked(stage)
    async with whole(kube, builds=BESIDE, namespaces=("default",)) as stranger:
        await stage.client.patch(NODES, stage.nodes[0], Merge({"spec": {"taints": None}}))
        await idle(stage)
        await stranger.caught_up()
        await asyncio.sleep(0.5)
        assert stranger.writes == []
