"""The token bucket, under fake time."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from sunk.kube.api.limits import Bucket

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    bucket, times = Bucket(10, burst=3), []
    for _ in range(6):
        await bucket.take()
        times.append(round(now(), 3))
    assert times == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_what_was_not_used_is_saved_up_to_the_burst_only() -> None:
    bucket = Bucket(10, burst=3)
    await bucket.take()
    await asyncio.sleep(1000)
    assert [bucket.try_take() for _ in range(4)] == [True, True, True, False]


async def test_waiters_are_served_in_the_order_they_came() -> None:
    bucket, served = Bucket(1), []

    async def wait(number: int) -> None:
        await bucket.take()
        served.append((number, round(now())))

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(wait(number), name=f"waiter {number}")
    assert served == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert bucket.statistics().waited == pytest.approx(1 + 2 + 3 + 4)


async def test_one_that_gives_up_leaves_its_turn_to_the_next() -> None:
    bucket = Bucket(1)
    await bucket.take()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await bucket.take()
    await bucket.take()
    assert now() == pytest.approx(1)
    assert bucket.statistics().waiting == 0


@given(rate=st.floats(0.1, 100), burst=st.integers(1, 20), pauses=st.lists(st.floats(0, 2), max_size=60))
def test_never_more_than_rate_and_burst_pass_in_any_stretch(rate: float, burst: int, pauses: list[float]) -> None:
    import looptime

    async def run() -> list[float]:
        bucket, passed = Bucket(rate, burst=burst), []
        for pause in pauses:
            await asyncio.sleep(pause)
            await bucket.take()
            passed.append(now())
        return passed

    loop = looptime.new_event_loop(start=0)
    try:
        passed = loop.run_until_complete(run())
    finally:
        loop.close()
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + (passed[last] - passed[first]) * rate + 0.01


async def test_a_bucket_that_lets_nothing_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="lets nothing pass"):
        Bucket(0)
