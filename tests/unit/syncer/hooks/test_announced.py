"""Jobs that prologs have told of: believed until a read can tell, and no longer."""

import asyncio

import pytest
from tests.unit.slurm.scripted import gone
from tests.unit.syncer.hooks.calls import PERIOD, RUN, World, job, world

from sunk.model.contract.lock import JobRun
from sunk.slurm.records import Job
from sunk.slurm.states import JobBase, JobFlag
from sunk.syncer.hooks import announced
from sunk.syncer.hooks.announced import Full
from sunk.syncer.hooks.runs import Presence, is_over, presence

pytestmark = pytest.mark.looptime
ENDING = job(7, "n1", JobBase.CANCELLED, JobFlag.COMPLETING)
REQUEUING = job(7, "n1", JobBase.PENDING, JobFlag.COMPLETING)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (None, Presence.NOT_YET),
        (job(7, "", JobBase.PENDING), Presence.NOT_YET),
        (job(7, "n1", restarts=1), Presence.NOT_YET),
        (job(restarts=2), Presence.HOLDS),
        (job(7, "n1", JobBase.SUSPENDED, restarts=2), Presence.HOLDS),
        (job(7, "n1", JobBase.UNKNOWN, restarts=2), Presence.HOLDS),
        (job(restarts=3), Presence.OVER),
        (job(7, "n1", JobBase.CANCELLED, JobFlag.COMPLETING, restarts=2), Presence.OVER),
        (job(7, "n1", JobBase.PENDING, JobFlag.COMPLETING, restarts=2), Presence.OVER),
        (job(7, "n1", JobBase.COMPLETED, restarts=2), Presence.OVER),
    ],
)
def test_what_a_row_says_of_a_run(row: Job | None, found: Presence) -> None:
    assert presence(JobRun(7, 2), row, here=True) is found


def test_a_job_that_runs_elsewhere_is_no_job_of_this_node() -> None:
    assert presence(RUN, job(7, "n2"), here=False) is Presence.ELSEWHERE
    assert is_over(RUN, job(7, "n2"), here=False)


def test_nothing_is_concluded_from_a_row_that_is_behind_its_own_prolog() -> None:
    assert not is_over(JobRun(7, 2), job(restarts=1), here=True)
    assert is_over(JobRun(7, 2), None, here=False)
    assert is_over(RUN, job(7, "", JobBase.PENDING), here=False)


async def test_a_run_counts_from_the_moment_that_its_prolog_calls() -> None:
    async with world() as now:
        now.announced.announce("n1", RUN, strict=False)
        assert now.announced.of("n1") == {RUN: False}
        assert now.announced.of("n2") == {}
        assert now.told == ["n1"]


async def test_the_strictest_call_of_a_run_counts() -> None:
    async with world() as now:
        now.announced.announce("n1", RUN, strict=True)
        now.announced.announce("n1", RUN, strict=False)
        assert now.announced.of("n1") == {RUN: True}


async def test_a_read_that_began_before_the_call_decides_nothing() -> None:
    async with world() as now:
        now.slurm.delay = 0.4
        reading = asyncio.create_task(now.mirror.read_after())
        await asyncio.sleep(0.1)
        now.announced.announce("n1", RUN, strict=False)
        await reading
        assert now.announced.of("n1"), "the job had not begun when it was read"
        await now.mirror.read_after()
        assert not now.announced.of("n1")
        assert now.over == [("n1", RUN)]


async def test_a_run_that_a_read_shows_is_kept_while_a_call_waits_and_no_longer() -> None:
    async with world() as now:
        waits = now.announced.announce("n1", RUN, strict=True)
        now.slurm.put(job())
        await asyncio.sleep(PERIOD)
        assert now.announced.of("n1") == {RUN: True}
        now.announced.release(waits)
        assert len(now.announced) == 0
        assert now.over == []


async def test_a_call_that_was_given_up_is_remembered_until_a_read_shows_its_job() -> None:
    async with world() as now:
        now.announced.release(now.announced.announce("n1", RUN, strict=False))
        assert now.announced.of("n1")
        now.slurm.put(job())
        await asyncio.sleep(PERIOD)
        assert len(now.announced) == 0
        assert now.over == []


