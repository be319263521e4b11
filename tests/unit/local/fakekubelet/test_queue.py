"""The order of work, under fake time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, strategies as st

from sunk.kube.errors import Unreachable
from sunk.local.fakekubelet.leases import next_renewal
from sunk.local.fakekubelet.queue import BACK_OFF, DueQueue

pytestmark = pytest.mark.looptime


class Looks:
    """Somebody who looks at keys, and when; each look takes some time, and the first few may fail."""

    def __init__(self, *, takes: float = 0.0, failures: int = 0) -> None:
        self.seen: list[tuple[float, str]] = []
        self._takes = takes
        self._failures = failures

    async def __call__(self, key: str) -> float | None:
        self.seen.append((asyncio.get_running_loop().time(), key))
        await asyncio.sleep(self._takes)
        if len(self.seen) <= self._failures:
            raise Unreachable("not there")
        return None


@asynccontextmanager
async def served(queue: DueQueue[str], look: Looks, *, workers: int = 2) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(queue.serve(look), name=f"worker {n}") for n in range(workers)]
        yield
        for task in tasks:
            task.cancel()
    queue.close()


async def test_a_key_added_twice_is_looked_at_once() -> None:
    queue, look = DueQueue[str](), Looks()
    queue.add("a")
    queue.add("a")
    async with served(queue, look):
        await asyncio.sleep(1)
    assert [key for _, key in look.seen] == ["a"]


async def test_the_earlier_of_two_times_counts() -> None:
    queue, look = DueQueue[str](), Looks()
    queue.add("a", at=10)
    queue.add("a", at=5)
    queue.add("a", at=20)
    async with served(queue, look):
        await asyncio.sleep(60)
    assert look.seen == [(5, "a")]


async def test_a_key_in_hand_is_looked_at_again_and_never_by_two() -> None:
    queue, look = DueQueue[str](), Looks(takes=3)
    queue.add("a")
    async with served(queue, look):
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(60)
    assert look.seen == [(0, "a"), (3, "a")]


async def test_a_time_taken_back_does_not_come() -> None:
    queue, look = DueQueue[str](), Looks()
    queue.add("a", at=5)
    queue.forget("a")
    async with served(queue, look):
        await asyncio.sleep(60)
    assert look.seen == []


async def test_failures_are_tried_again_less_and_less_often() -> None:
    queue, look = DueQueue[str](), Looks(failures=8)
    queue.add("a")
    async with served(queue, look):
        await asyncio.sleep(120)
    gaps = [late - early for (early, _), (late, _) in zip(look.seen, look.seen[1:], strict=False)]
    assert gaps[:3] == [BACK_OFF.first, BACK_OFF.first * 2, BACK_OFF.first * 4]
    assert gaps[-1] == BACK_OFF.longest
    assert len(queue) == 0


@given(name=st.text(max_size=20), period=st.floats(1, 1000), clock=st.floats(0, 1e7))
def test_the_next_renewal_is_never_later_than_a_period_and_a_tenth(name: str, period: float, clock: float) -> None:
    gap = next_renewal(name, period=period, clock=clock) - clock
    assert period / 10 * 0.999 <= gap <= period * 1.101


def test_renewals_of_a_fleet_are_spread_over_the_period() -> None:
    beats = [next_renewal(f"fake-{number:04}", period=200, clock=1000) for number in range(5000)]
    tenths = [sum(1 for beat in beats if 1020 + 20 * n <= beat < 1040 + 20 * n) for n in range(10)]
    assert min(tenths) > 400
