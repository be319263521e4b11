"""Many writes at a time: few at first, never too many, and none suffers from another."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sunk.operator.nodeset.act.batches import MOST, in_parallel, slow_start

pytestmark = pytest.mark.looptime


class Desk:
    """Takes a second for each, and remembers when each began and how many there were at once."""

    def __init__(self, *, refuses: frozenset[int] = frozenset()) -> None:
        self.begun: dict[int, float] = {}
        self.most = 0
        self._refuses = refuses
        self._now = 0

    async def take(self, number: int) -> None:
        self.begun[number] = asyncio.get_running_loop().time()
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(1)
        self._now -= 1
        if number in self._refuses:
            raise ValueError(number)

    def batches(self) -> list[int]:
        times = list(self.begun.values())
        return [times.count(time) for time in sorted(set(times))]


async def test_batches_double_until_there_are_many_at_once() -> None:
    desk = Desk()
    assert await slow_start(range(300), desk.take) == []
    assert desk.batches() == [1, 2, 4, 8, 16, 32, 64, 64, 64, 45]
    assert desk.most == MOST


async def test_what_refuses_the_first_is_asked_once() -> None:
    desk = Desk(refuses=frozenset(range(300)))
    (trouble,) = await slow_start(range(300), desk.take)
    assert str(trouble) == "0"
    assert len(desk.begun) == 1


async def test_a_batch_in_which_one_is_refused_is_finished_and_the_last() -> None:
    desk = Desk(refuses=frozenset({4}))
    assert [str(one) for one in await slow_start(range(300), desk.take)] == ["4"]
    assert sorted(desk.begun) == [0, 1, 2, 3, 4, 5, 6]


async def test_together_goes_on_whatever_happens_to_one() -> None:
    desk = Desk(refuses=frozenset({0, 7}))
    trouble = await in_parallel(range(20), desk.take, most=5)
    assert sorted(str(one) for one in trouble) == ["0", "7"]
    assert len(desk.begun) == 20
    assert desk.most == 5


@pytest.mark.parametrize("way", [slow_start, in_parallel])
async def test_nothing_to_do_is_done_at_once(way: Callable[..., Awaitable[list[Exception]]]) -> None:
    assert await way((), Desk().take) == []


async def test_who_is_cancelled_in_the_middle_leaves_nobody_at_work() -> None:
    desk = Desk()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await in_parallel(range(10), desk.take, most=3)
    await asyncio.sleep(5)
    assert len(desk.begun) == 3
