"""Each key once, one worker at a time, the earliest wish first, and nothing waits for ever."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from sunk.kube.control.queue import FAIRNESS, Priority, Queue
from sunk.kube.process import loop
from sunk.model.backoff import BackOff

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def take(queue: Queue[str], count: int) -> list[str]:
    """Take and finish so many keys, which must all be ready."""
    keys = []
    async with asyncio.timeout(0.001):
        for _ in range(count):
            keys.append(await queue.get())
            queue.done(keys[-1])
    return keys


async def test_wishes_for_one_key_melt_into_one() -> None:
    queue = Queue[str]()
    for key in "abab":
        queue.add(key)
    assert await take(queue, 2) == ["a", "b"]
    assert queue.statistics().depth == 0


async def test_a_key_in_work_is_handed_out_again_only_when_that_work_is_done() -> None:
    queue = Queue[str]()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 10)
    queue.done("a")
    assert await take(queue, 1) == ["a"]
    assert queue.statistics().depth == 0


def test_wishes_for_the_next_moment_are_met_by_the_loop_of_our_processes() -> None:
    async def meet() -> list[str]:
        queue = Queue[str]()
        for key, delay in (("b", 0.0003), ("a", 0.0001), ("c", 0.0002)):
            queue.add_after(key, delay=delay)
        return sorted([await queue.get() for _ in "abc"])

    assert loop.run(meet()) == ["a", "b", "c"]


async def test_fresh_keys_go_first_and_a_key_becomes_fresh() -> None:
    queue = Queue[str]()
    for key in "abc":
        queue.add(key, priority=Priority.LATER)
    queue.add("x")
    queue.add("b")
    assert await take(queue, 4) == ["x", "b", "a", "c"]


async def test_a_flood_of_fresh_keys_does_not_keep_the_others_for_ever() -> None:
    queue = Queue[str]()
    queue.add("old", priority=Priority.LATER)
    for number in range(3 * FAIRNESS):
        queue.add(str(number))
    assert "old" in await take(queue, FAIRNESS)


async def test_the_earliest_of_several_delays_wins() -> None:
    queue, began = Queue[str](), now()
    for delay in (30, 10, 20):
        queue.add_after("a", delay=delay)
    assert await queue.get() == "a"
    assert now() - began == pytest.approx(10)
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


async def test_a_wish_for_now_swallows_a_delayed_one_and_a_delay_does_not_put_off_what_is_ready() -> None:
    queue = Queue[str]()
    queue.add_after("a", delay=10)
    queue.add("a")
    queue.add_after("a", delay=10)
    assert await take(queue, 1) == ["a"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)


async def test_delays_that_were_overtaken_do_not_pile_up() -> None:
    queue = Queue[str]()
    for _ in range(500):
        queue.add_after("a", delay=3600)
        queue.add("a")
        await take(queue, 1)
    assert len(queue._heap) < 100  # noqa: SLF001 - nothing else shows it


async def test_every_failure_in_a_row_doubles_the_wait_up_to_a_bound_and_success_resets_it() -> None:
    queue = Queue[str](back_off=BackOff(first=1.0, longest=10.0))
    delays = []
    for _ in range(6):
        delays.append(queue.retry("a"))
        assert await queue.get() == "a"
        queue.done("a")
    for delay, full in zip(delays, (1, 2, 4, 8, 10, 10), strict=True):
        assert full / 2 <= delay <= full
    queue.forget("a")
    assert queue.retry("a") <= 1


async def test_an_event_does_not_wait_for_the_back_off() -> None:
    queue = Queue[str](back_off=BackOff(first=50.0))
    queue.retry("a")
    queue.add("a")
    assert await take(queue, 1) == ["a"]


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_worker_that_is_cancelled_when_its_turn_came_leaves_the_key_to_another(lost: int) -> None:
    queue = Queue[str]()
    workers = [asyncio.create_task(queue.get(), name=name) for name in ("first", "second")]
    await asyncio.sleep(1)
    queue.add("a")
    workers.pop(lost).cancel()
    async with asyncio.timeout(1):
        assert await workers[0] == "a"


async def test_a_burst_calls_every_worker_that_sleeps_while_none_is_done() -> None:
    queue = Queue[str]()
    workers = [asyncio.create_task(queue.get(), name=f"worker {number}") for number in range(3)]
    await asyncio.sleep(1)
    for key in "abcd":
        queue.add(key)
    async with asyncio.timeout(1):
        assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]
    assert await take(queue, 1) == ["d"]


async def test_a_closed_queue_hands_out_nothing_and_lets_work_in_hand_finish() -> None:
    queue = Queue[str]()
    for key in "ab":
        queue.add(key)
    assert await queue.get() == "a"
    queue.add_after("c", delay=1)
    queue.close()
    queue.add("d")
    ended = asyncio.create_task(queue.idle())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 100)
    assert not ended.done()
    queue.done("a")
    await ended


async def test_statistics_count_what_happened_and_say_what_is() -> None:
    queue = Queue[str]()
    for key in "ab":
        queue.add(key)
    await asyncio.sleep(2)
    assert await queue.get() == "a"
    await asyncio.sleep(3)
    shown = queue.statistics()
    assert (shown.depth, shown.working, shown.adds, shown.taken, shown.finished) == (1, 1, 2, 1, 0)
    assert (shown.waited, shown.longest_wait, shown.longest_work) == pytest.approx((2, 5, 3))
    queue.done("a")
    queue.retry("a")
    shown = queue.statistics()
    assert (shown.delayed, shown.retries, shown.finished, shown.worked) == pytest.approx((1, 1, 1, 3))


class Model:
    """What a queue promises, in the simplest way to say it: by looking at every key each time."""

    def __init__(self) -> None:
        self.ready: dict[str, Priority] = {}
        self.again: dict[str, Priority] = {}
        self.due: dict[str, float] = {}
        self.working: set[str] = set()

    def add(self, key: str, priority: Priority) -> None:
        wishes = self.again if key in self.working else self.ready
        if wishes.get(key, -1) < priority:
            wishes.pop(key, None)  # behind those that were fresh before
            wishes[key] = priority
        self.due.pop(key, None)

    def add_after(self, key: str, delay: float) -> None:
        when = now() + delay
        if key not in self.ready and key not in self.again and self.due.get(key, float("inf")) > when:
            self.due.pop(key, None)  # of two wishes for the same moment the first one stays first
            self.due[key] = when

    def pass_time(self) -> None:
        for key in sorted(self.due, key=lambda each: self.due[each]):
            if self.due[key] <= now():
                self.add(key, Priority.FRESH)

    def next(self, *, fair: bool) -> str:
        by_rank = {rank: [key for key, found in self.ready.items() if found == rank] for rank in Priority}
        later_first = fair and by_rank[Priority.LATER]
        return (by_rank[Priority.LATER] if later_first else by_rank[Priority.FRESH] or by_rank[Priority.LATER])[0]

    def get(self, key: str) -> None:
        del self.ready[key]
        self.working.add(key)

    def done(self, key: str) -> None:
        self.working.remove(key)
        if key in self.again:
            self.add(key, self.again.pop(key))


KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.sampled_from(Priority)),
    st.tuples(st.just("after"), KEYS, st.floats(min_value=0.1, max_value=5)),
    st.tuples(st.just("sleep"), st.floats(min_value=0.1, max_value=5)),
    st.tuples(st.just("done"), KEYS),
    st.just(("get",)),
)


@given(steps=st.lists(STEPS, max_size=50))
@settings(max_examples=200, deadline=None)
async def test_a_queue_does_what_its_model_does(steps: list[tuple[object, ...]]) -> None:
    queue, model, taken = Queue[str](), Model(), Counter[str]()
    for step in steps:
        match step:
            case ("add", str(key), Priority() as priority):
                queue.add(key, priority=priority)
                model.add(key, priority)
            case ("after", str(key), float(delay)):
                queue.add_after(key, delay=delay)
                model.add_after(key, delay)
            case ("sleep", float(seconds)):
                await asyncio.sleep(seconds)
                model.pass_time()
            case ("done", str(key)) if key in model.working:
                queue.done(key)
                model.done(key)
            case ("get",) if model.ready:
                key = await queue.get()
                assert key == model.next(fair=taken.total() % FAIRNESS == FAIRNESS - 1)
                taken[key] += 1
                model.get(key)
        shown = queue.statistics()
        assert (shown.depth, shown.working, shown.delayed) == (len(model.ready), len(model.working), len(model.due))
    queue.close()
