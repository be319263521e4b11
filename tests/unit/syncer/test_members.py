"""Whose names are ours."""

import pytest
from tests.unit.syncer.builders import CLUSTER, entry, slice_of
from tests.unit.syncer.stores import put, remove

from sunk.kube.cache.store import Store
from sunk.objects.nodesets import NodeSlice
from sunk.syncer.members import Members

pytestmark = pytest.mark.looptime


@pytest.fixture
async def store() -> Store[NodeSlice]:
    return Store("slices")


async def test_members_are_found_by_name_also_those_that_were_there_before(store: Store[NodeSlice]) -> None:
    put(store, slice_of(entry("a")))
    members = Members(store, cluster=CLUSTER)
    put(store, slice_of(entry("b"), name="set-1"))
    assert {each.name for each in members.all()} == {"a", "b"}
    found = members.get("b")
    assert found is not None
    assert (found.slice.name, found.node_set, found.entry.node) == ("set-1", "set", "node-of-b")
    assert "a" in members
    assert len(members) == 2


async def test_members_of_another_cluster_are_none_of_ours(store: Store[NodeSlice]) -> None:
    members = Members(store, cluster=CLUSTER)
    put(store, slice_of(entry("a"), cluster="small"), slice_of(entry("b"), name="set-1", cluster=""))
    assert members.all() == ()


async def test_who_subscribes_hears_only_of_names_whose_own_entry_differs(store: Store[NodeSlice]) -> None:
    members = Members(store, cluster=CLUSTER)
    put(store, slice_of(entry("a"), entry("b")))
    heard: list[str] = []
    end = members.subscribe(heard.append)
    put(store, slice_of(entry("a"), entry("b", "leaving"), entry("c")))
    assert sorted(heard) == ["b", "c"]
    put(store, slice_of(entry("b", "leaving"), entry("c")))
    assert sorted(heard) == ["a", "b", "c"]
    end()
    remove(store, slice_of(entry("b", "leaving"), entry("c")))
    assert sorted(heard) == ["a", "b", "c"]
    assert members.all() == ()


async def test_a_whole_slice_is_in_place_when_the_first_name_is_told(store: Store[NodeSlice]) -> None:
    members = Members(store, cluster=CLUSTER)
    seen: list[int] = []
    members.subscribe(lambda _: seen.append(len(members)))
    put(store, slice_of(entry("a"), entry("b"), entry("c")))
    assert seen == [3, 3, 3]


async def test_who_is_leaving_is_known_without_a_walk(store: Store[NodeSlice]) -> None:
    members = Members(store, cluster=CLUSTER)
    put(store, slice_of(entry("a", "leaving"), entry("b"), entry("c", "leaving")))
    assert {each.name for each in members.leaving()} == {"a", "c"}
    put(store, slice_of(entry("a"), entry("b")))
    assert members.leaving() == ()


async def test_an_entry_that_moves_is_a_member_all_the_time(store: Store[NodeSlice]) -> None:
    members = Members(store, cluster=CLUSTER)
    put(store, slice_of(entry("a"), entry("b")))
    put(store, slice_of(entry("a"), name="set-1"))
    assert "a" in members
    put(store, slice_of(entry("b")))
    found = members.get("a")
    assert found is not None
    assert found.slice.name == "set-1"
    remove(store, slice_of(name="set-1"))
    assert "a" not in members


async def test_while_two_slices_disagree_nobody_is_leaving(store: Store[NodeSlice]) -> None:
    members = Members(store, cluster=CLUSTER)
    put(store, slice_of(entry("a", "leaving")), slice_of(entry("a"), name="set-1"))
    assert members.leaving() == ()
    remove(store, slice_of(name="set-1"))
    assert [each.name for each in members.leaving()] == ["a"]
