"""What a mirror reads, when, and for whom."""

import asyncio

import pytest
from tests.unit.slurm.scripted import Server, job, node, now, partition, reservation, told, view

from sunk.slurm.mirror.confidence import Known, Stale, Unknown
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.mirror.reading import MirrorPace

pytestmark = pytest.mark.looptime


# Reading


async def test_the_first_read_is_whole_and_told_to_everybody() -> None:
    server = Server(node("a"), job(1))
    mirror = Mirror(server)
    known = told(mirror)
    assert isinstance(mirror.state, Unknown)
    async with mirror.running():
        state = await mirror.read_after()
        assert state.version == 1
        assert view(mirror) == server.now
        assert known == {"a": node("a"), 1: job(1)}
        assert server.reads() == [0]
        mirror.require_fresh(within=1)


async def test_later_reads_give_back_the_servers_own_time_and_an_equal_row_stays_the_same_object() -> None:
    server = Server(node("a"), node("b"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        kept = mirror.nodes.get("a")
        await asyncio.sleep(5)
        server.put(node("b", reason="disk"))
        await mirror.read_after()
        assert mirror.nodes.get("a") is kept
        assert mirror.nodes.get("b") == node("b", reason="disk")
        assert set(server.reads()[1:]) <= set(range(1000, 1010))
        assert mirror.statistics().counts.whole == 1


async def test_a_change_in_the_second_of_a_read_is_not_missed() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        for turn in range(20):
            await mirror.read_after()
            server.put(node("a", reason=str(turn)))
            await asyncio.sleep(1.2)
            assert view(mirror) == server.now


async def test_the_period_is_short_after_a_change_and_grows_while_nothing_happens() -> None:
    server = Server(node("a"))
    mirror = Mirror(server, pace=MirrorPace(quickest=0.2, slowest=2.0))
    async with mirror.running():
        await asyncio.sleep(20)
        assert mirror.statistics().period == 2.0
        before = len(server.reads())
        await asyncio.sleep(10)
        assert 4 <= len(server.reads()) - before <= 6
        server.put(node("a", reason="x"))
        await asyncio.sleep(2.1)
        assert mirror.statistics().period < 1


async def test_many_quiet_reads_cost_the_server_only_one_whole_table_in_half_a_minute() -> None:
    mirror = Mirror(Server(node("a")))
    async with mirror.running():
        await asyncio.sleep(120)
    counts = mirror.statistics().counts
    assert counts.whole == 4
    assert counts.unchanged >= counts.reads - 2


async def test_while_nothing_happens_only_tables_are_asked_for() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await asyncio.sleep(8)
        before = server.boots
        reads = len(server.reads())
        await asyncio.sleep(20)
        assert len(server.reads()) > reads + 15
        assert server.boots == before


async def test_a_clock_that_is_set_back_hides_nothing() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        for back in (600, 60, 2):
            await asyncio.sleep(10)
            server.offset -= back
            server.put(node("a", reason=f"after {back}"))
            await mirror.read_after()
            assert view(mirror) == server.now
        assert mirror.statistics().counts.restarts == 0


@pytest.mark.parametrize("back", [0, 1, 2])
async def test_a_restart_is_seen_though_its_clock_is_back_by_no_more_than_has_passed(back: int) -> None:
    for hundredths in range(0, 300, 5):
        server = Server(node("a"))
        mirror = Mirror(server, pace=MirrorPace(quickest=1.0, slowest=1.0))
        async with mirror.running():
            await mirror.read_after()  # whole, so that no table is older than another and gives it away
            await asyncio.sleep(hundredths / 100)
            server.restart(offset=1000 - back)
            server.put(node("a", reason="after"))
            await asyncio.sleep(2)
            assert view(mirror) == server.now
            assert mirror.statistics().counts.restarts == 1


async def test_a_clock_that_is_back_by_no_more_than_has_passed_hides_a_change_for_half_a_minute_at_most() -> None:
    for hundredths in range(0, 300, 10):
        server = Server(node("a"))
        mirror = Mirror(server, pace=MirrorPace(quickest=1.0, slowest=1.0))
        async with mirror.running():
            await mirror.read_after()
            await asyncio.sleep(hundredths / 100)
            server.offset -= 1
            server.put(node("a", reason="late"))
            await asyncio.sleep(31)
            assert view(mirror) == server.now
            server.offset -= 1
            server.put(node("a", reason="at once"))
            await mirror.read_after(whole=True)
            assert view(mirror) == server.now


async def test_a_change_that_slurm_does_not_own_up_to_is_seen_by_who_doubts() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(3)
        server.drop_in_silence("a")
        await mirror.read_after()
        assert "a" in mirror.nodes
        mirror.doubt()
        await mirror.read_after()
        assert "a" not in mirror.nodes


async def test_partitions_and_reservations_are_read_once_a_second_and_when_somebody_asks() -> None:
    server = Server(node("a"))
    mirror = Mirror(server, pace=MirrorPace(quickest=0.25, slowest=0.25))
    async with mirror.running():
        await mirror.read_after()
        server.asked.clear()
        await asyncio.sleep(10)
        assert 5 < len(server.reads("partitions")) <= 10
        assert 5 < len(server.reads("reservations")) <= 10
        assert len(server.reads("nodes")) > 30
        assert len(server.reads("jobs")) > 30
        server.put(partition("gpu"), reservation("mine"))
        await mirror.read_after()
        assert "gpu" in mirror.partitions
        assert "mine" in mirror.reservations
        server.put(partition("cpu"), reservation("yours"))
        await asyncio.sleep(1.5)
        assert view(mirror) == server.now


async def test_what_is_said_to_be_unchanged_counts_as_fresh_only_with_a_look_at_the_clock() -> None:
    server = Server(node("a"))
    mirror = Mirror(server, pace=MirrorPace(quickest=0.25, slowest=0.25, seldom=20.0))
    async with mirror.running():
        await asyncio.sleep(3)  # in the second of a change it comes again
        await mirror.read_after()
        await asyncio.sleep(10)
        assert 9 < mirror.age < 11
        with pytest.raises(Stale, match="last read of Slurm is 10"):
            mirror.require_fresh(within=5)
        server.put(node("b"))
        await asyncio.sleep(0.5)
        assert mirror.age < 1  # the table that came brought the time


async def test_a_clock_that_was_set_back_is_found_out_at_the_next_look() -> None:
    server = Server(node("a"))
    mirror = Mirror(server, pace=MirrorPace(quickest=0.25, slowest=0.25, whole=1000.0))
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(20)
        server.offset -= 100
        server.put(node("b"), job(2))
        await asyncio.sleep(1.5)
        assert view(mirror) == server.now


async def test_reservations_are_told_when_they_come_and_go_and_are_otherwise_no_change() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    heard: list[str] = []
    mirror.reservations.subscribe(lambda name, *_: heard.append(name))
    async with mirror.running():
        server.put(reservation("a"), reservation("b"))
        await mirror.read_after()
        await asyncio.sleep(20)
        assert heard == ["a", "b"]
        assert mirror.statistics().counts.unchanged == mirror.statistics().counts.reads - 1
        server.drop_reservation("a")
        await mirror.read_after()
        assert heard == ["a", "b", "a"]
        assert view(mirror) == server.now


async def test_a_restart_in_the_middle_of_a_read_starts_it_over() -> None:
    server = Server(node("a"), job(1))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(5)

        def restart() -> None:
            server.restart(offset=0)
            server.put(node("a", reason="after"))

        server.meanwhile = restart
        await mirror.read_after()
        assert view(mirror) == server.now
        assert server.reads()[-1] == 0
        assert mirror.statistics().counts.restarts == 1


async def test_a_restart_in_the_middle_of_the_very_first_read_is_seen_too() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)

    def restart() -> None:
        server.put(node("a", reason="after"))
        server.restart(offset=0)

    server.meanwhile = restart
    async with mirror.running():
        await mirror.read_after()
        assert view(mirror) == server.now


# A read for somebody


async def test_who_asks_during_a_read_gets_the_next_one() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(3)
        asked: list[asyncio.Task[Known]] = []

        def ask() -> None:
            # The nodes have been looked at in this very read.
            server.put(node("a", reason="mine"))
            asked.append(asyncio.create_task(mirror.read_after()))

        server.meanwhile = ask
        first = await mirror.read_after()
        assert mirror.nodes.get("a") == node("a")
        second = await asked[0]
        assert mirror.nodes.get("a") == node("a", reason="mine")
        assert second.version == first.version + 1


async def test_all_who_ask_meanwhile_share_one_read_that_happens_at_once() -> None:
    server = Server(node("a"))
    mirror = Mirror(server, pace=MirrorPace(slowest=50.0, growth=100.0, whole=1000.0))
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(70)
        before, began = len(server.reads()), now()
        await asyncio.gather(*(mirror.read_after() for _ in range(100)))
        assert len(server.reads()) == before + 1
        assert now() - began < 0.1


async def test_those_who_ask_without_end_leave_the_server_a_rest() -> None:
    server = Server()
    server.delay = 0.0
    mirror = Mirror(server, pace=MirrorPace(rest=0.05))
    async with mirror.running():
        for _ in range(20):
            await mirror.read_after()
        assert now() > 0.05 * 18


async def test_who_gives_up_asking_disturbs_nobody() -> None:
    server = Server()
    server.delay = 1.0
    mirror = Mirror(server)
    async with mirror.running():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(mirror.read_after(), 0.5)
        assert (await mirror.read_after()).version >= 1
