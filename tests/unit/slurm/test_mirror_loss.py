"""A mirror says so when it cannot know, and when it can hardly believe."""

import asyncio

import pytest
from tests.unit.slurm.scripted import COMPLETED, Server, gone, job, node, now, told, view

from sunk.slurm.belief import Known, Stale, Unknown
from sunk.slurm.mirror import Mirror, Pace

pytestmark = pytest.mark.looptime


# Loss


async def test_loss_is_a_state_of_its_own_and_what_was_read_stays() -> None:
    server = Server(node("a"), job(1))
    mirror = Mirror(server)
    known = told(mirror)
    states: list[object] = []
    async with mirror.running():
        await mirror.read_after()
        mirror.subscribe(lambda state: states.append(type(state)))
        server.away = gone()
        await asyncio.sleep(2)
        assert isinstance(mirror.state, Unknown)
        assert "nobody is there" in mirror.state.reason
        assert mirror.age == float("inf")
        with pytest.raises(Stale, match=r"unknown for \d s .*nobody is there"):
            mirror.require_fresh(within=3600)
        with pytest.raises(Stale, match="nobody is there"):
            await mirror.read_after()
        assert view(mirror) == server.now
        assert known == {"a": node("a"), 1: job(1)}
        lost = mirror.state
        await asyncio.sleep(10)
        assert isinstance(mirror.state, Unknown)
        assert mirror.state.since == lost.since
        server.away = None
        await mirror.read_after()
        assert server.reads()[-1] == 0, "after a loss nothing is believed to be unchanged"
        mirror.require_fresh(within=1)
        assert set(states) == {Known, Unknown}


async def test_a_slurm_that_is_away_is_asked_less_and_less_but_at_once_when_somebody_wants_to_know() -> None:
    server = Server()
    server.away = gone()
    mirror = Mirror(server)
    async with mirror.running():
        await asyncio.sleep(60)
        assert len(server.reads()) < 20
        began = now()
        with pytest.raises(Stale):
            await mirror.read_after()
        assert now() - began < 0.3
        server.away = None
        await asyncio.sleep(5.1)
        assert isinstance(mirror.state, Known)


async def test_a_read_that_fails_halfway_changes_nothing() -> None:
    server = Server(node("a"), job(1))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()

        def leave() -> None:
            server.away = gone()

        server.put(node("a", reason="new"))
        server.meanwhile = leave
        with pytest.raises(Stale):
            await mirror.read_after()
        assert mirror.nodes.get("a") == node("a")


async def test_a_read_that_never_ends_is_a_loss() -> None:
    server = Server(node("a"))
    mirror = Mirror(server, pace=Pace(patience=5.0))
    async with mirror.running():
        await mirror.read_after()
        server.delay = 1e6
        with pytest.raises(Stale, match="no answer within 5 s"):
            await mirror.read_after()


async def test_what_was_read_too_long_ago_is_not_fresh() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.delay = 10.0
        await asyncio.sleep(5)
        with pytest.raises(Stale, match="wanted within 2 s"):
            mirror.require_fresh(within=2)


async def test_a_subscriber_that_fails_ends_the_mirror_and_leaves_nobody_waiting() -> None:
    mirror = Mirror(Server(node("a")))

    def fail(*_: object) -> None:
        raise LookupError("a bug")

    mirror.nodes.subscribe(fail)
    with pytest.raises(ExceptionGroup) as raised:  # noqa: PT012 - the block is what ends
        async with mirror.running():
            with pytest.raises(Stale, match="ended"):
                await mirror.read_after()
            await asyncio.sleep(1)
    assert raised.group_contains(LookupError, match="a bug")
    with pytest.raises(Stale, match="ended"):
        await mirror.read_after()


async def test_who_waits_for_a_read_when_the_mirror_is_ended_is_told_so() -> None:
    server = Server(node("a"))
    server.delay = 10.0
    mirror = Mirror(server)
    during = asyncio.create_task(mirror.read_after())
    async with mirror.running():
        await asyncio.sleep(1)
        after = asyncio.create_task(mirror.read_after())
        await asyncio.sleep(1)
    async with asyncio.timeout(1):
        for waiting in (during, after):
            with pytest.raises(Stale, match="the mirror has ended"):
                await waiting


# What is hard to believe


async def test_a_sudden_loss_is_suspicious_until_it_is_undone() -> None:
    nodes = [node(f"n{index}") for index in range(10)]
    server = Server(*nodes)
    mirror = Mirror(server, share=0.3)
    async with mirror.running():
        await mirror.read_after()
        server.drop("n0", "n1", "n2")
        await mirror.read_after()
        assert not mirror.suspicious
        server.drop("n3", "n4", "n5")
        await mirror.read_after()
        with pytest.raises(Stale, match="3 of 7 nodes are gone at once"):
            mirror.require_fresh(within=10)
        assert len(mirror.nodes) == 4, "what Slurm says is shown all the same"
        await asyncio.sleep(60)
        assert mirror.suspicious
        server.put(node("n3", reason="back"))
        await mirror.read_after()
        assert not mirror.suspicious
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
        assert [each.reason for each in mirror.suspicions] == ["2 of 2 jobs are gone at once"]


async def test_a_restarted_slurm_whose_job_numbers_went_back_is_suspicious() -> None:
    server = Server(job(500, state=COMPLETED))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.put(job(501, state=COMPLETED))
        server.restart()
        await mirror.read_after()
        assert not mirror.suspicious
        server.put(job(502))
        await mirror.read_after()
        assert not mirror.suspicious
        server.restart()
        server.put(job(1))
        await mirror.read_after()
        with pytest.raises(Stale, match="gave out job 1, though it had come to 502"):
            mirror.require_fresh(within=10)


async def test_job_numbers_that_were_accepted_are_the_ones_that_count_after_the_next_start() -> None:
    server = Server(job(500, state=COMPLETED))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.restart()
        server.put(job(1))
        await mirror.read_after()
        server.put(job(2))
        await mirror.read_after()
        assert ["job 1," in each.reason for each in mirror.suspicions] == [True], "called the same whatever follows"
        mirror.accept()
        server.restart()
        server.put(job(3))
        await mirror.read_after()
        mirror.require_fresh(within=10)
