"""For how long Nodes have been missing."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.unit.operator.nodeset.cast import node

from sunk.kube.core import Node
from sunk.kube.resource import Metadata
from sunk.kube.store import Store
from sunk.kube.view import Changed, Deleted
from sunk.operator.nodeset.absence import GRACE, Absences

pytestmark = pytest.mark.looptime


async def test_a_node_has_some_time_from_when_it_was_first_missed() -> None:
    absences = Absences(Store[Node]("nodes"))
    assert absences.note("set", ["a"]) == {"a": GRACE}
    await asyncio.sleep(10)
    assert absences.note("set", ["a", "b"]) == {"a": GRACE - 10, "b": GRACE}
    await asyncio.sleep(GRACE)
    assert absences.note("set", ["a", "b"]) == {"a": -10, "b": 0}


async def test_one_that_was_there_at_the_last_look_begins_anew() -> None:
    absences = Absences(Store[Node]("nodes"))
    absences.note("set", ["a"])
    await asyncio.sleep(50)
    assert absences.note("set", []) == {}
    assert absences.note("set", ["a"]) == {"a": GRACE}


async def test_one_that_came_and_went_while_nobody_looked_begins_anew() -> None:
    """As after a time in which another process led."""
    store = Store[Node]("nodes")
    absences = Absences(store)
    absences.note("set", ["a"])
    await asyncio.sleep(1000)
    there = replace(node("a"), metadata=Metadata(name="a", resource_version="1"))
    store.take(Changed(there), version="")
    store.take(Deleted(there), version="")
    assert absences.note("set", ["a"]) == {"a": GRACE}


async def test_sets_count_for_themselves_and_are_forgotten() -> None:
    absences = Absences(Store[Node]("nodes"))
    absences.note("one", ["a"])
    await asyncio.sleep(10)
    assert absences.note("other", ["a"]) == {"a": GRACE}
    absences.forget("one")
    assert absences.note("one", ["a"]) == {"a": GRACE}
