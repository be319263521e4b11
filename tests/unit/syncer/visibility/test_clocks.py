"""Clocks that are apart are said, with whose it is and by how much."""

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from tests.unit.syncer.scripted import staged

from sunk.syncer.visibility.clocks import ClockOffsets, Clocks, wrong_clock


@pytest.mark.parametrize(
    "found",
    [ClockOffsets(), ClockOffsets(0.4), ClockOffsets(3.0, 4.0), ClockOffsets(-5.5, -5.5), ClockOffsets(None, 100.0)],
    ids=str,
)
def test_a_little_is_nothing_and_what_nobody_knows_is_not_said(found: ClockOffsets) -> None:
    assert wrong_clock(found, allowed=5.0) is None


@pytest.mark.parametrize(
    ("found", "whose", "seconds"),
    [
        (ClockOffsets(0.0, 40.0), "slurmctld's clock", 40.0),
        (ClockOffsets(-40.0, 0.0), "slurmctld's clock", 40.0),
        (ClockOffsets(40.0, 40.0), "the clock of the syncer's Node", -40.0),
        (ClockOffsets(-40.0), "the clock of the syncer's Node", 40.0),
    ],
    ids=str,
)
def test_who_stands_alone_is_wrong(found: ClockOffsets, whose: str, seconds: float) -> None:
    assert wrong_clock(found, allowed=5.0) == (whose, seconds)


@pytest.mark.looptime
async def test_a_slurmctld_that_is_set_wrong_is_said_once_and_again_only_if_it_changes_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("sunk.kube.api.clock.time.time", lambda: 1000.0 + loop.time())
    async with staged(["n1"]) as stage:
        clocks = Clocks(stage.context)
        date = format_datetime(datetime.fromtimestamp(1000.0 + loop.time(), UTC), usegmt=True)
        stage.client.clock.hear(date, sent=loop.time(), got=loop.time())
        await asyncio.sleep(5)
        assert clocks.report().stuck == ()
        stage.slurm.offset += 60
        await asyncio.sleep(40)
        (words,) = clocks.report().stuck
        assert words.startswith(("slurmctld's clock is 6", "slurmctld's clock is 59 s ahead"))
        stage.slurm.offset += 3
        await asyncio.sleep(40)
        assert clocks.report().stuck == (words,)
        stage.slurm.offset -= 63
        await asyncio.sleep(40)
        assert clocks.report().stuck == ()