@pytest.mark.parametrize("row", [job(), job(7, "n2"), job(7, "", JobBase.PENDING)], ids=str)
async def test_a_run_that_slurm_has_not_come_to_is_forgotten_once_nobody_waits_for_it(row: Job) -> None:
    """Whoever is root in a Pod may name a run of the far future, and would have its Node locked for ever."""
    async with world(row) as now:
        now.announced.release(now.announced.announce("n1", JobRun(7, 65535), strict=True))
        await asyncio.sleep(PERIOD)
        assert now.announced.of("n1") == {}
        assert len(now.announced) == 0
        assert "n1" in now.told


@pytest.mark.parametrize("row", [ENDING, REQUEUING, job(restarts=1), job(7, "n2")], ids=str)
async def test_a_run_is_over_when_its_job_ends_is_requeued_or_leaves_the_node(row: Job) -> None:
    async with world() as now:
        now.announced.announce("n1", RUN, strict=False)
        now.slurm.put(job())
        await asyncio.sleep(PERIOD)
        now.told.clear()
        now.slurm.put(row)
        await asyncio.sleep(PERIOD)
        assert now.over == [("n1", RUN)]
        assert now.told == ["n1"]
        assert len(now.announced) == 0


async def test_a_job_that_does_not_exist_is_over_with_the_next_read() -> None:
    async with world() as now:
        now.announced.announce("n1", JobRun(99), strict=False)
        await asyncio.sleep(PERIOD)
        assert now.over == [("n1", JobRun(99))]


@pytest.mark.parametrize("row", [job(7, "n2"), job(restarts=3), job(7, "n1", JobBase.COMPLETED)], ids=str)
async def test_no_lock_is_asked_for_a_job_that_is_seen_elsewhere_or_ended(row: Job) -> None:
    async with world(row) as now:
        now.announced.announce("n1", RUN, strict=False)
        assert now.announced.of("n1") == {}
        assert now.told == []
        await asyncio.sleep(PERIOD)
        assert now.over == [("n1", RUN)]


async def test_while_slurm_is_unknown_nothing_is_over() -> None:
    async with world() as now:
        now.slurm.away = gone()
        await asyncio.sleep(PERIOD)
        now.announced.announce("n1", RUN, strict=False)
        await asyncio.sleep(60)
        assert now.announced.of("n1")
        now.slurm.away = None
        await asyncio.sleep(10)
        assert now.over == [("n1", RUN)]


async def test_while_slurm_is_in_doubt_nothing_is_over() -> None:
    others = [job(number, "n2") for number in range(10, 30)]
    async with world(*others) as now:
        now.slurm.drop(*(one.id for one in others))
        await asyncio.sleep(PERIOD)
        assert now.mirror.suspicious
        now.announced.announce("n1", RUN, strict=False)
        await asyncio.sleep(30)
        assert now.announced.of("n1")
        now.mirror.accept()
        await asyncio.sleep(PERIOD)
        assert now.over == [("n1", RUN)]


async def test_a_job_of_thousands_of_nodes_is_over_on_all_of_them() -> None:
    async with world(job(7, "n[1-3000]")) as now:
        for number in range(1, 3001):
            now.announced.announce(f"n{number}", RUN, strict=False)
        await asyncio.sleep(PERIOD)
        assert len(now.announced) == 3000
        now.slurm.put(job(7, "n[1-3000]", JobBase.CANCELLED, JobFlag.COMPLETING))
        await asyncio.sleep(PERIOD)
        assert len(now.over) == 3000
        assert len(now.announced) == 0


async def test_there_is_a_bound_for_a_node_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced, "MOST_ON_NODE", 2)
    monkeypatch.setattr(announced, "MOST", 3)
    now = World()
    for number in (1, 2, 2):
        now.announced.announce("n1", JobRun(number), strict=False)
    with pytest.raises(Full, match="on n1"):
        now.announced.announce("n1", JobRun(3), strict=False)
    now.announced.announce("n2", JobRun(3), strict=False)
    with pytest.raises(Full, match="in this cluster"):
        now.announced.announce("n3", JobRun(3), strict=False)
    assert len(now.announced) == 3
