"""When a Pod that is not ready counts as that, and whether many became not ready at the same time."""

import asyncio
from datetime import datetime

import pytest
from hypothesis import given, strategies as st
from tests.unit.syncer.builders import going, later, pod
from tests.unit.syncer.stores import put, remove

from sunk.kube.cache.store import Store
from sunk.model.cluster.daemons import SyncerSettings
from sunk.syncer.drains.waves import LONG_AGO, TOGETHER, WaveDetector, crest
from sunk.syncer.pods import ComputePod

pytestmark = pytest.mark.looptime

SETTINGS = SyncerSettings(not_ready_after=5, wave_share=0.2, wave_delay=60)
STARTED = 3600.0
"""Seconds after the Pods began at which the loop's clock stood at zero."""


def now() -> float:
    return asyncio.get_running_loop().time()


def wall() -> datetime:
    return later(STARTED + now())


@pytest.fixture
async def pods() -> Store[ComputePod]:
    return Store("pods")


def followed(pods: Store[ComputePod], *, ready: int = 0) -> WaveDetector:
    put(pods, *(pod(f"n{number}") for number in range(ready)))
    return WaveDetector(pods, settings=SETTINGS, wall=wall)


def fall(pods: Store[ComputePod], *numbers: int) -> None:
    put(pods, *(pod(f"n{number}", ready=False, since=STARTED + now()) for number in numbers))


# One Pod


async def test_a_pod_that_stops_being_ready_counts_after_a_while(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=10)
    await asyncio.sleep(100)
    fall(pods, 1)
    assert detector.detect() is None
    assert detector.due("n1") == now() + 5
    assert detector.due("n2") == LONG_AGO


async def test_while_it_stays_so_the_time_goes_on_from_the_beginning(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=10)
    await asyncio.sleep(100)
    fall(pods, 1)
    await asyncio.sleep(3)
    put(pods, pod("n1", ready=False, since=STARTED + 100, cordon="x"))
    assert detector.due("n1") == 105
    put(pods, pod("n1"))
    await asyncio.sleep(3)
    fall(pods, 1)
    assert detector.due("n1") == 111


async def test_a_pod_that_was_never_ready_counts_at_once(pods: Store[ComputePod]) -> None:
    detector = followed(pods)
    put(pods, pod("n1", ready=False, since=0))
    assert detector.due("n1") == LONG_AGO
    put(pods, pod("n1", uid="another", ready=False, since=1))
    assert detector.due("n1") == LONG_AGO


async def test_another_pod_of_that_name_is_no_fallen_one(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=3)
    await asyncio.sleep(100)
    fall(pods, 1)
    assert detector.due("n1") > now()
    put(pods, pod("n1", uid="another", ready=False, since=0))
    assert detector.due("n1") == LONG_AGO
    fall(pods, 2)
    remove(pods, pod("n2"))
    put(pods, pod("n2", uid="another", ready=False, since=0))
    assert detector.due("n2") == LONG_AGO


async def test_what_happened_before_we_looked_is_judged_by_the_times_of_kubernetes(pods: Store[ComputePod]) -> None:
    put(pods, pod("n1", ready=False, since=STARTED - 2), pod("n2", ready=False, since=STARTED - 500))
    put(pods, pod("n3", ready=False, since=STARTED + 300))
    detector = followed(pods)
    assert detector.due("n1") == 3
    assert detector.due("n2") == -495
    assert detector.due("n3") == 5, "a clock that is ahead must not put it off"


# Many


async def test_many_that_fall_together_wait_and_that_is_said(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=20)
    await asyncio.sleep(100)
    for number in range(5):
        fall(pods, number)
        await asyncio.sleep(1)
    assert detector.delayed == ""
    wave = detector.detect()
    assert wave is not None
    assert wave.until == 104 + 60
    assert {detector.due(f"n{number}") for number in range(5)} == {164}
    assert detector.delayed == wave.message
    assert "5 of 20 Pods" in wave.message
    assert later(STARTED + 164).strftime("%H:%M:%S") in wave.message
    assert detector.detect() is None
    assert detector.count == 1


async def test_who_falls_during_a_wave_waits_with_it_and_who_falls_after_it_does_not(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=20)
    await asyncio.sleep(100)
    fall(pods, *range(5))
    detector.detect()
    await asyncio.sleep(50)
    fall(pods, 6)
    assert detector.detect() is None
    assert detector.due("n6") == 160
    await asyncio.sleep(11)
    assert detector.delayed == ""
    fall(pods, 7)
    assert detector.detect() is None
    assert detector.due("n7") == 161 + 5
    assert detector.due("n1") <= now()


async def test_a_wave_that_is_over_delays_nothing_any_more(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=20)
    await asyncio.sleep(100)
    fall(pods, *range(5))
    assert detector.detect() is not None
    put(pods, *(pod(f"n{number}") for number in range(5)))
    assert detector.delayed == ""


async def test_two_are_never_a_wave_and_a_small_share_is_none(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=3)
    await asyncio.sleep(100)
    fall(pods, 0, 1)
    assert detector.detect() is None
    put(pods, *(pod(f"n{number}") for number in range(100)))
    await asyncio.sleep(100)
    fall(pods, *range(20))
    assert detector.detect() is None
    fall(pods, 20)
    assert detector.detect() is not None


async def test_pods_that_end_or_fall_far_apart_are_no_wave(pods: Store[ComputePod]) -> None:
    detector = followed(pods, ready=20)
    await asyncio.sleep(100)
    fall(pods, *range(10))
    put(pods, *(going(pod(f"n{number}", ready=False)) for number in range(10)))
    assert detector.detect() is None
    for number in range(10, 20):
        fall(pods, number)
        assert detector.detect() is None
        await asyncio.sleep(TOGETHER / 3)


async def test_a_wave_that_we_were_started_in_the_middle_of_is_seen(pods: Store[ComputePod]) -> None:
    put(pods, *(pod(f"n{number}") for number in range(10)))
    put(pods, *(pod(f"n{number}", ready=False, since=STARTED - 30) for number in range(5)))
    detector = followed(pods)
    assert detector.detect() is not None
    assert detector.due("n1") == 30


async def test_one_that_was_over_before_we_started_is_not_told_any_more(pods: Store[ComputePod]) -> None:
    put(pods, *(pod(f"n{number}") for number in range(10)))
    put(pods, *(pod(f"n{number}", ready=False, since=STARTED - 500) for number in range(5)))
    detector = followed(pods)
    assert detector.detect() is None
    assert detector.count == 0


@given(st.lists(st.floats(0, 100), max_size=40).map(sorted), st.integers(0, 10))
def test_a_crest_is_the_first_moment_with_more_than_so_many_close_before_it(times: list[float], many: int) -> None:
    counts = [sum(since - TOGETHER <= other for other in times[: number + 1]) for number, since in enumerate(times)]
    assert crest(times, more_than=many) == next((at for at, count in enumerate(counts) if count > many), None)
