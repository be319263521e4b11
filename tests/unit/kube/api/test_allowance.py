import asyncio

import pytest

from sunk.kube.api.allowance import Allowance, Expired
from sunk.kube.process import loop

pytestmark = pytest.mark.looptime


async def value() -> str:
    await asyncio.sleep(1)
    return "done"


async def test_what_ends_in_time_gives_its_result_again_and_again() -> None:
    allowance = Allowance()
    for _ in range(10):
        assert await allowance.within(1.5, value()) == "done"


async def test_what_takes_longer_is_ended_when_its_own_time_is_up() -> None:
    allowance = Allowance()
    await allowance.within(50, value())  # its timer still runs, and rings for somebody else
    began = asyncio.get_running_loop().time()
    with pytest.raises(Expired):
        await allowance.within(70, asyncio.sleep(1000))
    assert asyncio.get_running_loop().time() - began == pytest.approx(70)


async def test_a_shorter_limit_after_a_longer_one_holds() -> None:
    allowance = Allowance()
    await allowance.within(500, value())
    began = asyncio.get_running_loop().time()
    with pytest.raises(Expired):
        await allowance.within(5, asyncio.sleep(1000))
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)


def test_the_shortest_limits_hold_on_the_loop_of_our_processes() -> None:
    async def at_once() -> str:
        return "done"

    async def again_and_again() -> None:
        allowance = Allowance()
        for seconds in (0.0002, 50, 0.0001):
            assert await allowance.within(seconds, at_once()) == "done"
        with pytest.raises(Expired):
            await allowance.within(0.0001, asyncio.sleep(1000))

    loop.run(again_and_again())


async def test_it_can_be_used_after_it_expired() -> None:
    allowance = Allowance()
    with pytest.raises(Expired):
        await allowance.within(1, asyncio.sleep(10))
    assert await allowance.within(2, value()) == "done"


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    task = asyncio.create_task(Allowance().within(10, asyncio.sleep(100)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_limit_further_in_is_not_taken_for_ours() -> None:
    async def hasty() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError) as found:
        await Allowance().within(10, hasty())
    assert not isinstance(found.value, Expired)
