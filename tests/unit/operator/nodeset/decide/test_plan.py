"""Plans, carried out again and again in a small world."""

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import BEGIN, NEW, OLD, nodeset, pod
from tests.unit.operator.nodeset.simulation import World

from sunk.model import names
from sunk.objects.computepods import may_hold_job
from sunk.operator.nodeset.decide.plan import NodeSetPlan, intent_of
from sunk.operator.nodeset.decide.podactions import PodActions

NODES = [f"{number:02d}" for number in range(12)]
worlds = st.dictionaries(st.sampled_from(NODES), st.booleans())
replicas = st.none() | st.integers(0, 14)


def settle(world: World, *, rounds: int = 40, revision: str = NEW, alone: bool = False) -> NodeSetPlan:
    """Plan and carry out until nothing is left to do; `alone`, with nobody who starts or clears Pods."""
    for _ in range(rounds):
        todo = world.plan(revision=revision)
        world.carry_out(todo, revision=revision)
        if not alone:
            world.kubelets_start_pods()
            world.syncer_clears()
    todo = world.plan(revision=revision)
    assert idle(todo), todo
    return todo


def idle(todo: NodeSetPlan) -> bool:
    return todo.pods == PodActions() and not todo.joins and not todo.stray_nodes and not todo.membership.dropped


def active(world: World) -> set[str]:
    return {entry.node for entry in world.entries.values() if entry.state == "joined"}


# Where it ends


@settings(deadline=None)
@given(nodes=worlds, number=replicas)
def test_a_set_comes_to_the_nodes_that_fit_up_to_its_number(nodes: dict[str, bool], number: int | None) -> None:
    world = World(nodes, nodeset(replicas=number))
    settle(world)
    fitting = sorted(node for node, fits in nodes.items() if fits)
    assert sorted(active(world)) == fitting[:number]
    assert set(world.pods) == set(world.entries)
    assert world.claimed == active(world)


@settings(deadline=None)
@given(nodes=worlds, later=worlds, numbers=st.tuples(replicas, replicas))
def test_from_one_wish_to_another_a_set_comes_to_the_same_number(
    nodes: dict[str, bool], later: dict[str, bool], numbers: tuple[int | None, int | None]
) -> None:
    world = World(nodes, nodeset(replicas=numbers[0]))
    settle(world)
    world.nodes = later
    world.want(replicas=numbers[1])
    settle(world)
    fitting = {node for node, fits in later.items() if fits}
    assert active(world) <= fitting
    assert len(active(world)) == (len(fitting) if numbers[1] is None else min(numbers[1], len(fitting)))
    assert not any(entry.state == "leaving" for entry in world.entries.values())
    assert world.claimed == active(world)


@settings(deadline=None)
@given(nodes=worlds, number=replicas, most=st.integers(1, 12))
def test_an_update_reaches_everybody_and_takes_no_more_at_once_than_allowed(
    nodes: dict[str, bool], number: int | None, most: int
) -> None:
    strategy = {"rollingUpdate": {"maxUnavailable": most}}
    world = World(nodes, nodeset(replicas=number, updateStrategy=strategy))
    settle(world, revision=OLD)
    everybody = set(world.pods)
    for _ in range(60):
        world.carry_out(world.plan(revision=NEW), revision=NEW)
        assert sum(not one.available for one in world.snapshot().members) <= most
        world.kubelets_start_pods()
        world.syncer_clears()
    assert set(world.pods) == everybody
    assert {one.metadata.labels[names.REVISION] for one in world.pods.values()} <= {NEW}


@settings(deadline=None)
@given(nodes=worlds, number=replicas, later=replicas)
def test_without_a_syncer_nothing_that_may_hold_a_job_is_ever_deleted(
    nodes: dict[str, bool], number: int | None, later: int | None
) -> None:
    world = World(nodes, nodeset(replicas=number))
    settle(world)
    running = {name for name, one in world.pods.items() if may_hold_job(one)}
    world.want(replicas=later)
    world.nodes = dict.fromkeys(nodes, False)
    settle(world, revision=OLD, alone=True)
    assert running <= set(world.pods)


