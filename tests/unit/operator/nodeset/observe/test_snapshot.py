"""What a snapshot sees in the stores, and what it remembers from one to the next."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import UID, entry, node, node_slice, nodeset, pod
from tests.unit.operator.nodeset.stores import ANY_NODE, Stores

from sunk.kube.core import Node
from sunk.kube.resource import R
from sunk.model import names
from sunk.objects.computepods import NODE
from sunk.operator.nodeset.observe.reader import GRACE
from sunk.operator.nodeset.observe.snapshot import Snapshot

pytestmark = pytest.mark.looptime

OTHER = "another uid"
GPU = nodeset()


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    found = Stores()
    yield found
    await found.close()


def candidates(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(one.node, one.name) for one in snapshot.candidates]


def unfit(snapshot: Snapshot) -> dict[str, str]:
    return {one.entry.name: one.unfit for one in snapshot.members}


def _elsewhere(one: R, *, namespace: str = "elsewhere") -> R:
    return replace(one, metadata=replace(one.metadata, namespace=namespace))


# Candidates


async def test_nodes_that_fit_are_named_by_their_address_in_natural_order(stores: Stores) -> None:
    stores.put(GPU, node("node-10", address="10.0.0.10"), node("node-9", address="10.0.0.9"))
    assert candidates(stores.take(GPU)) == [("node-9", "gpu-000-009"), ("node-10", "gpu-000-010")]


async def test_a_name_in_use_is_refused_and_said(stores: Stores) -> None:
    stores.put(GPU, node("a", address="10.0.0.1"), node("b", address="10.1.0.1"))
    snapshot = stores.take(GPU)
    assert candidates(snapshot) == [("a", "gpu-000-001")]
    assert [name for name, _ in snapshot.refused] == ["b"]


async def test_names_of_other_sets_of_the_cluster_and_of_pods_of_the_namespace_are_in_use(stores: Stores) -> None:
    owner = nodeset(naming="ordinal", cluster="research")
    near = nodeset("near", uid="n", cluster="research", meta={"namespace": "elsewhere"})
    far = nodeset("far", uid="f", cluster="other", meta={"namespace": "elsewhere"})
    stores.put(owner, near, far, node("a"), node("b"), pod("gpu-0"))
    stores.put(node_slice(near, 0, entry("gpu-1", at="x")), node_slice(far, 0, entry("gpu-2", at="y")))
    assert candidates(stores.take(owner)) == [("a", "gpu-2"), ("b", "gpu-3")]


async def test_names_promised_to_another_set_are_in_use_until_they_stand_in_a_slice(stores: Stores) -> None:
    one, other = nodeset(naming="ordinal"), nodeset("other", uid=OTHER, naming="ordinal", podNamePrefix="gpu")
    stores.put(one, other, node("a"))
    with stores.observer.reserve_names(one, ["gpu-0"]):
        assert candidates(stores.take(other)) == [("a", "gpu-1")]
    assert candidates(stores.take(other)) == [("a", "gpu-0")]


async def test_a_name_is_not_given_again_before_the_syncer_has_taken_back_its_release(stores: Stores) -> None:
    """Or else the next one of that name would be released before it has begun to leave."""
    owner = nodeset(naming="ordinal")
    stores.put(owner, node("a"), node_slice(owner, 0, released=("gpu-0",)))
    assert candidates(stores.take(owner)) == [("a", "gpu-1")]


async def test_a_node_of_another_set_is_none_but_one_of_a_set_that_is_no_more(stores: Stores) -> None:
    stores.put(GPU, nodeset("other", uid=OTHER), node("a", address="10.0.0.1", claim=OTHER))
    stores.put(node("b", address="10.0.0.2", claim="of nobody"))
    assert candidates(stores.take(GPU)) == [("b", "gpu-000-002")]


async def test_a_node_joins_when_the_lock_of_the_set_that_it_has_left_is_off(stores: Stores) -> None:
    """L17: it would look as if it were the lock of the newcomer. What a set has itself left is no obstacle to it."""
    marks = {names.LOCK: "false", names.LOCK_OWNER: "somebody"}
    stores.put(GPU, noted(node("a", address="10.0.0.1"), marks), noted(node("b", address="10.0.0.2", claim=UID), marks))
    assert [one.node for one in stores.take(GPU).candidates] == ["b"]
    stores.put(node("a", address="10.0.0.1"))
    assert [one.node for one in stores.take(GPU).candidates] == ["a", "b"]


def noted(one: Node, marks: dict[str, str]) -> Node:
    return replace(one, metadata=replace(one.metadata, annotations=one.metadata.annotations | marks))


async def test_a_claim_from_a_namespace_that_we_do_not_see_holds() -> None:
    stores = Stores(namespaces=("slurm",))
    labels = {names.NAMESPACE: "elsewhere"}
    stores.put(GPU, node("a", address="10.0.0.1", claim="x", labels=labels))
    stores.put(node("b", address="10.0.0.2", claim="x", labels={names.NAMESPACE: "slurm"}))
    stores.put(node("c", address="10.0.0.3", claim="x"))
    assert candidates(stores.take(GPU)) == [("b", "gpu-000-002")]
    await stores.close()


async def test_where_no_node_is_left_it_is_told_whose_they_are(stores: Stores) -> None:
    labels = {names.NAMESPACE: "team", names.NODESET: "other"}
    stores.put(GPU, nodeset("other", uid=OTHER))
    stores.put(
        *(node(name, address=f"10.0.0.{number}", claim=OTHER, labels=labels) for number, name in enumerate("abc"))
    )
    assert stores.take(GPU).claimed_by == ("team/other (3)",)
    stores.put(node("d", address="10.0.0.9"))
    assert stores.take(GPU).claimed_by == (), "one is left"


async def test_a_node_that_registers_again_without_its_claim_stays_with_its_set(stores: Stores) -> None:
    other = nodeset("other", uid=OTHER)
    stores.put(GPU, other, node("a", address="10.0.0.1"), node_slice(other, 0, entry("other-0", at="a")))
    assert candidates(stores.take(GPU)) == []
    stores.remove(other)  # nothing is left of it but a slice that the garbage collector has not come to
    assert candidates(stores.take(GPU)) == [("a", "gpu-000-001")]


async def test_a_slice_of_another_namespace_that_names_a_set_as_its_owner_takes_no_node(stores: Stores) -> None:
    """Whoever may create one may write any uid into it; an owner is always in the namespace of what it owns."""
    other = nodeset("other", uid=OTHER)
    forged = _elsewhere(node_slice(other, 0, entry("other-0", at="a")))
    stores.put(GPU, other, node("a", address="10.0.0.1"), forged)
    assert candidates(stores.take(GPU)) == [("a", "gpu-000-001")]


async def test_a_slice_of_another_namespace_gives_a_set_no_members_and_releases_none(stores: Stores) -> None:
    real = node_slice(GPU, 0, entry("gpu-0", at="a"))
    forged = _elsewhere(node_slice(GPU, 1, entry("gpu-9", at="b"), released=("gpu-0",)))
    stores.put(GPU, node("a"), node("b"), real, forged)
    snapshot = stores.take(GPU)
    assert [one.metadata.namespace for one in snapshot.slices] == ["slurm"]
    assert [(one.entry.name, one.released) for one in snapshot.members] == [("gpu-0", False)]


@pytest.mark.parametrize("wrong", [{"controller": False}, {"api_version": "apps/v1"}, {"kind": "DaemonSet"}])
async def test_a_slice_that_no_set_controls_is_nobodys(stores: Stores, wrong: dict[str, Any]) -> None:
    other = nodeset("other", uid=OTHER)
    found = node_slice(other, 0, entry("other-0", at="a"))
    owner = replace(found.metadata.owner_references[0], **wrong)
    stores.put(GPU, other, node("a", address="10.0.0.1"))
    stores.put(replace(found, metadata=replace(found.metadata, owner_references=(owner,))))
    assert candidates(stores.take(GPU)) == [("a", "gpu-000-001")]
    assert stores.take(other).slices == ()


async def test_a_node_with_a_pod_of_another_set_is_not_free(stores: Stores) -> None:
    other = nodeset("other", uid=OTHER)
    stores.put(GPU, other, node("a", address="10.0.0.1"), pod("other-0", at="a", owner=other))
    assert candidates(stores.take(GPU)) == []
    stores.put(pod("other-0", at="a", owner=other, phase="Failed"))
    assert candidates(stores.take(GPU)) == [("a", "gpu-000-001")]


async def test_a_pod_that_only_says_it_is_of_another_set_keeps_no_node_from_joining(stores: Stores) -> None:
    other, invented = nodeset("other", uid=OTHER), nodeset("y", uid="invented")
    stores.put(GPU, other, node("a", address="10.0.0.1"), node("b", address="10.0.0.2"))
    stores.put(pod("x", at="a", owner=invented), _elsewhere(pod("z", at="b", owner=other)))
    assert candidates(stores.take(GPU)) == [("a", "gpu-000-001"), ("b", "gpu-000-002")]


async def test_a_pod_whose_set_is_seen_late_keeps_its_node(stores: Stores) -> None:
    other = nodeset("other", uid=OTHER)
    stores.put(GPU, node("a", address="10.0.0.1"), pod("other-0", at="a", owner=other))
    assert candidates(stores.take(GPU))
    stores.put(other)
    assert candidates(stores.take(GPU)) == []
    stores.remove(other)
    assert candidates(stores.take(GPU))


async def test_a_pod_of_a_set_that_claims_the_node_keeps_it_though_we_do_not_see_that_set() -> None:
    stores = Stores(namespaces=("slurm",))
    far = nodeset("far", uid=OTHER, meta={"namespace": "elsewhere"})
    stores.put(GPU, node("a", address="10.0.0.1", claim=OTHER), _elsewhere(pod("far-0", at="a", owner=far)))
    assert candidates(stores.take(GPU)) == []
    await stores.close()


async def test_a_change_of_a_node_or_of_its_pods_is_seen(stores: Stores) -> None:
    free = node("a", address="10.0.0.1")
    stores.put(GPU, free)
    assert candidates(stores.take(GPU))
    stores.put(node("a", address="10.0.0.1", unschedulable=True))
    assert not candidates(stores.take(GPU))
    stores.put(free)
    assert candidates(stores.take(GPU))
    stores.remove(free)
    assert not candidates(stores.take(GPU))


# Members


async def test_a_member_has_its_pod_and_whether_it_was_released(stores: Stores) -> None:
    stores.put(GPU, node("n0"), node("n1"), pod("gpu-0", at="n0", owner=GPU))
    stores.put(node_slice(GPU, 0, entry("gpu-0", at="n0"), entry("gpu-1", at="n1"), released=("gpu-1",)))
    first, second = stores.take(GPU).members
    assert first.pod is not None
    assert (second.pod, second.released) == (None, True)
    assert not stores.take(GPU).candidates


async def test_a_release_is_seen_also_where_another_slice_tells_of_it(stores: Stores) -> None:
    first, second = entry("gpu-0", at="n0"), entry("gpu-1", at="n1")
    stores.put(GPU, node("n0", claim=UID), node("n1", claim=UID), node_slice(GPU, 0, first), node_slice(GPU, 1, second))
    assert not any(one.released for one in stores.take(GPU).members)
    stores.put(node_slice(GPU, 1, second, released=("gpu-0",)))
    assert [one.released for one in stores.take(GPU).members] == [True, False]


async def test_an_entry_in_two_slices_is_one_member(stores: Stores) -> None:
    stores.put(GPU, node("n0"), node_slice(GPU, 1, entry("gpu-0", at="n0", state="leaving")))
    stores.put(node_slice(GPU, 0, entry("gpu-0", at="n0")))
    (one,) = stores.take(GPU).members
    assert not one.leaving


async def test_a_pod_without_an_entry_is_a_member_too(stores: Stores) -> None:
    unbound = pod("gpu-7", at="", owner=GPU)
    unbound = replace(unbound, metadata=replace(unbound.metadata, annotations={NODE: "n7"}))
    stores.put(GPU, node("n7"), unbound, pod("foreign", at="n8"))
    assert [one.entry for one in stores.take(GPU).members] == [entry("gpu-7", at="n7")]


async def test_pods_of_one_name_in_two_namespaces_come_and_go_without_harm(stores: Stores) -> None:
    """An ownerReference can be invented by whoever may create a Pod."""
    invented = nodeset("y", uid="invented")
    first, second = pod("x", owner=invented), _elsewhere(pod("x", owner=invented))
    stores.put(GPU, first, second)
    stores.remove(first, second)
    assert not stores.take(GPU).members


async def test_a_pod_of_another_namespace_is_never_taken_for_a_member_s(stores: Stores) -> None:
    owner = nodeset(naming="ordinal")
    ours = pod("gpu-0", at="a", owner=owner)
    stores.put(owner, node("a", claim=UID), ours, node_slice(owner, 0, entry("gpu-0", at="a")))
    (before,) = stores.take(owner).members
    stores.put(_elsewhere(pod("gpu-0", at="a", owner=owner)), _elsewhere(pod("gpu-1", at="b", owner=owner)))
    (after,) = stores.take(owner).members
    assert after is before
    stores.remove(_elsewhere(pod("gpu-0", at="a", owner=owner)))
    assert next(iter(stores.take(owner).members)).pod == before.pod


async def test_a_member_about_whom_nothing_has_changed_is_the_same_object(stores: Stores) -> None:
    stores.put(GPU, node("n0", claim=UID), node("n1", claim=UID), pod("gpu-0", at="n0", owner=GPU))
    stores.put(node_slice(GPU, 0, entry("gpu-0", at="n0"), entry("gpu-1", at="n1")))
    before = stores.take(GPU).members
    stores.put(pod("gpu-0", at="n0", owner=GPU, ready=False))
    after = stores.take(GPU).members
    assert after[1] is before[1]
    assert (before[0].ready, after[0].ready) == (True, False)


async def test_a_node_that_no_longer_fits_makes_its_member_unfit(stores: Stores) -> None:
    stores.put(GPU, node("n0", claim=UID), node_slice(GPU, 0, entry("gpu-0", at="n0")))
    assert unfit(stores.take(GPU)) == {"gpu-0": ""}
    stores.put(node("n0", claim=UID, taints=[{"key": "fan", "effect": "NoSchedule"}]))
    assert "fan" in unfit(stores.take(GPU))["gpu-0"]


async def test_a_node_that_another_set_claims_makes_its_member_unfit_for_as_long_as_that_set_exists(
    stores: Stores,
) -> None:
    other = nodeset("other", uid=OTHER)
    stores.put(GPU, other, node("n0", claim=OTHER), node_slice(GPU, 0, entry("gpu-0", at="n0")))
    assert unfit(stores.take(GPU)) == {"gpu-0": "its Node belongs to another NodeSet"}
    stores.remove(other)
    assert unfit(stores.take(GPU)) == {"gpu-0": ""}


async def test_a_missing_node_makes_its_member_unfit_after_a_while(stores: Stores) -> None:
    there = node("n0", claim=UID)
    stores.put(GPU, there, node_slice(GPU, 0, entry("gpu-0", at="n0")))
    stores.take(GPU)
    stores.remove(there)
    snapshot = stores.take(GPU)
    assert (unfit(snapshot), snapshot.wait) == ({"gpu-0": ""}, GRACE)
    await asyncio.sleep(GRACE)
    snapshot = stores.take(GPU)
    assert unfit(snapshot) == {"gpu-0": ""}, "it counts from when somebody has written it down"
    since = datetime.now(UTC) - timedelta(seconds=GRACE + 1)
    stores.put(node_slice(GPU, 0, replace(entry("gpu-0", at="n0"), absent_since=since)))
    snapshot = stores.take(GPU)
    assert (unfit(snapshot), snapshot.wait) == ({"gpu-0": "its Node is gone"}, None)
    stores.put(there)
    assert unfit(stores.take(GPU)) == {"gpu-0": ""}


async def test_while_nobody_knows_what_is_demanded_nobody_leaves_comes_back_or_joins(stores: Stores) -> None:
    tainted = node("n0", claim=UID, taints=[{"key": "fan", "effect": "NoSchedule"}])
    leaving = entry("gpu-1", at="n1", state="leaving", reason="scaled in")
    stores.put(GPU, tainted, node("n1", claim=UID), node("n2", address="10.0.0.1"))
    stores.put(node_slice(GPU, 0, entry("gpu-0", at="n0"), leaving))
    snapshot = stores.take(GPU, None)
    assert unfit(snapshot) == {"gpu-0": "", "gpu-1": "scaled in"}
    assert not snapshot.candidates
    assert "fan" in unfit(stores.take(GPU, ANY_NODE))["gpu-0"]


async def test_claims_that_were_lost_are_seen_also_of_those_that_leave(stores: Stores) -> None:
    labels = {names.NODESET: "gpu", names.NAMESPACE: "slurm"}
    stores.put(GPU, nodeset("other", uid=OTHER))
    stores.put(node("n0", claim=UID, labels=labels | {names.POD: "gpu-0"}), node("n1"), node("n2", claim=OTHER))
    leaving = entry("gpu-1", at="n1", state="leaving")
    stores.put(node_slice(GPU, 0, entry("gpu-0", at="n0"), leaving, entry("gpu-2", at="n2"), entry("gpu-3", at="n3")))
    found = {one.entry.name: one.claimed for one in stores.take(GPU).members}
    assert found == {"gpu-0": True, "gpu-1": False, "gpu-2": True, "gpu-3": True}


async def test_a_slice_that_somebody_else_has_made_is_not_read(stores: Stores) -> None:
    strange = node_slice(GPU, 0, entry("gpu-0", at="n0"))
    stores.put(GPU, replace(strange, metadata=replace(strange.metadata, name="gpu-copy")))
    snapshot = stores.take(GPU)
    assert (snapshot.members, snapshot.slices) == ((), ())


async def test_what_is_claimed_is_told(stores: Stores) -> None:
    stores.put(GPU, node("a", claim=UID), node("b", claim=OTHER), node("c"))
    assert stores.take(GPU).claimed == {"a"}


async def test_nothing_is_remembered_of_a_set_or_a_node_that_is_gone(stores: Stores) -> None:
    there = node("n0", claim=UID)
    stores.put(GPU, there, node_slice(GPU, 0, entry("gpu-0", at="n0"), entry("gpu-1", at="n1")))
    stores.take(GPU)
    (cache,) = stores.observer._set_caches.values()  # noqa: SLF001 - memory that grows shows nowhere else
    assert cache.fit_cache._known  # noqa: SLF001
    stores.remove(there)
    assert not cache.fit_cache._known  # noqa: SLF001
    stores.observer.forget(UID)
    assert not stores.observer._set_caches  # noqa: SLF001


async def test_nothing_is_registered_of_what_is_gone(stores: Stores) -> None:
    there = (node("n0", claim=UID), pod("gpu-0", at="n0", owner=GPU), node_slice(GPU, 0, entry("gpu-0", at="n0")))
    index = stores.observer._index  # noqa: SLF001 - as above
    parts = (index._marked, index._pods, index._pod_names, index._entries)  # noqa: SLF001
    stores.put(GPU, *there)
    assert index.nodes
    assert all(parts)
    stores.remove(*there)
    assert not index.nodes
    assert not any(parts)
