"""The API server's clock by the dates of its answers."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from sunk.kube.api.clock import PAUSE, ServerClock

pytestmark = pytest.mark.asyncio


def dated(ahead: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)


async def test_before_the_first_answer_it_is_our_own() -> None:
    clock = ServerClock()
    assert clock.ahead is None
    before = time.time()
    assert before - 1 < clock.now().timestamp() < time.time() + 1


async def test_a_server_whose_clock_is_ahead_is_followed() -> None:
    clock, now = ServerClock(), asyncio.get_running_loop().time()
    clock.hear(dated(3600), sent=now, got=now)
    assert clock.ahead is not None
    assert 3598 < clock.ahead < 3602
    assert 3598 < clock.now().timestamp() - time.time() < 3602


async def test_answers_within_a_moment_cost_nothing_and_nonsense_is_left_out() -> None:
    clock, now = ServerClock(), asyncio.get_running_loop().time()
    clock.hear("soon", sent=now, got=now)
    clock.hear("", sent=now, got=now)
    assert clock.ahead is None
    clock.hear(dated(0), sent=now, got=now)
    clock.hear(dated(3600), sent=now, got=now + PAUSE / 2)
    assert clock.ahead is not None
    assert clock.ahead < 2
