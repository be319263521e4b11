"""A mirror says so when what it reads is hard to believe, and for how long."""

import asyncio

import pytest
from tests.unit.slurm.scripted import COMPLETED, Server, gone, job, node

from sunk.slurm.mirror.confidence import TOGETHER, UNSAVED, Stale
from sunk.slurm.mirror.mirror import Mirror

pytestmark = pytest.mark.looptime


async def test_a_sudden_loss_is_suspicious_until_it_is_undone() -> None:
    nodes = [node(f"n{index}") for index in range(10)]
    server = Server(*nodes)
    mirror = Mirror(server, share=0.3)
    async with mirror.running():
        await mirror.read_after()
        server.drop("n0", "n1", "n2")
        await mirror.read_after()
        assert not mirror.suspicious
        await asyncio.sleep(TOGETHER + 40)
        server.drop("n3", "n4", "n5")
        await mirror.read_after()
        with pytest.raises(Stale, match="3 of 7 nodes disappeared at once: n3, n4, n5"):
            mirror.require_fresh(within=10)
        assert len(mirror.nodes) == 4, "what Slurm says is shown all the same"
        await asyncio.sleep(120)
        assert mirror.suspicious
        server.put(node("n3", reason="back"))
        await mirror.read_after()
        assert mirror.suspicious, "two are still gone"
        server.put(node("n4", reason="back"))
        await mirror.read_after()
        assert not mirror.suspicious, "the last one could have been deleted by a person"
        mirror.require_fresh(within=10)


async def test_what_comes_later_makes_a_loss_no_smaller() -> None:
    server = Server(*(job(number) for number in range(1, 11)))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.drop(*range(1, 7))
        server.put(*(job(number) for number in range(100, 200)))
        await mirror.read_after()
        server.put(*(job(number) for number in range(200, 300)))
        await asyncio.sleep(120)
        with pytest.raises(Stale, match="6 of 10 jobs disappeared at once: 1, 2, 3 and 3 more"):
            mirror.require_fresh(within=10)


async def test_losses_that_follow_each_other_count_as_one() -> None:
    server = Server(*(node(f"n{index}") for index in range(10)))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        for index in range(6):
            server.drop(f"n{index}")
            await mirror.read_after()
        with pytest.raises(Stale, match="6 of 10 nodes"):
            mirror.require_fresh(within=10)


async def test_somebody_who_knows_can_accept_a_loss_or_announce_it() -> None:
    server = Server(*(node(f"n{index}") for index in range(10)), job(1))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        mirror.expect_gone([f"n{index}" for index in range(6)])
        server.drop(*(f"n{index}" for index in range(6)))
        await mirror.read_after()
        assert not mirror.suspicious
        server.drop(*(f"n{index}" for index in range(6, 10)))
        await mirror.read_after()
        assert [each.before for each in mirror.suspicions] == [4]
        mirror.accept()
        await mirror.read_after(whole=True)
        mirror.require_fresh(within=10)


async def test_finished_jobs_may_vanish_and_others_not() -> None:
    server = Server(*(job(number) for number in range(1, 11)))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.put(*(job(number, state=COMPLETED) for number in range(1, 9)))
        await mirror.read_after()
        server.drop(*range(1, 9))
        await mirror.read_after()
        assert not mirror.suspicious
        server.drop(9, 10)
        await mirror.read_after()
        assert [each.reason for each in mirror.suspicions] == ["2 of 2 jobs disappeared at once: 10, 9"]


async def test_one_job_of_one_that_ends_while_slurmctld_is_away_holds_nothing_back() -> None:
    server = Server(node("n1"), job(1))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.away = gone()
        await asyncio.sleep(20)
        server.drop(1)
        server.restart()
        server.away = None
        await mirror.read_after()
        mirror.require_fresh(within=10)


@pytest.mark.parametrize(("restarted", "held"), [(False, False), (True, True)])
async def test_jobs_may_end_unseen_while_nobody_reads_but_not_with_a_start_of_slurmctld(
    *, restarted: bool, held: bool
) -> None:
    server = Server(*(job(number) for number in range(1, 11)))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.away = gone()
        await asyncio.sleep(server.min_job_age + 10)
        server.drop(*range(1, 11))
        if restarted:
            server.restart()
        server.away = None
        await mirror.read_after()
        assert mirror.suspicious is held


async def test_a_restarted_slurm_whose_job_numbers_went_back_is_suspicious() -> None:
    server = Server(job(500, state=COMPLETED))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.put(job(501, state=COMPLETED))
        server.restart()
        await mirror.read_after()
        assert not mirror.suspicious
        server.put(job(502, submit_time=server.clock))
        await mirror.read_after()
        assert not mirror.suspicious
        await asyncio.sleep(2 * UNSAVED)
        server.restart()
        server.put(job(1, submit_time=server.clock))
        await mirror.read_after()
        with pytest.raises(Stale, match="assigned job number 1, though it had already reached 502"):
            mirror.require_fresh(within=10)
        await asyncio.sleep(2)
        server.restart()
        server.put(job(503, submit_time=server.clock))
        await mirror.read_after()
        mirror.require_fresh(within=10)


async def test_a_crash_that_forgets_the_last_seconds_holds_nothing_back() -> None:
    server = Server(*(job(number) for number in range(1, 5)))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(100)
        server.put(*(job(number, submit_time=server.clock) for number in range(5, 15)))
        await mirror.read_after()
        await asyncio.sleep(2)
        server.away = gone()
        await asyncio.sleep(60)
        server.drop(*range(5, 15))
        server.restart()
        server.away = None
        await mirror.read_after()
        mirror.require_fresh(within=10)
        server.put(*(job(number, submit_time=server.clock) for number in range(5, 8)))
        await mirror.read_after()
        mirror.require_fresh(within=10)


async def test_job_numbers_that_were_accepted_are_the_ones_that_count_after_the_next_start() -> None:
    server = Server(job(500, state=COMPLETED))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.restart()
        server.put(job(1, submit_time=server.clock))
        await mirror.read_after()
        server.put(job(2, submit_time=server.clock))
        await mirror.read_after()
        assert ["job number 1," in each.reason for each in mirror.suspicions] == [True], (
            "called the same whatever follows"
        )
        mirror.accept()
        server.restart()
        server.put(job(3, submit_time=server.clock))
        await mirror.read_after()
        mirror.require_fresh(within=10)
