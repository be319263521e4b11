"""Every difference leads to a look at its keys; what fails is tried again, and nothing is decided on half a world."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from sunk.kube.cache.store import Store
from sunk.kube.cache.view import Changed, Deleted, Synced
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, Terminal, itself, owner
from sunk.kube.errors import Conflict, KubeError, Status, TooManyRequests, Unreachable
from sunk.kube.resource import Key, Metadata, OwnerReference, Record
from sunk.kube.tasks import Ended, running
from sunk.model.backoff import BackOff

pytestmark = pytest.mark.looptime

A, B = Key("", "a"), Key("", "b")
QUICK = Effort(back_off=BackOff(first=1.0, longest=1.0))
Reconcile = Callable[[Key], Awaitable[Requeue | None]]


def record(name: str, version: int, **labels: str) -> Record:
    return Record(metadata=Metadata(name=name, uid=name, resource_version=str(version), labels=labels))


class World:
    """A store that a test feeds by hand, and what a controller has done about it."""

    def __init__(self) -> None:
        self.store = Store[Record]("things")
        self.version = 10
        self.looks: list[Key] = []
        self.times: list[float] = []
        self.answer: Reconcile = self.nothing

    def sync(self) -> None:
        self.store.take(Synced(), version=str(self.version))

    def change(self, name: str, **labels: str) -> None:
        self.version += 1
        live = str(self.version) if self.store.synced else ""
        self.store.take(Changed(record(name, self.version, **labels)), version=live)

    def delete(self, name: str, **labels: str) -> None:
        self.version += 1
        self.store.take(Deleted(record(name, self.version, **labels)), version=str(self.version))

    async def nothing(self, _: Key) -> None:
        return

    async def reconcile(self, key: Key) -> Requeue | None:
        self.looks.append(key)
        self.times.append(asyncio.get_running_loop().time())
        return await self.answer(key)

    def controller(self, effort: Effort = QUICK) -> Controller[Key]:
        return Controller("things", self.reconcile, sources=[Source(self.store, itself)], effort=effort)


@asynccontextmanager
async def working(world: World, effort: Effort = QUICK) -> AsyncIterator[Controller[Key]]:
    controller = world.controller(effort)
    async with running({"controller": controller.run()}):
        await asyncio.sleep(0)
        yield controller


@pytest.fixture
def world() -> World:
    return World()


async def test_nothing_is_looked_at_before_every_source_is_complete(world: World) -> None:
    async with working(world):
        world.change("a")
        world.change("b")
        await asyncio.sleep(10)
        assert world.looks == []
        world.sync()
        await asyncio.sleep(1)
        assert world.looks == [A, B]


async def test_what_a_store_held_before_is_looked_at_once(world: World) -> None:
    world.change("a")
    world.sync()
    async with working(world):
        await asyncio.sleep(1)
        assert world.looks == [A]


async def test_a_change_and_a_deletion_lead_to_a_look(world: World) -> None:
    world.sync()
    async with working(world):
        world.change("a")
        await asyncio.sleep(1)
        world.delete("a")
        await asyncio.sleep(1)
        assert world.looks == [A, A]


async def test_who_has_lost_an_object_looks_as_well_as_who_has_got_it() -> None:
    world, looks = World(), list[str]()

    def node(one: Record) -> Iterator[str]:
        yield from one.metadata.labels.values()

    async def reconcile(name: str) -> None:
        looks.append(name)

    world.sync()
    controller = Controller[str]("nodes", reconcile, sources=[Source(world.store, node)])
    async with running({"controller": controller.run()}):
        await asyncio.sleep(0)
        world.change("a", node="x")
        await asyncio.sleep(1)
        world.change("a", node="y")
        await asyncio.sleep(1)
    assert looks == ["x", "x", "y"]


async def test_a_record_that_nobody_can_make_sense_of_keeps_no_other_from_its_look() -> None:
    def keys(found: Record) -> Iterator[Key]:
        if "odd" in found.metadata.labels:
            raise RecursionError("too deep")
        yield found.key

    world = World()
    controller = Controller("things", world.reconcile, sources=[Source(world.store, keys)], effort=QUICK)
    world.change("a", odd="yes")
    async with running({"controller": controller.run()}):
        world.sync()
        world.change("b")
        await asyncio.sleep(1)
        assert world.looks == [B]
        world.change("a")
        await asyncio.sleep(1)
        assert A in world.looks


def test_an_owner_is_the_controlling_one_of_that_kind() -> None:
    references = [
        OwnerReference(api_version="v1", kind="NodeSet", name=name, uid="1", controller=name == "b") for name in "ab"
    ]
    one = Record(metadata=Metadata(name="p", namespace="n", owner_references=tuple(references)))
    assert list(owner("NodeSet")(one)) == [Key("n", "b")]
    assert list(owner("Other")(one)) == []


async def test_a_key_is_looked_at_again_after_the_time_it_asked_for(world: World) -> None:
    async def again(_: Key) -> Requeue | None:
        return Requeue(after=30) if len(world.looks) < 3 else None

    world.sync()
    world.answer = again
    async with working(world):
        world.change("a")
        await asyncio.sleep(1000)
    assert [round(later - world.times[0]) for later in world.times] == [0, 30, 60]


async def test_a_failure_is_tried_again_with_one_clear_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def fail_once(_: Key) -> None:
        if len(world.looks) == 1:
            raise Unreachable("GET /pods: no answer in time")

    world.sync()
    world.answer = fail_once
    async with working(world) as controller:
        world.change("a")
        await asyncio.sleep(10)
        assert world.looks == [A, A]
        assert (controller.statistics().retried, controller.statistics().succeeded) == (1, 1)
    (line,) = caplog.records
    assert line.getMessage().startswith("things: a: GET /pods: no answer in time; retrying in ")
    assert line.exc_info is None


async def test_an_unknown_error_comes_with_its_place(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def fail_once(_: Key) -> None:
        if len(world.looks) == 1:
            async with asyncio.TaskGroup() as group:
                group.create_task(broken(), name="broken")

    async def broken() -> None:
        raise ValueError("out of cheese")

    world.sync()
    world.answer = fail_once
    async with working(world):
        world.change("a")
        await asyncio.sleep(10)
    (line,) = caplog.records
    assert "things: a: out of cheese; retrying in" in line.getMessage()
    assert line.exc_info


async def test_a_conflict_is_nothing_to_worry_about(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def fail_once(_: Key) -> None:
        if len(world.looks) == 1:
            raise Conflict(Status(code=409), asked="PATCH /pods/a")

    world.sync()
    world.answer = fail_once
    with caplog.at_level(logging.INFO):
        async with working(world):
            world.change("a")
            await asyncio.sleep(10)
    assert [line.levelno for line in caplog.records] == [logging.INFO]
    assert world.looks == [A, A]


async def test_a_busy_server_is_given_the_time_it_asked_for(world: World) -> None:
    async def fail_once(_: Key) -> None:
        if len(world.looks) == 1:
            raise TooManyRequests(Status(code=429), asked="POST /eviction", retry_after=40)

    world.sync()
    world.answer = fail_once
    async with working(world):
        world.change("a")
        await asyncio.sleep(100)
    assert world.times[1] - world.times[0] == pytest.approx(40)


async def test_a_terminal_error_is_not_tried_again_before_something_changes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: Key) -> None:
        raise Terminal("the annotation is no number: correct it")

    world.sync()
    world.answer = refuse
    async with working(world) as controller:
        world.change("a")
        await asyncio.sleep(1000)
        assert world.looks == [A]
        world.change("a")
        await asyncio.sleep(1000)
        assert world.looks == [A, A]
        assert controller.statistics().terminal == 2
    assert "correct it; not retried until something changes" in caplog.messages[0]


async def test_a_reconcile_that_hangs_is_cancelled_and_tried_again(world: World) -> None:
    async def hang_once(_: Key) -> None:
        if len(world.looks) == 1:
            await asyncio.sleep(1e6)

    world.sync()
    world.answer = hang_once
    async with working(world, Effort(patience=20, back_off=BackOff(first=1, longest=1))) as controller:
        world.change("a")
        await asyncio.sleep(100)
        shown = controller.statistics()
    assert 20 <= world.times[1] - world.times[0] <= 22
    assert (shown.late, shown.retried, shown.succeeded) == (1, 1, 1)


async def test_nothing_is_decided_while_the_answer_to_a_write_is_missing(world: World) -> None:
    world.sync()
    async with working(world):
        world.store.doubt(B)
        world.change("a")
        await asyncio.sleep(30)
        assert world.looks == []
        world.store.settle(B, world.store.doubt_of(B))
        await asyncio.sleep(1)
        assert world.looks == [A]


async def test_one_key_is_never_in_two_hands_and_others_do_not_wait_for_it(world: World) -> None:
    hands = 0

    async def slow(key: Key) -> None:
        nonlocal hands
        if key == A:
            hands += 1
            assert hands == 1
            await asyncio.sleep(10)
            hands -= 1

    world.sync()
    world.answer = slow
    async with working(world):
        for _ in range(5):
            world.change("a")
            world.change("b")
            await asyncio.sleep(1)
        await asyncio.sleep(100)
    assert world.looks.count(A) == 2
    assert world.looks.count(B) == 5


async def test_everything_is_looked_at_again_at_every_resync(world: World) -> None:
    world.sync()
    async with working(world, Effort(resync=100)):
        world.change("a")
        await asyncio.sleep(350)
    assert len(world.looks) == 4


async def test_draining_lets_work_in_hand_finish_and_begins_nothing_new(world: World) -> None:
    finished = list[Key]()

    async def slow(key: Key) -> None:
        await asyncio.sleep(10)
        finished.append(key)

    world.sync()
    world.answer = slow
    async with working(world, Effort(workers=1)) as controller:
        world.change("a")
        world.change("b")
        await asyncio.sleep(1)
        await controller.shut_down()
        assert finished == [A]
        await asyncio.sleep(100)
    assert world.looks == [A]


async def test_cancelling_ends_work_in_hand_and_the_controller_listens_no_more(world: World) -> None:
    async def hang(_: Key) -> None:
        await asyncio.sleep(1e6)

    world.sync()
    world.answer = hang
    async with working(world) as controller:
        world.change("a")
        await asyncio.sleep(1)
    adds = controller.statistics().queue.adds
    world.change("b")
    assert controller.statistics().queue.adds == adds


async def test_many_quick_reconciles_do_not_keep_the_loop_to_themselves(world: World) -> None:
    """The clock of this test stands still while code runs, so it is moved by hand."""
    world.sync()
    gaps = list[int]()

    async def count(_: Key) -> None:
        gaps[-1] += 1
        asyncio.get_running_loop().setup_looptime(start=asyncio.get_running_loop().time() + 0.001)  # type: ignore[attr-defined]

    async def pulse() -> None:
        while True:
            gaps.append(0)
            await asyncio.sleep(0)

    world.answer = count
    async with working(world, Effort(workers=1)), running({"pulse": pulse()}):
        await asyncio.sleep(0)
        for number in range(100):
            world.change(str(number))
        while len(world.looks) < 100:
            await asyncio.sleep(0)
    assert max(gaps) <= 8


async def test_a_burst_after_a_pause_is_got_through_by_one_worker(world: World) -> None:
    world.sync()
    hands = list[str]()

    async def note(_: Key) -> None:
        task = asyncio.current_task()
        hands.append(task.get_name() if task else "nobody")

    world.answer = note
    async with working(world, Effort(workers=3)):
        for _ in range(2):
            await asyncio.sleep(1)
            hands.clear()
            for number in range(5):
                world.change(str(number))
        await asyncio.sleep(1)
    assert len(hands) == 5
    assert len(set(hands)) == 1


# Tasks


async def test_a_task_that_ends_by_itself_is_a_fault() -> None:
    async def short() -> None:
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as fault:
        async with running({"short": short()}):
            await asyncio.sleep(1e6)
    (ended,) = fault.value.exceptions
    assert isinstance(ended, Ended)
    assert '"short" ended although it should run forever' in str(ended)


async def test_an_error_in_a_task_ends_the_others_and_the_block() -> None:
    ended = asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(1)
        raise KubeError("bad")

    async def lasts() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            ended.set()

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with running({"fails": fails(), "lasts": lasts()}):
            await asyncio.sleep(1e6)
    assert ended.is_set()
