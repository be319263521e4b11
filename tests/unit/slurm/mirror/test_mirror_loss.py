"""A mirror says so when it cannot know."""

import asyncio

import pytest
from tests.unit.slurm.scripted import Server, gone, job, node, now, told, view

from sunk.slurm.mirror.confidence import Known, Stale, Unknown
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.mirror.reading import MirrorPace

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
    mirror = Mirror(server, pace=MirrorPace(patience=5.0))
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
        with pytest.raises(Stale, match=r"s old \(limit 2 s\)"):
            mirror.require_fresh(within=2)


async def test_a_subscriber_that_fails_ends_nothing_and_is_told_again_and_meanwhile_nothing_is_destroyed() -> None:
    server = Server(node("a"), node("b"))
    mirror = Mirror(server)
    broken, heard = {"a"}, []
    other = told(mirror)

    def fail(name: str, before: object, after: object) -> None:
        if name in broken:
            raise LookupError("a bug")
        heard.append((name, before, after))

    mirror.nodes.subscribe(fail)
    async with mirror.running():
        await mirror.read_after()
        assert heard == [("b", None, node("b"))], "one row spoils only itself"
        assert other == {"a": node("a"), "b": node("b")}, "and only for who failed"
        with pytest.raises(Stale, match="could not process a change to nodes a: LookupError: a bug"):
            mirror.require_fresh(within=10)
        server.put(node("a", reason="new"))
        await mirror.read_after()
        assert mirror.suspicious
        broken.clear()
        await mirror.read_after()
        assert heard[-1] == ("a", None, node("a", reason="new"))
        mirror.require_fresh(within=10)


async def test_a_listener_that_fails_keeps_no_other_from_hearing() -> None:
    mirror = Mirror(Server(node("a")))
    heard: list[object] = []

    def fail(_: object) -> None:
        raise LookupError("a bug")

    mirror.subscribe(fail)
    mirror.subscribe(heard.append)
    async with mirror.running():
        await mirror.read_after()
        await mirror.read_after()
    assert len(heard) >= 2


async def test_a_fault_while_reading_is_a_loss_and_ends_with_it() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.away = RecursionError("too deep")
        with pytest.raises(Stale, match="an unexpected error in the syncer: RecursionError: too deep"):
            await mirror.read_after()
        server.away = None
        await mirror.read_after()
        mirror.require_fresh(within=10)


async def test_rows_that_cannot_be_read_stay_as_they_were_and_are_named() -> None:
    server = Server(node("a"), node("b"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        server.drop("a")
        server.unreadable = ("a: ValidationError: no such state", "z: the same")
        server.put(node("b", reason="new"))
        await mirror.read_after()
        assert mirror.nodes.keys() == {"a", "b"}
        assert mirror.nodes.get("b") == node("b", reason="new")
        with pytest.raises(
            Stale, match="2 rows of nodes cannot be read: a: ValidationError: no such state; z: the same"
        ):
            mirror.require_fresh(within=10)
        server.unreadable = ()
        server.put(node("a"))
        await mirror.read_after()
        mirror.require_fresh(within=10)


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
