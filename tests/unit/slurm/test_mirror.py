"""A mirror ends equal to Slurm whatever happens, and says so when it cannot know."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import Struct, structs

from sunk.slurm.belief import Known, Stale, Unknown
from sunk.slurm.errors import Unreachable
from sunk.slurm.mirror import Mirror, Pace
from sunk.slurm.reading import Others
from sunk.slurm.records import Job, Node, Table

pytestmark = pytest.mark.looptime

T = TypeVar("T", bound=Struct)
RUNNING, COMPLETED = 1, 3
EMPTY: dict[Any, Any] = {str: "", int: 0, bool: False}


def blank(kind: type[T], **values: Any) -> T:
    """A record in which only what matters has a value."""
    rest = {each.name: EMPTY.get(each.type, () if "tuple" in str(each.type) else None) for each in structs.fields(kind)}
    return kind(**{**rest, **values})


def node(name: str, *, reason: str = "") -> Node:
    return blank(Node, name=name, reason=reason)


def job(number: int, *, state: int = RUNNING) -> Job:
    return blank(Job, id=number, state_bits=state)


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """What a slurmctld answers, by a script: tables with the second of their last change, and nothing else."""

    def __init__(self, *rows: Node | Job) -> None:
        self.offset = 1000
        self.boot = 1
        self.away: Exception | None = None
        self.delay = 0.01
        self.asked: list[tuple[str, int]] = []
        self.meanwhile: Callable[[], None] | None = None
        """Done once, in the middle of the next read: when nodes have been read and jobs have not."""
        self._tables: dict[str, dict[Any, Any]] = {"nodes": {}, "jobs": {}, "partitions": {}, "reservations": {}}
        self._changed = dict.fromkeys(self._tables, self.clock)
        self.put(*rows)

    @property
    def clock(self) -> int:
        return int(now()) + self.offset

    @property
    def now(self) -> dict[str, dict[Any, Any]]:
        return {name: dict(rows) for name, rows in self._tables.items()}

    def put(self, *rows: Node | Job) -> None:
        for row in rows:
            table, key = ("nodes", row.name) if isinstance(row, Node) else ("jobs", row.id)
            self._tables[table][key] = row
            self._changed[table] = self.clock

    def drop(self, *keys: str | int) -> None:
        for key in keys:
            table = "nodes" if isinstance(key, str) else "jobs"
            if self._tables[table].pop(key, None) is not None:
                self._changed[table] = self.clock

    def restart(self, *, offset: int = 1000) -> None:
        self.boot += 1
        self.offset = offset
        self._changed = dict.fromkeys(self._tables, self.clock)

    def reads(self, table: str = "nodes") -> list[int]:
        return [since for name, since in self.asked if name == table]

    async def _answer(self, table: str, since: int) -> Table[Any] | None:
        self.asked.append((table, since))
        await asyncio.sleep(self.delay / 2)
        if self.away is not None:
            raise self.away
        found = Table(rows=tuple(self._tables[table].values()), updated=self.clock)
        unchanged = since - 1 >= self._changed[table]
        if table == "nodes" and self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        await asyncio.sleep(self.delay / 2)
        return None if unchanged else found

    async def nodes(self, since: int = 0) -> Table[Node] | None:
        return await self._answer("nodes", since)

    async def others(self, since: Mapping[str, int]) -> Others:
        jobs, partitions, reservations = [
            await self._answer(name, since.get(name, 0)) for name in ("jobs", "partitions", "reservations")
        ]
        return Others(jobs, partitions, reservations, boot=await self.boot_time())

    async def boot_time(self) -> int:
        await asyncio.sleep(self.delay)
        if self.away is not None:
            raise self.away
        return self.boot


def gone() -> Unreachable:
    return Unreachable(1800, asked="read the nodes", text="nobody is there")


def view(mirror: Mirror) -> dict[str, dict[Any, Any]]:
    return {
        "nodes": {row.name: row for row in mirror.nodes.all()},
        "jobs": {row.id: row for row in mirror.jobs.all()},
        "partitions": {row.name: row for row in mirror.partitions.all()},
        "reservations": {row.name: row for row in mirror.reservations.all()},
    }


def told(mirror: Mirror) -> dict[Any, Any]:
    """What somebody knows who only listens; he is never told a change from something that he was not told before."""
    known: dict[Any, Any] = {}

    def hear(key: str | int, before: Node | Job | None, after: Node | Job | None) -> None:
        assert known.pop(key, None) == before
        assert before != after
        if after is not None:
            known[key] = after

    mirror.nodes.subscribe(hear)
    mirror.jobs.subscribe(hear)
    return known


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
    mirror = Mirror(server, pace=Pace(quickest=0.2, slowest=2.0))
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


async def test_a_clock_that_is_set_back_hides_a_change_for_half_a_minute_at_most_and_from_a_whole_read_never() -> None:
    server = Server(node("a"))
    mirror = Mirror(server)
    async with mirror.running():
        await mirror.read_after()
        await asyncio.sleep(10)
        server.offset -= 600
        server.put(node("a", reason="seen late"))
        await mirror.read_after()
        assert mirror.nodes.get("a") == node("a")
        await asyncio.sleep(30)
        assert mirror.nodes.get("a") == node("a", reason="seen late")
        server.offset -= 300
        server.put(node("a", reason="seen at once"))
        await mirror.read_after(whole=True)
        assert mirror.nodes.get("a") == node("a", reason="seen at once")


async def test_a_restart_in_the_middle_of_a_read_begins_it_anew() -> None:
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
    mirror = Mirror(server, pace=Pace(slowest=50.0, growth=100.0, whole=1000.0))
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
    mirror = Mirror(server, pace=Pace(rest=0.05))
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


# Whatever happens

names = st.sampled_from("abc")
numbers = st.integers(1, 4)
pauses = st.sampled_from([0.0, 0.003, 0.03, 0.3, 0.999, 1.0, 3.0])
acts = st.one_of(
    st.tuples(st.just("node"), names),
    st.tuples(st.just("drop"), names | numbers),
    st.tuples(st.just("job"), numbers),
    st.tuples(st.just("away")),
    st.tuples(st.just("back")),
    st.tuples(st.just("restart"), st.integers(0, 2000)),
    st.tuples(st.just("ask")),
)


class History:
    """A server to which things happen, and a mirror that has to follow."""

    def __init__(self) -> None:
        self.server = Server(node("a"), job(1))
        self.mirror = Mirror(self.server)
        self.told = told(self.mirror)
        self._turn = 0

    async def happen(self, act: tuple[Any, ...]) -> None:
        self._turn += 1
        match act:
            case ("node", name):
                self.server.put(node(name, reason=str(self._turn)))
            case ("job", number):
                self.server.put(job(number))
            case ("drop", key):
                self.server.drop(key)
            case ("away",):
                self.server.away = gone()
            case ("back",):
                self.server.away = None
            case ("restart", offset):
                self.server.restart(offset=offset)
            case ("ask",):
                await self.ask()

    async def ask(self) -> None:
        """Nothing happens while this is awaited, so what was so at the call must be shown after it."""
        try:
            await self.mirror.read_after()
        except Stale:
            assert self.server.away is not None
        else:
            assert view(self.mirror) == self.server.now


@given(steps=st.lists(st.tuples(pauses, acts), max_size=20))
@settings(max_examples=50, deadline=None)
async def test_whatever_happens_the_mirror_ends_equal_to_slurm_and_everybody_was_told(
    steps: list[tuple[float, tuple[Any, ...]]],
) -> None:
    history = History()
    async with history.mirror.running():
        for pause, act in steps:
            await asyncio.sleep(pause)
            await history.happen(act)
        history.server.away = None
        await asyncio.sleep(7)
        assert view(history.mirror) == history.server.now
        assert history.told == history.server.now["nodes"] | history.server.now["jobs"]
        assert isinstance(history.mirror.state, Known)
