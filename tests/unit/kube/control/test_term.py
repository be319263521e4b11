"""How long a leader leads, under fake time."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from sunk.kube.control.term import LeaseLost, LeaseTerm, LeaseTiming, ObservedLease

pytestmark = pytest.mark.looptime

TIMING = LeaseTiming(duration=15, margin=5, interval=2)


def now() -> float:
    return asyncio.get_running_loop().time()


async def stay(term: LeaseTerm) -> None:
    async with term.bounded():
        await asyncio.sleep(3600)


def later(delay: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(delay, call)


async def test_without_a_renewal_the_block_ends_a_margin_before_the_lease_does() -> None:
    term = LeaseTerm(TIMING, sent=now())
    with pytest.raises(LeaseLost, match="not renewed in time"):
        await stay(term)
    assert now() == pytest.approx(10)
    assert not term.holds()


async def test_a_renewal_counts_from_when_it_was_sent() -> None:
    term = LeaseTerm(TIMING, sent=now())
    later(9, lambda: term.renewed(sent=4))
    with pytest.raises(LeaseLost):
        await stay(term)
    assert now() == pytest.approx(14)


async def test_a_renewal_that_was_answered_too_late_extends_nothing() -> None:
    term = LeaseTerm(TIMING, sent=now())
    await asyncio.sleep(11)
    term.renewed(sent=9)
    assert not term.holds()


async def test_a_block_that_ends_in_time_is_left_alone() -> None:
    term = LeaseTerm(TIMING, sent=now())
    async with term.bounded():
        await asyncio.sleep(9)
    assert now() == pytest.approx(9)
    await asyncio.sleep(3600)  # no timer is left that would cancel us


async def test_who_hears_of_another_leader_stops_at_once() -> None:
    term = LeaseTerm(TIMING, sent=now())
    later(1, lambda: term.lose("held by b"))
    with pytest.raises(LeaseLost, match="held by b"):
        await stay(term)
    assert now() == pytest.approx(1)
    assert not term.holds()


async def test_a_process_that_was_stopped_knows_it_before_its_timers_run() -> None:
    term = LeaseTerm(TIMING, sent=now() - 11)  # as if we had been stopped since: no timer has fired yet
    assert not term.holds()


async def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    term = LeaseTerm(TIMING, sent=now())
    with pytest.raises(TimeoutError, match="mine"):
        async with term.bounded():
            raise TimeoutError("mine")


async def test_a_rival_waits_for_the_whole_duration_from_each_change_it_sees() -> None:
    observed = ObservedLease()
    assert observed.expires_in("1", duration=15) == pytest.approx(15)
    await asyncio.sleep(14)
    assert observed.expires_in("1", duration=15) == pytest.approx(1)
    assert observed.expires_in("2", duration=15) == pytest.approx(15)
    await asyncio.sleep(15)
    assert observed.expires_in("2", duration=15) <= 0


@pytest.mark.parametrize(("duration", "margin", "interval"), [(15, 15, 2), (15, 0, 2), (4, 2, 2), (1.5, 0.5, 0.1)])
async def test_a_timing_that_leaves_no_time_is_refused(duration: float, margin: float, interval: float) -> None:
    with pytest.raises(ValueError, match=r"leaves no time|whole seconds"):
        LeaseTiming(duration=duration, margin=margin, interval=interval)


@given(
    duration=st.integers(2, 60),
    margin=st.floats(0.05, 0.5),
    answers=st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20)), max_size=20),
    first_look=st.floats(0, 5),
)
def test_no_rival_can_lead_before_the_holder_has_stopped(
    duration: int, margin: float, answers: list[tuple[float, float]], first_look: float
) -> None:
    """Renewals are sent, arrive at the server after a while and are answered after as long again, or too late."""
    import looptime

    timing = LeaseTiming(duration=duration, margin=duration * margin, interval=0.01)

    async def run() -> None:
        observed, term = ObservedLease(), LeaseTerm(timing, sent=now())
        stops, taken = term.deadline, now() + first_look + observed.expires_in("0", duration=duration)
        for number, (pause, travel) in enumerate(answers, start=1):
            await asyncio.sleep(pause)
            sent = now()
            if not term.holds():
                break
            await asyncio.sleep(travel)
            if now() >= taken:
                break  # the rival was quicker, and this write meets a conflict
            taken = now() + observed.expires_in(str(number), duration=duration)
            await asyncio.sleep(travel)
            term.renewed(sent=sent)
            stops = term.deadline
        assert stops < taken

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
