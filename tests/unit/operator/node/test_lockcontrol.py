"""How a lock comes about and ends, one request after the other, and what happens in between."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.operator.node.scripted import COMPUTE, NODE, Scene, idle_for

from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockAnswer, LockRequest
from sunk.operator.node.lock import is_marked, is_tainted
from sunk.operator.node.lockcontrol import AGAIN, RELIST, WAITED, LockProgress, TaintLost

pytestmark = pytest.mark.looptime

SEVEN = LockRequest(1, runs=(JobRun(7),))
BOTH = LockRequest(2, runs=(JobRun(7), JobRun(8)))
LIST = "list pods by spec.nodeName"
READ = "list pods by metadata.name"
GOING: dict[str, Any] = {"deletionTimestamp": "2026-11-18T10:00:00Z", "deletionGracePeriodSeconds": 600}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.close()


def locked(scene: Scene, request: LockRequest = SEVEN) -> None:
    """Have the Node locked for a job that runs."""
    answer = LockAnswer("locked", request.number, COMPUTE)
    node = scene.world.nodes[NODE]
    node["metadata"] |= {"annotations": dict(answer.annotations), "labels": {names.LOCK: answer.state}}
    node["spec"]["taints"] = [{"key": names.LOCK, "value": "true", "effect": "NoExecute"}]
    scene.world.touch(node)
    scene.world.ask(request, running="True")
    scene.deliver()


async def test_an_empty_node_takes_two_writes_and_a_list_between_them(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    assert await scene.follow() == LockProgress(wrote=True)
    assert scene.world.steps == ["pending 1 tainted", LIST, "locked 1 tainted"]
    assert await scene.follow() == LockProgress()
    assert scene.answer == LockAnswer("locked", 1, COMPUTE)
    assert scene.node.metadata.labels[names.LOCK] == "locked"
    assert [*scene.notes()] == []


async def test_a_pod_that_was_bound_a_moment_before_is_seen_though_no_cache_has_it(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    scene.world.put_pod("late")
    assert await scene.follow() == LockProgress(wrote=True, wait=RELIST)
    assert scene.world.steps == ["pending 1 tainted", LIST]
    assert NODE in scene.control.pending


async def test_whoever_is_known_to_be_in_the_way_is_waited_for_without_a_list(scene: Scene) -> None:
    scene.world.put_pod("web")
    scene.world.ask(SEVEN)
    scene.deliver()
    assert await scene.follow() == LockProgress(wrote=True, wait=RELIST)
    await scene.follow()
    assert scene.world.steps == ["pending 1 tainted"]
    scene.world.remove_pod("web")
    scene.deliver()
    assert await scene.follow() == LockProgress(wrote=True)
    assert scene.world.steps == ["pending 1 tainted", LIST, "locked 1 tainted"]
    assert scene.control.pending == {}


async def test_a_watch_that_is_silent_keeps_nobody_waiting_for_long(scene: Scene) -> None:
    scene.world.put_pod("web")
    scene.world.ask(SEVEN)
    scene.deliver()
    progress = await scene.follow()
    scene.world.remove_pod("web")  # and the cache does not hear of it
    assert progress.wait is not None
    await asyncio.sleep(progress.wait)
    assert (await scene.follow()).wrote
    assert scene.answer == LockAnswer("locked", 1, COMPUTE)


async def test_a_kubelet_that_writes_in_between_costs_another_try(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    reports = iter(range(3))

    def report(step: str) -> None:
        if step.startswith("patch") and next(reports, None) is not None:
            scene.world.touch(scene.world.nodes[NODE])

    scene.world.meanwhile = report
    assert await scene.follow() == LockProgress(wrote=True)
    assert scene.answer == LockAnswer("locked", 1, COMPUTE)
    assert scene.count("lock_writes_total", kind="take") == scene.count("lock_writes_total", kind="answer") == 1


async def test_who_is_overwritten_all_the_time_gives_up_for_a_moment(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()

    def write(step: str) -> None:
        if step.startswith("patch"):
            scene.world.touch(scene.world.nodes[NODE])

    scene.world.meanwhile = write
    assert await scene.follow() == LockProgress(wrote=False, wait=AGAIN)


async def test_a_node_that_registers_again_in_between_is_locked_from_the_start(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    again = iter([True])

    def register(step: str) -> None:
        if step == LIST and next(again, False):
            scene.world.put_node(uid="another")

    scene.world.meanwhile = register
    await scene.follow()
    assert scene.node.metadata.uid == "another"
    assert scene.answer == LockAnswer("locked", 1, COMPUTE)
    assert is_tainted(scene.node)
    assert scene.world.steps.count("pending 1 tainted") == 2


async def test_a_node_that_is_gone_needs_no_lock(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    scene.world.nodes.clear()
    assert await scene.follow() == LockProgress()


async def test_a_request_that_is_withdrawn_during_the_list_ends_unlocked(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()

    def cancel(step: str) -> None:
        if step == LIST:
            scene.world.ask(LockRequest(1), running="False")
            scene.deliver()

    scene.world.meanwhile = cancel
    await scene.follow()
    assert scene.world.steps == ["pending 1 tainted", LIST, READ, "false 1"]


async def test_a_request_that_grows_during_the_list_has_a_list_of_its_own(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    more = iter([True])

    def ask(step: str) -> None:
        if step == LIST and next(more, False):
            scene.world.ask(BOTH)
            scene.deliver()

    scene.world.meanwhile = ask
    await scene.follow()
    assert scene.world.steps == ["pending 1 tainted", LIST, LIST, "locked 2 tainted"]


async def test_an_orphan_holds_up_the_next_job_and_not_the_one_that_runs(scene: Scene) -> None:
    """A Pod whose job does not hold the Node any more: the lock is pending for the next one until it is gone."""
    locked(scene)
    scene.world.put_pod("orphan", annotations={names.JOB_ID: "6"})
    scene.world.pods["orphan"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    scene.world.ask(BOTH, running="True")
    scene.deliver()
    assert await scene.follow() == LockProgress(wait=RELIST)
    assert scene.answer == LockAnswer("pending", 2, COMPUTE), "or nobody could tell that the request is known"
    scene.world.remove_pod("orphan")
    scene.deliver()
    await scene.follow()
    assert scene.answer == LockAnswer("locked", 2, COMPUTE)


async def test_a_taint_that_was_taken_off_is_put_back_and_counted(scene: Scene) -> None:
    locked(scene)
    scene.world.touch(scene.world.nodes[NODE])["spec"]["taints"] = []
    scene.deliver()
    await scene.follow()
    assert scene.world.steps == ["pending 1 tainted", LIST, "locked 1 tainted"]
    assert scene.count("lock_taints_missing_total") == 1


async def test_a_taint_that_the_server_drops_is_said_and_tried_again_slowly(scene: Scene) -> None:
    scene.world.ask(SEVEN)
    scene.deliver()
    scene.world.drops_taints = True
    with pytest.raises(TaintLost, match=r"node-1: .*lock=true:NoExecute"):
        await scene.follow()
    assert scene.count("lock_taints_missing_total") == 1
    scene.world.drops_taints = False
    await scene.follow()
    assert scene.answer == LockAnswer("locked", 1, COMPUTE)


# The end


async def test_an_idle_node_is_unlocked_when_it_has_lingered(scene: Scene) -> None:
    locked(scene)
    scene.world.ask(LockRequest(1), running="False", since=idle_for(4))
    scene.deliver()
    progress = await scene.follow()
    assert not progress.wrote
    assert progress.wait == pytest.approx(6, abs=1)
    scene.world.ask(LockRequest(1), running="False", since=idle_for(11))
    scene.deliver()
    assert await scene.follow() == LockProgress(wrote=True)
    assert scene.world.steps == [READ, "false 1"]
    assert not is_tainted(scene.node)


async def test_a_pod_that_asks_again_keeps_the_lock_though_the_cache_does_not_know(scene: Scene) -> None:
    """G4: a watch that hangs shows an idle node for minutes."""
    locked(scene)
    scene.world.ask(LockRequest(1), running="False", since=idle_for(11))
    scene.deliver()
    scene.world.ask(BOTH, running="True")
    await scene.follow()
    assert scene.world.steps == [READ, LIST, "locked 2 tainted"]


async def test_a_node_that_leaves_loses_everything_of_the_lock(scene: Scene) -> None:
    locked(scene)
    scene.world.ask(LockRequest(1), running="False")
    scene.deliver()
    assert await scene.leave() == LockProgress(wrote=True)
    assert not is_marked(scene.node)
    assert await scene.leave() == LockProgress()


async def test_a_node_that_lost_its_claim_keeps_the_lock_while_its_pod_runs_a_job(scene: Scene) -> None:
    locked(scene)
    assert await scene.leave() == LockProgress(wait=RELIST)
    assert is_tainted(scene.node)
    scene.world.remove_pod(COMPUTE)
    scene.deliver()
    await scene.leave()
    assert not is_marked(scene.node)


async def test_another_pod_that_says_it_runs_a_job_keeps_no_lock(scene: Scene) -> None:
    locked(scene)
    scene.world.put_pod(uid="another")
    scene.world.ask(SEVEN, running="True")
    scene.deliver()
    await scene.leave()
    assert not is_marked(scene.node)


# What people are told


async def test_pods_about_to_be_evicted_are_named(scene: Scene) -> None:
    for number in range(7):
        scene.world.put_pod(f"web-{number}")
    scene.world.put_pod("going", **GOING)
    scene.world.ask(BOTH)
    scene.deliver()
    await scene.follow()
    named = ", ".join(f"team/web-{number}" for number in range(5))
    assert [*scene.notes()] == [f"Evicting: Evicting 7 Pods for jobs 7, 8: {named} and 2 more"]


STILL = "still running, grace period 600 s"


@pytest.mark.parametrize(
    ("meta", "spec", "status", "why"),
    [
        (GOING, {}, {}, STILL),
        ({}, {}, {}, "not told to terminate yet"),
        ({}, {"tolerations": [{"operator": "Exists", "tolerationSeconds": 300}]}, {}, "tolerates the lock for 300 s"),
        (GOING | {"finalizers": ["a/b"]}, {}, {"phase": "Failed"}, "kept by finalizer a/b"),
        (GOING, {}, {"phase": "Failed"}, "ended, but not deleted by the kubelet yet"),
        ({"annotations": {names.JOB_ID: "6"}}, {}, {}, "placed by Slurm job 6, which does not hold this Node now"),
    ],
)
async def test_who_keeps_a_job_waiting_is_named_after_a_while(
    scene: Scene, meta: dict[str, Any], spec: dict[str, Any], status: dict[str, Any], why: str
) -> None:
    scene.world.put_pod("web", **meta)
    scene.world.pods["web"]["spec"] |= spec
    scene.world.pods["web"]["status"] |= status
    scene.world.ask(LockRequest(1, strict=True, runs=(JobRun(7),)))
    scene.deliver()
    note = f"LockWaiting: Lock for job 7 waits for 1 Pod: team/web ({why})"
    waited = 0.0
    while waited < WAITED:
        assert note not in scene.notes()
        progress = await scene.follow()
        assert progress.wait is not None
        await asyncio.sleep(progress.wait)
        waited += progress.wait
    await scene.follow()
    assert note in scene.notes()


async def test_it_is_said_once_for_all_that_ask_and_again_when_something_else_is_in_the_way(scene: Scene) -> None:
    scene.world.put_pod("web", **GOING)
    scene.world.ask(SEVEN)
    scene.deliver()
    await scene.follow()
    await asyncio.sleep(WAITED / 2)
    scene.world.ask(BOTH)
    scene.deliver()
    await scene.follow()
    await asyncio.sleep(WAITED / 2)
    for _ in range(3):
        await scene.follow()
        await asyncio.sleep(RELIST)
    assert [*scene.notes()] == [f"LockWaiting: Lock for jobs 7, 8 waits for 1 Pod: team/web ({STILL})"]
    assert scene.recorder.statistics().recorded == 1
    scene.world.put_pod("more", **GOING)
    scene.deliver()
    await scene.follow()
    assert scene.recorder.statistics().recorded == 2


async def test_scrapers_are_told_of_writes_and_of_how_long_it_took(scene: Scene) -> None:
    scene.world.put_pod("web")
    scene.world.ask(SEVEN)
    scene.deliver()
    await scene.follow()
    assert scene.count("locks", state="pending") == 1
    await asyncio.sleep(3)
    scene.world.remove_pod("web")
    scene.deliver()
    await scene.follow()
    assert scene.count("locks", state="pending") == 0
    assert scene.count("locks", state="locked") == 1
    assert scene.count("lock_seconds_sum") == pytest.approx(3)
    assert scene.count("lock_seconds_bucket", le="2.5") == 0


# Anything, in any order


class Mischief:
    """What may happen before any request."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._world = scene.world
        self._number = 0

    def nothing(self) -> None:
        pass

    def the_caches_hear(self) -> None:
        self._scene.deliver()

    def a_kubelet_reports(self) -> None:
        self._world.touch(self._world.nodes[NODE])

    def a_pod_comes(self) -> None:
        if not is_tainted(self._scene.node):
            self._number += 1
            self._world.put_pod(f"web-{self._number}")

    def a_pod_goes(self) -> None:
        for name in [name for name in self._world.pods if name != COMPUTE][:1]:
            self._world.remove_pod(name)

    def another_job(self, *, strict: bool = False) -> None:
        before = self.request
        runs = frozenset({*before.runs, JobRun(before.number + 1)})
        self._world.ask(lock.next_request(before, runs, strict=strict), running="True")

    def a_strict_job(self) -> None:
        self.another_job(strict=True)

    def all_jobs_end(self) -> None:
        self._world.ask(lock.next_request(self.request, frozenset(), strict=False), running="False")

    def the_taint_is_taken_off(self) -> None:
        self._world.touch(self._world.nodes[NODE])["spec"].pop("taints", None)

    def the_annotation_is_spoiled(self) -> None:
        self._world.touch(self._world.nodes[NODE])["metadata"].setdefault("annotations", {})[names.LOCK] = "maybe"

    def the_node_registers_again(self) -> None:
        self._number += 1
        self._world.put_node(uid=f"node-{self._number}")

    @property
    def request(self) -> LockRequest:
        notes = self._world.pods[COMPUTE]["metadata"]["annotations"]
        return lock.read(notes.get(names.LOCK_REQUEST)) or LockRequest()


