"""How often Pods that ended by themselves are replaced."""

import asyncio
from itertools import pairwise

import pytest
from tests.unit.operator.nodeset.cast import pod

from sunk.operator.nodeset.decide.healing import AT_ONCE, CALM, FIRST, LONGEST, PAUSE, Healing

pytestmark = pytest.mark.looptime

ONE = pod("gpu-0", phase="Failed")
MANY = tuple(pod(f"gpu-{number:03d}", phase="Failed") for number in range(100))


def now() -> float:
    return asyncio.get_running_loop().time()


async def replaced_for(healing: Healing, *, seconds: float) -> list[float]:
    """When a Pod that ends at once is replaced, by somebody who looks again when told."""
    times, end = [], now() + seconds
    while now() < end:
        due, wait = healing.due((ONE,))
        for one in due:
            healing.replaced(one.key)
            times.append(now())
        await asyncio.sleep(wait or 0)
    return times


async def test_the_first_that_ends_is_replaced_at_once() -> None:
    assert Healing().due((ONE,)) == ((ONE,), None)


async def test_one_that_keeps_ending_waits_longer_and_longer_up_to_a_bound() -> None:
    times = await replaced_for(Healing(), seconds=2000)
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(times)]
    assert pauses[:4] == [FIRST, FIRST * 2, FIRST * 4, FIRST * 8]
    assert pauses[-1] == LONGEST


async def test_one_that_lasted_begins_anew() -> None:
    healing = Healing()
    await replaced_for(healing, seconds=100)
    await asyncio.sleep(CALM + 1)
    assert healing.due((ONE,)) == ((ONE,), None)
    healing.replaced(ONE.key)
    assert healing.due((ONE,)) == ((), FIRST)


async def test_who_waits_holds_up_nobody_else() -> None:
    healing = Healing()
    healing.replaced(ONE.key)
    assert healing.due((ONE, MANY[1])) == ((MANY[1],), FIRST)


async def test_many_at_once_are_replaced_at_a_bounded_rate_however_often_somebody_looks() -> None:
    healing, left, times = Healing(), list(MANY), []
    while left:
        for one in healing.due(tuple(left))[0]:
            healing.replaced(one.key)
            left.remove(one)
            times.append(now())
        await asyncio.sleep(0.1)
    for first in times:
        assert sum(first <= time < first + PAUSE for time in times) <= AT_ONCE
    assert times[-1] <= PAUSE * len(MANY) / AT_ONCE + 1


async def test_whoever_has_to_wait_is_told_when_there_is_room_again() -> None:
    healing = Healing()
    for one in healing.due(MANY)[0]:
        healing.replaced(one.key)
    await asyncio.sleep(PAUSE / 2)
    none, wait = healing.due(MANY[AT_ONCE:])
    assert none == ()
    assert wait is not None
    await asyncio.sleep(wait)
    assert len(healing.due(MANY[AT_ONCE:])[0]) == AT_ONCE


async def test_what_no_longer_matters_is_forgotten() -> None:
    healing = Healing()
    for one in MANY:
        healing.replaced(one.key)
        await asyncio.sleep(1)
    await asyncio.sleep(CALM)
    healing.due(())
    assert not healing._past  # noqa: SLF001 - memory that grows shows nowhere else
    assert not healing._lately  # noqa: SLF001 - as above
