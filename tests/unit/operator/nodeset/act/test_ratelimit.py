"""How often Pods that ended are recreated, and how often a clearance is asked for again."""

import asyncio
from itertools import pairwise

import pytest
from tests.unit.operator.nodeset.factories import pod

from sunk.operator.nodeset.act.ratelimit import AT_ONCE, CALM, FIRST, LONGEST, PAUSE, ClearanceRenewals, RecreateBackoff

pytestmark = pytest.mark.looptime

ONE = pod("gpu-0", phase="Failed")
MANY = tuple(pod(f"gpu-{number:03d}", phase="Failed") for number in range(100))


def now() -> float:
    return asyncio.get_running_loop().time()


async def replaced_for(backoff: RecreateBackoff, *, seconds: float) -> list[float]:
    """When a Pod that ends at once is replaced, by somebody who looks again when told."""
    times, end = [], now() + seconds
    while now() < end:
        due, wait = backoff.due((ONE,))
        for one in due:
            backoff.replaced(one.key)
            times.append(now())
        await asyncio.sleep(wait or 0)
    return times


async def test_the_first_that_ends_is_replaced_at_once() -> None:
    assert RecreateBackoff().due((ONE,)) == ((ONE,), None)


async def test_one_that_keeps_ending_waits_longer_and_longer_up_to_a_bound() -> None:
    times = await replaced_for(RecreateBackoff(), seconds=2000)
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(times)]
    assert pauses[:4] == [FIRST, FIRST * 2, FIRST * 4, FIRST * 8]
    assert pauses[-1] == LONGEST


async def test_one_that_lasted_starts_over() -> None:
    backoff = RecreateBackoff()
    await replaced_for(backoff, seconds=100)
    await asyncio.sleep(CALM + 1)
    assert backoff.due((ONE,)) == ((ONE,), None)
    backoff.replaced(ONE.key)
    assert backoff.due((ONE,)) == ((), FIRST)


async def test_who_waits_holds_up_nobody_else() -> None:
    backoff = RecreateBackoff()
    backoff.replaced(ONE.key)
    assert backoff.due((ONE, MANY[1])) == ((MANY[1],), FIRST)


async def test_many_at_once_are_replaced_at_a_bounded_rate_however_often_somebody_looks() -> None:
    backoff, left, times = RecreateBackoff(), list(MANY), []
    while left:
        for one in backoff.due(tuple(left))[0]:
            backoff.replaced(one.key)
            left.remove(one)
            times.append(now())
        await asyncio.sleep(0.1)
    for first in times:
        assert sum(first <= time < first + PAUSE for time in times) <= AT_ONCE
    assert times[-1] <= PAUSE * len(MANY) / AT_ONCE + 1


async def test_whoever_has_to_wait_is_told_when_there_is_room_again() -> None:
    backoff = RecreateBackoff()
    for one in backoff.due(MANY)[0]:
        backoff.replaced(one.key)
    await asyncio.sleep(PAUSE / 2)
    none, wait = backoff.due(MANY[AT_ONCE:])
    assert none == ()
    assert wait is not None
    await asyncio.sleep(wait)
    assert len(backoff.due(MANY[AT_ONCE:])[0]) == AT_ONCE


async def test_what_no_longer_matters_is_forgotten() -> None:
    backoff = RecreateBackoff()
    for one in MANY:
        backoff.replaced(one.key)
        await asyncio.sleep(1)
    await asyncio.sleep(CALM)
    backoff.due(())
    assert not backoff._past  # noqa: SLF001 - memory that grows shows nowhere else
    assert not backoff._lately  # noqa: SLF001 - as above


async def test_each_is_asked_for_once_in_the_time_for_which_one_holds() -> None:
    renewals, one, other = ClearanceRenewals(), pod("a"), pod("b")
    assert renewals.due((one,)) == ((one,), None)
    await asyncio.sleep(10)
    assert renewals.due((one, other)) == ((other,), 20)
    await asyncio.sleep(20)
    assert renewals.due((one, other)) == ((one,), 10)
