"""For how long Nodes have been missing: by what their entries say, whoever leads."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import BEGIN, NOW, bare, entry, member, node

from sunk.kube.api.clock import ServerClock
from sunk.kube.cache.store import Store
from sunk.kube.cache.view import Changed, Deleted
from sunk.kube.core import Node
from sunk.kube.resource import Metadata
from sunk.model.nodeslice import Entry
from sunk.operator.nodeset.decide.membership import Intent, decide_membership
from sunk.operator.nodeset.observe.reader import GRACE, MissingNodes

pytestmark = pytest.mark.looptime


def gone(seconds: float) -> Entry:
    return replace(entry("gpu-0", at="a"), absent_since=BEGIN - timedelta(seconds=seconds))


def absences(store: Store[Node] | None = None) -> MissingNodes:
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    return MissingNodes(
        Store[Node]("nodes") if store is None else store, now=lambda: BEGIN + timedelta(seconds=loop.time() - began)
    )


async def test_a_node_has_some_time_from_when_it_was_first_missed() -> None:
    found = absences()
    assert found.left([entry("gpu-0", at="a")]) == {"a": GRACE}
    assert found.left([gone(0)]) == {"a": GRACE}
    await asyncio.sleep(10)
    assert found.left([gone(0)]) == {"a": GRACE - 10}


async def test_a_new_leader_goes_on_where_the_one_before_has_begun_to_count() -> None:
    assert absences().left([gone(50)]) == {"a": GRACE - 50}
    assert absences().left([gone(70)]) == {"a": -10}


async def test_a_date_that_is_ahead_of_us_is_no_credit() -> None:
    assert absences().left([gone(-3600)]) == {"a": GRACE}


async def test_one_that_came_and_went_while_nobody_led_starts_over() -> None:
    store = Store[Node]("nodes")
    found = absences(store)
    there = replace(node("a"), metadata=Metadata(name="a", resource_version="1"))
    store.take(Changed(there), version="")
    store.take(Deleted(there), version="")
    await asyncio.sleep(10)
    assert found.left([gone(1000)]) == {"a": GRACE - 10}


async def test_entries_are_dated_when_their_node_is_missed_and_cleared_when_it_is_back() -> None:
    missed, back = replace(bare("a"), absent=True), member("b")
    back = replace(back, entry=replace(back.entry, absent_since=BEGIN))
    settled = member("c")
    found = decide_membership([missed, back, settled], (), Intent(now=NOW.now)).members
    assert [one.entry.absent_since for one in found] == [NOW.now, None, None]
    assert decide_membership(found, (), Intent(now=NOW.now + timedelta(seconds=5))).members is found, (
        "it is written once"
    )


@pytest.mark.parametrize("ahead", [-600.0, 600.0], ids=["the machine is ahead", "the machine is behind"])
async def test_a_leader_on_a_machine_that_is_off_by_minutes_skips_nothing_and_waits_no_longer(ahead: float) -> None:
    clock, now = ServerClock(), asyncio.get_running_loop().time()
    server = datetime.now(UTC) + timedelta(seconds=ahead)
    clock.hear(format_datetime(server, usegmt=True), sent=now, got=now)
    found = MissingNodes(Store[Node]("nodes"), now=clock.now)
    for seconds in (20, 80):
        missing = replace(entry("gpu-0", at="a"), absent_since=server - timedelta(seconds=seconds))
        assert abs(found.left([missing])["a"] - (GRACE - seconds)) < 3