DEEDS = st.lists(
    st.sampled_from(
        [
            Mischief.nothing,
            Mischief.the_caches_hear,
            Mischief.the_caches_hear,
            Mischief.a_kubelet_reports,
            Mischief.a_pod_comes,
            Mischief.a_pod_goes,
            Mischief.another_job,
            Mischief.a_strict_job,
            Mischief.all_jobs_end,
            Mischief.the_taint_is_taken_off,
            Mischief.the_annotation_is_spoiled,
            Mischief.the_node_registers_again,
        ]
    ),
    max_size=20,
)


async def play(scene: Scene, mischief: Mischief, deeds: list[Any]) -> None:
    """Have one thing happen before each request of a call, and the rest after it."""
    left = iter(deeds)

    def happen(_: str = "") -> None:
        next(left, Mischief.nothing)(mischief)

    happen()
    scene.world.meanwhile = happen
    await scene.follow()
    scene.world.meanwhile = lambda _: None
    for deed in left:
        deed(mischief)


@given(rounds=st.lists(st.tuples(DEEDS, st.sampled_from(["", "killed", "waits"])), min_size=1, max_size=5))
@settings(max_examples=150)
async def test_whatever_happens_it_is_locked_only_when_nobody_is_in_the_way_and_ends_in_what_is_asked(
    rounds: list[tuple[list[Any], str]],
) -> None:
    scene = Scene(linger=0)
    mischief = Mischief(scene)
    try:
        for deeds, after in rounds:
            await play(scene, mischief, deeds)
            if after == "killed":
                scene.restart()
            elif after == "waits":
                await asyncio.sleep(RELIST)
        for name in [name for name in scene.world.pods if name != COMPUTE]:
            scene.world.remove_pod(name)
        scene.deliver()
        for _ in range(3):
            await scene.follow()
        assert all(beside == () for beside in scene.world.locked_beside)
        if mischief.request.runs:
            assert lock.satisfies(scene.answer, mischief.request, owner=COMPUTE)
            assert is_tainted(scene.node)
        elif mischief.request.number:
            assert scene.answer is not None
            assert scene.answer.state == "false"
            assert not is_tainted(scene.node)
    finally:
        await scene.close()