@settings(deadline=None)
@given(nodes=worlds)
def test_a_deleted_set_comes_to_an_end_and_leaves_nothing(nodes: dict[str, bool]) -> None:
    world = World(nodes)
    settle(world)
    world.owner = replace(world.owner, metadata=replace(world.owner.metadata, deletion_timestamp=BEGIN))
    assert settle(world).finished
    assert (world.entries, world.pods, world.claimed) == ({}, {}, set())


def test_a_deleted_set_waits_for_the_syncer() -> None:
    world = World(dict.fromkeys(NODES, True))
    settle(world)
    world.owner = replace(world.owner, metadata=replace(world.owner.metadata, deletion_timestamp=BEGIN))
    assert not settle(world, alone=True).finished
    assert len(world.pods) == len(world.claimed) == len(NODES)


def test_a_deleted_set_ends_by_force_without_a_syncer() -> None:
    world = World(dict.fromkeys(NODES, True))
    settle(world)
    world.owner = replace(world.owner, metadata=replace(world.owner.metadata, deletion_timestamp=BEGIN))
    world.annotate(**{names.FORCE_DELETION: "true"})
    assert settle(world, alone=True).finished


def test_going_back_in_mid_update_takes_the_marks_off() -> None:
    world = World(dict.fromkeys(NODES, True), nodeset(updateStrategy={"rollingUpdate": {"maxUnavailable": 3}}))
    settle(world, revision=OLD)
    world.carry_out(world.plan(revision=NEW))
    assert sum(names.PENDING_DELETION in one.metadata.annotations for one in world.pods.values()) == 3
    settle(world, revision=OLD, alone=True)
    assert not any(names.PENDING_DELETION in one.metadata.annotations for one in world.pods.values())


# Single decisions


def test_a_lot_of_nodes_joins_in_parts_and_claims_of_those_that_wait_are_kept() -> None:
    world = World(dict.fromkeys(NODES, True))
    world.claimed = set(NODES)  # somebody died after he had claimed them
    todo = world.plan(batch=5)
    assert len(todo.joins) == 5
    assert not todo.stray_nodes


def test_a_claim_of_a_node_that_does_not_fit_is_taken_back() -> None:
    world = World({"00": False})
    world.claimed = {"00"}
    assert world.plan().stray_nodes == ("00",)


def test_a_template_that_makes_no_pod_stops_whatever_needs_one_and_nothing_else() -> None:
    world = World({"00": True, "01": True, "02": True}, nodeset(replicas=2))
    settle(world, revision=OLD)
    world.want(replicas=1)
    del world.pods["gpu-00"]
    todo = world.plan(revision=NEW, usable=False)
    assert not todo.joins
    assert not todo.pods.create
    assert not todo.pods.recreate
    assert [member.entry.name for member in todo.membership.members if member.leaving] == ["gpu-00"]


def test_a_pod_that_failed_is_not_given_up_while_no_other_can_be_made() -> None:
    world = World({"00": True})
    settle(world)
    world.pods["gpu-00"] = pod("gpu-00", at="00", phase="Failed")
    assert world.plan(usable=False).pods == PodActions()
    assert world.plan().pods.recreate


@pytest.mark.parametrize(
    ("said", "accepted"), [("7", 7), ("", 0), ("-1", 0), ("many", 0), ("1.5", 0), ("²", 0), ("٣", 3)]
)
def test_an_accepted_loss_that_is_no_number_is_none(said: str, accepted: int) -> None:
    assert intent_of(nodeset(meta={"annotations": {names.ACCEPT_LOSS: said}})).accepted == accepted


@pytest.mark.parametrize(("said", "forced"), [("true", True), ("True", False), ("", False), ("yes", False)])
def test_force_is_only_what_says_true(said: str, *, forced: bool) -> None:
    assert intent_of(nodeset(meta={"annotations": {names.FORCE_DELETION: said}})).forced is forced


def test_a_spec_that_was_not_acted_upon_is_a_change() -> None:
    assert not intent_of(nodeset()).changed
    assert intent_of(nodeset(meta={"generation": 2})).changed
