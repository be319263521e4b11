"""What a prolog that waits for the lock is told, and when."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.builders import pod
from tests.unit.syncer.hooks.calls import PERIOD, RUN, World, asking, call, job, world
from tests.unit.syncer.stores import remove

from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockAnswer, LockRequest
from sunk.service.hooks.server import HookAnswer
from sunk.slurm.states import JobBase, JobFlag
from sunk.syncer.hooks.prehook import Gone, LockCall, Locked, LockView, NotNeeded, Wait, decide, timed_out, view

pytestmark = pytest.mark.looptime
LOCKED = HookAnswer(200, {"result": "locked"})
NOT_NEEDED = HookAnswer(200, {"result": "not-needed"})
UID = "uid-of-n1"
STRICT = LockCall(7, strict=True)
NORMAL = LockCall(7)


def answered(state: lock.State, number: int) -> LockView:
    return LockView(UID, LockRequest(5, runs=(RUN,)), frozenset({RUN}), LockAnswer(state, number, UID))


# Deciding


@pytest.mark.parametrize(
    ("state", "number", "call", "found"),
    [
        ("locked", 5, NORMAL, Locked()),
        ("locked", 6, NORMAL, Locked()),
        ("locked", 4, NORMAL, Wait(5)),
        ("pending", 5, NORMAL, Wait(5)),
        ("false", 5, NORMAL, Wait(5)),
        ("locked", 5, STRICT, Wait(5)),
        ("locked_strict", 5, STRICT, Locked()),
        ("locked_strict", 5, NORMAL, Locked()),
    ],
)
def test_the_answer_has_to_be_for_this_request_and_strict_enough(
    state: lock.State, number: int, call: LockCall, found: object
) -> None:
    assert decide(answered(state, number), uid=UID, call=call, over=False) == found


def test_an_answer_to_another_pod_is_none() -> None:
    theirs = LockView(UID, LockRequest(5, runs=(RUN,)), frozenset({RUN}), LockAnswer("locked", 5, "other"))
    assert decide(theirs, uid=UID, call=NORMAL, over=False) == Wait(5)


def test_a_pod_that_is_gone_or_another_is_told_so() -> None:
    assert decide(None, uid=UID, call=NORMAL, over=False) == Gone()
    assert decide(answered("locked", 5), uid="before", call=NORMAL, over=True) == Gone()


def test_a_run_that_is_over_needs_no_lock() -> None:
    assert decide(answered("pending", 5), uid=UID, call=NORMAL, over=True) == NotNeeded()


def test_another_run_of_the_same_job_has_to_wait() -> None:
    """L2."""
    assert decide(answered("locked", 5), uid=UID, call=LockCall(7, restarts=1), over=False) == Wait()


def test_requests_of_others_do_not_put_off_the_answer() -> None:
    later = LockView(
        UID, LockRequest(9, runs=(RUN, JobRun(8))), frozenset({RUN, JobRun(8)}), LockAnswer("locked", 5, UID)
    )
    assert decide(later, uid=UID, call=NORMAL, over=False) == Wait(9)
    assert decide(later, uid=UID, call=NORMAL, over=False, number=5) == Locked()


states = st.sampled_from(lock.STATES)
answers = st.none() | st.builds(LockAnswer, states, st.integers(0, 9), st.sampled_from((UID, "other", "")))
runs = st.builds(JobRun, st.integers(7, 8), st.integers(0, 1))
requests = st.none() | st.builds(
    LockRequest, number=st.integers(0, 9), strict=st.booleans(), runs=st.lists(runs, max_size=3).map(tuple)
)


@given(requests, answers, st.booleans(), st.none() | st.integers(0, 9))
def test_locked_is_never_said_without_an_answer_of_this_pod_to_a_request_that_names_the_run(
    asked: LockRequest | None,
    given_: LockAnswer | None,
    strict: bool,  # noqa: FBT001 - drawn
    number: int | None,
) -> None:
    named = frozenset() if asked is None else frozenset(asked.runs)
    found = decide(
        LockView(UID, asked, named, given_), uid=UID, call=LockCall(7, strict=strict), over=False, number=number
    )
    if isinstance(found, Locked):
        assert asked is not None
        assert RUN in asked.runs
        assert given_ is not None
        assert given_.owner == UID
        assert given_.number >= (asked.number if number is None else number)
        assert given_.state in ({lock.LOCKED_STRICT} if strict else lock.HELD)
    else:
        assert isinstance(found, Wait)
        assert (found.number is None) == (RUN not in named)


def test_a_request_that_cannot_be_read_names_nobody() -> None:
    assert decide(view(pod(lock_request="{")), uid=UID, call=NORMAL, over=False) == Wait()


# The time is over


def test_whose_fault_it_is_that_the_time_is_over() -> None:
    stuck = timed_out(answered("pending", 5), call=NORMAL, number=5)
    assert stuck.status == 408
    assert {key: stuck.body[key] for key in ("result", "lock", "number", "answered")} == {
        "result": "timeout",
        "lock": "pending",
        "number": 5,
        "answered": 5,
    }
    assert "7/0" in stuck.body["message"]
    assert timed_out(answered("locked", 5), call=STRICT, number=5).status == 408
    assert timed_out(answered("locked", 4), call=NORMAL, number=5).status == 503, "left over from an earlier job"
    assert timed_out(answered("pending", 4), call=NORMAL, number=5).status == 503
    assert timed_out(answered("false", 4), call=NORMAL, number=5).status == 503, "no operator has taken notice"
    assert timed_out(answered("locked", 5), call=NORMAL, number=None).status == 503, "nobody has asked"
    assert timed_out(None, call=NORMAL, number=5).status == 503


# Waiting


async def test_a_call_is_answered_the_moment_that_the_lock_is_there() -> None:
    async with world() as now:
        now.put(pod("n1"))
        calling = asyncio.create_task(now.hook(call()))
        await asyncio.sleep(0.01)
        assert now.announced.of("n1") == {RUN: False}
        now.put(asking("n1", RUN))
        now.put(asking("n1", RUN, lock="pending"))
        await asyncio.sleep(0.01)
        assert not calling.done()
        now.put(asking("n1", RUN, lock="locked"))
        assert await calling == LOCKED
        assert now.hook.statistics().waiting == 0


async def test_what_is_locked_already_is_answered_at_once() -> None:
    async with world() as now:
        now.put(asking("n1", RUN, lock="locked_strict"))
        assert await now.hook(call(strict=True)) == LOCKED


async def test_an_answer_left_over_from_an_earlier_job_is_none() -> None:
    """L1."""
    async with world(job()) as now:
        now.put(asking("n1", number=1, lock="locked"))
        calling = asyncio.create_task(now.hook(call()))
        await asyncio.sleep(0.01)
        now.put(asking("n1", RUN, number=2, lock="locked", lock_number="1"))
        await asyncio.sleep(10)
        assert not calling.done()
        now.put(asking("n1", RUN, number=2, lock="locked"))
        assert await calling == LOCKED


async def test_a_run_that_was_gone_from_the_request_waits_for_another_answer() -> None:
    async with world(job()) as now:
        now.put(asking("n1", RUN, number=5))
        calling = asyncio.create_task(now.hook(call()))
        await asyncio.sleep(0.01)
        now.put(asking("n1", number=5))
        now.put(asking("n1", RUN, number=6, lock="locked", lock_number="5"))
        await asyncio.sleep(10)
        assert not calling.done(), "the Node may have been unlocked in between"
        now.put(asking("n1", RUN, number=6, lock="locked"))
        assert await calling == LOCKED


async def test_a_job_that_is_cancelled_while_it_waits_needs_no_lock() -> None:
    """L4."""
    async with world(job()) as now:
        now.put(pod("n1"))
        calling = asyncio.create_task(now.hook(call()))
        await asyncio.sleep(20)
        assert not calling.done()
        now.slurm.put(job(7, "n1", JobBase.CANCELLED, JobFlag.COMPLETING))
        await asyncio.sleep(PERIOD)
        assert await calling == NOT_NEEDED


async def test_a_job_that_slurm_does_not_know_needs_no_lock_but_only_by_a_read_that_can_tell() -> None:
    async with world() as now:
        now.put(pod("n1"))
        now.slurm.away = gone()
        await asyncio.sleep(PERIOD)
        calling = asyncio.create_task(now.hook(call()))
        await asyncio.sleep(60)
        assert not calling.done()
        now.slurm.away = None
        await asyncio.sleep(10)
        assert await calling == NOT_NEEDED


async def test_a_pod_that_is_deleted_or_replaced_meanwhile_is_told_so() -> None:
    async with world(job()) as now:
        for after in (None, pod("n1", uid="next")):
            now.put(pod("n1"))
            calling = asyncio.create_task(now.hook(call()))
            await asyncio.sleep(0.01)
            if after is None:
                remove(now.pods, pod("n1"))
            else:
                now.put(after)
            assert (await calling).status == 404


async def test_a_pod_that_is_not_the_caller_is_told_at_once() -> None:
    async with world(job()) as now:
        assert (await now.hook(call())).status == 404
        now.put(pod("n1", uid="next"))
        assert (await now.hook(call())).status == 404


@pytest.mark.parametrize(("asked", "seconds"), [(20, 20.0), (1e300, 60.0), (-5, 0.0), (0, 0.0)])
async def test_every_wait_ends(asked: float, seconds: float) -> None:
    async with world(job(), longest=60.0) as now:
        now.put(asking("n1", RUN, lock="pending"))
        began = asyncio.get_running_loop().time()
        assert (await now.hook(call(timeout=asked))).status == 408
        assert asyncio.get_running_loop().time() - began == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"job":"7"}',
        b'{"job":0}',
        b'{"job":4294967296}',
        b'{"job":7,"restarts":-1}',
        b'{"job":7,"restarts":65536}',
        b'{"job":7,"strict":1}',
        b'{"job":7,"timeout":"long"}',
        b'{"job":7.5}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=lambda body: body[:20].decode(errors="replace"),
)
async def test_a_body_that_makes_no_sense_is_refused_with_a_sentence(body: bytes) -> None:
    now = World()
    now.put(pod("n1"))
    answer = await now.hook(call(body=body))
    assert answer.status == 400
    assert answer.body["message"].startswith("The body is not valid: ")
    assert len(now.announced) == 0


async def test_what_a_later_prolog_says_beyond_that_is_not_looked_at() -> None:
    async with world() as now:
        now.put(asking("n1", RUN, lock="locked"))
        assert await now.hook(call(color="blue")) == LOCKED


async def test_a_caller_that_hangs_up_leaves_nothing_behind() -> None:
    async with world(job()) as now:
        now.put(pod("n1"))
        calling = asyncio.create_task(now.hook(call()))
        await asyncio.sleep(PERIOD)
        calling.cancel()
        await asyncio.wait({calling})
        assert now.hook.statistics().waiting == 0
        assert len(now.announced) == 0


async def test_thousands_wait_at_once_and_each_is_answered_by_its_own_pod() -> None:
    names = [f"n{number}" for number in range(3000)]
    async with world(job(7, "n[0-2999]")) as now:
        now.put(*map(pod, names))
        calling = {name: asyncio.create_task(now.hook(call(name))) for name in names}
        await asyncio.sleep(PERIOD)
        assert now.hook.statistics().waiting == 3000
        now.put(*(asking(name, RUN, lock="locked") for name in names[:1500]))
        await asyncio.sleep(0)
        done = {name for name, task in calling.items() if task.done() or await _settles(task)}
        assert done == set(names[:1500])
        now.slurm.put(job(7, "n[0-2999]", JobBase.CANCELLED, JobFlag.COMPLETING))
        await asyncio.sleep(PERIOD)
        assert [await calling[name] for name in names] == [LOCKED] * 1500 + [NOT_NEEDED] * 1500
        statistics = now.hook.statistics()
        assert statistics.answers == {"locked": 1500, "not-needed": 1500}
        assert statistics.seconds[-1] == 1500
        assert statistics.waiting == len(now.announced) == 0


async def _settles(task: "asyncio.Task[Any]") -> bool:
    await asyncio.sleep(0)
    return task.done()


async def test_many_jobs_of_one_node_are_answered_by_one_change() -> None:
    many = [JobRun(number) for number in range(1, 201)]
    async with world(*(job(run.job_id) for run in many)) as now:
        now.put(pod("n1"))
        calling = [asyncio.create_task(now.hook(call(job=run.job_id))) for run in many]
        await asyncio.sleep(PERIOD)
        now.put(asking("n1", *many, lock="locked"))
        assert await asyncio.gather(*calling) == [LOCKED] * 200
