"""How often a clearance is asked for again."""

import asyncio

import pytest
from tests.unit.operator.nodeset.cast import pod

from sunk.operator.nodeset.act.renewal import Renewals

pytestmark = pytest.mark.looptime


async def test_each_is_asked_for_once_in_the_time_for_which_one_holds() -> None:
    renewals, one, other = Renewals(), pod("a"), pod("b")
    assert renewals.due((one,)) == ((one,), None)
    await asyncio.sleep(10)
    assert renewals.due((one, other)) == ((other,), 20)
    await asyncio.sleep(20)
    assert renewals.due((one, other)) == ((one,), 10)
