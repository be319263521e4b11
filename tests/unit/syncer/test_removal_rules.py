"""What may be taken away, as rules: clearances, records that go, records that stay."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from tests.unit.slurm.blank import blank
from tests.unit.syncer.both import CLUSTER, drained, entry, node_set, pod, row, slice_of
from tests.unit.syncer.stores import put, remove

from sunk.kube.cache.store import Store
from sunk.model.nodeslice import NodeSliceStatus, Refused
from sunk.objects.members import NodeSet, NodeSlice
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Job, Node, Reservation
from sunk.slurm.states import JobBase, JobFlag, NodeBase, NodeFlag
from sunk.syncer.pods import ComputePod, Condition
from sunk.syncer.removal.blockers import hindrance, is_kept
from sunk.syncer.removal.clearance import clearance
from sunk.syncer.removal.completing import began, patience
from sunk.syncer.removal.orphans import came_late, incomplete, too_many
from sunk.syncer.removal.registered import Registered
from sunk.syncer.removal.release import Freed, drained_since, status
from sunk.syncer.removal.reshape import differences
from sunk.syncer.removal.unregistered import Waits, is_stranger, lost, since

SPECIFIC, ALL = 1 << 15, 1 << 19
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


# Clear to delete


def test_a_clearance_names_the_drain_that_it_stands_on() -> None:
    node = drained(reason="k8s: pending deletion", reason_time=1234)
    assert clearance(node, held=False) == "1234:k8s: pending deletion"


@pytest.mark.parametrize(
    "node",
    [
        row(),
        row(reason="k8s: pending deletion"),
        row("n1", NodeFlag.DRAIN, base=NodeBase.ALLOCATED),
        row("n1", NodeFlag.DRAIN, NodeFlag.COMPLETING),
        row("n1", NodeFlag.DRAIN, base=NodeBase.UNKNOWN),
        row(base=NodeBase.DOWN, reason="Not responding"),
        row(base=NodeBase.DOWN, reason="k8s: pod terminated"),
    ],
    ids=lambda node: f"{node.state} {node.reason}",
)
def test_what_takes_jobs_or_may_have_one_is_not_cleared(node: Node) -> None:
    assert clearance(node, held=False) is None


def test_a_node_that_a_person_has_set_down_is_cleared_as_it_is() -> None:
    assert clearance(row(base=NodeBase.DOWN, reason="bad fan", reason_time=5), held=False) == "5:bad fan"


def test_a_job_that_holds_a_node_keeps_its_pod_whatever_the_node_looks_like() -> None:
    assert clearance(drained(reason="k8s: pending deletion"), held=True) is None
    assert clearance(None, held=True) is None


@given(st.sampled_from(NodeBase), st.sets(st.sampled_from(NodeFlag)), st.sampled_from(("", "k8s: cordon", "bad fan")))
def test_nothing_that_could_run_a_job_is_ever_cleared(base: NodeBase, flags: set[NodeFlag], reason: str) -> None:
    node = row("n1", *flags, base=base, reason=reason)
    if clearance(node, held=False) is not None:
        assert node.state.base in {NodeBase.IDLE, NodeBase.DOWN}
        assert NodeFlag.COMPLETING not in node.state
        assert node.state.out_of_service or node.state.base is NodeBase.DOWN


# What speaks against a deletion


def reservation(nodes: str, *, flags: int = SPECIFIC) -> Reservation:
    return blank(Reservation, name="maintenance", nodes=nodes, flags=flags)


def test_jobs_and_reservations_keep_a_record() -> None:
    assert hindrance(row("n1"), jobs=(), reservations=()) == ""
    assert hindrance(row("n1"), jobs=(7,), reservations=()) == "job 7 is on it"
    assert hindrance(row("n1"), jobs=(9, 7), reservations=()) == "jobs 7, 9 are on it"
    assert "COMPLETING" in hindrance(row("n1", NodeFlag.COMPLETING), jobs=(), reservations=())
    taken = hindrance(row("n2"), jobs=(), reservations=(reservation("n[1-3]"),))
    assert taken == "it is in the reservation maintenance"
    assert hindrance(row("n4"), jobs=(), reservations=(reservation("n[1-3]"),)) == ""


def test_a_reservation_of_whichever_nodes_there_are_keeps_none() -> None:
    assert hindrance(row("n2"), jobs=(), reservations=(reservation("n[1-3]", flags=ALL),)) == ""


# What a slice says


def leaving(*names: str, released: tuple[str, ...] = (), refused: tuple[str, ...] = ()) -> NodeSlice:
    made = slice_of(*(entry(name, "leaving") for name in names))
    said = tuple(Refused(name=name, reason="busy") for name in refused)
    return replace(made, status=NodeSliceStatus(released=released, refused=said))


def test_released_names_stay_until_their_entry_is_gone() -> None:
    one = leaving("a", "b", released=("a", "old"), refused=("b", "older"))
    found = status(one, ["a", "b"], Freed(free=frozenset({"b"})))
    assert found == NodeSliceStatus(released=("a", "b"))


def test_who_stays_after_all_is_taken_off_again() -> None:
    assert status(leaving("a", released=("a",)), [], Freed()) == NodeSliceStatus()


def test_who_cannot_go_is_named_with_the_reason_and_keeps_no_other() -> None:
    found = status(leaving("a", "b"), ["a", "b"], Freed(free=frozenset({"b"}), refused={"a": "job 7 is on it"}))
    assert found == NodeSliceStatus(released=("b",), refused=(Refused("a", "job 7 is on it"),))


# Records that are nobody's


def test_slices_are_complete_if_they_are_all_that_the_node_sets_tell_of() -> None:
    both = [slice_of(entry("a"), entry("b")), slice_of(entry("c"), name="set-1")]
    assert incomplete([node_set(members=3)], both, cluster=CLUSTER) == ""
    moved = [slice_of(entry("a"), entry("b"), entry("c")), slice_of(entry("c"), name="set-1")]
    assert incomplete([node_set(members=3)], moved, cluster=CLUSTER) == "", "one that moves is seen twice, never not"


@pytest.mark.parametrize(
    ("sets", "slices"),
    [
        ([], []),
        ([node_set(members=3)], []),
        ([node_set(members=2)], [slice_of(entry("a"))]),
        ([node_set(members=1, generation=2)], [slice_of(entry("a"))]),
        ([node_set(members=0, uid="another")], [slice_of(entry("a"))]),
    ],
    ids=["all are gone", "slices are gone", "a slice is missing", "the spec is new", "the set is missing"],
)
def test_slices_that_may_not_be_all_are_nothing_to_go_by(sets: list[NodeSet], slices: list[NodeSlice]) -> None:
    assert incomplete(sets, slices, cluster=CLUSTER)


def test_what_another_cluster_has_does_not_matter() -> None:
    other = slice_of(entry("z"), name="other-0", cluster="small")
    assert incomplete([node_set(members=1)], [slice_of(entry("a")), other], cluster=CLUSTER) == ""


def test_a_few_orphans_may_go_and_many_may_not() -> None:
    assert not too_many(3, ours=4)
    assert too_many(4, ours=4)
    assert not too_many(20, ours=100)
    assert too_many(21, ours=100)


# Pods that Slurm does not know


def test_a_slurm_that_knows_hardly_anybody_is_not_believed() -> None:
    pods = [pod(f"n{number}") for number in range(4)]
    assert lost(pods, {"n0", "n1"}) == ""
    assert "3 of the 4 Pods" in lost(pods, {"n0"})
    assert lost([pod("n1")], set()), "nobody can tell one lost record from a lost state"
    assert lost([pod("n1", ready=False)], set()) == ""


def test_a_pod_whose_address_is_another_s_is_a_stranger_only_if_slurm_gets_no_answer() -> None:
    found = pod("n1")
    here = replace(found, status=replace(found.status, pod_ip="10.0.0.9"))
    assert is_stranger(here, None)
    assert not is_stranger(here, row("n1", address="10.0.0.5"))
    assert is_stranger(here, row("n1", NodeFlag.NOT_RESPONDING, address="10.0.0.5"))
    assert is_stranger(here, row("n1", base=NodeBase.DOWN, reason="Not responding", address="10.0.0.5"))
    assert not is_stranger(here, row("n1", NodeFlag.NOT_RESPONDING, address="10.0.0.9"))
    assert not is_stranger(here, row("n1", base=NodeBase.DOWN, reason="bad fan", address="10.0.0.5"))


def test_each_new_start_of_the_same_waits_longer_until_it_was_well() -> None:
    waits = Waits(60.0)
    assert waits.due({"n1": 59.0}) == []
    assert waits.due({"n1": 60.0}) == ["n1"]
    waits.restarted("n1")
    assert waits.due({"n1": 119.0}) == []
    assert waits.due({"n1": 120.0}) == ["n1"]
    waits.known("n1")
    assert waits.due({"n1": 60.0}) == ["n1"]


def test_one_that_cannot_be_started_anew_keeps_no_other_from_it() -> None:
    waits, tried = Waits(60.0), []
    for _ in range(6):
        name = waits.due({"n1": 90.0, "n2": 80.0, "n3": 70.0})[0]
        waits.tries(name)
        tried.append(name)
    assert tried == ["n1", "n2", "n3"] * 2


def test_since_when_it_is_a_stranger_stands_on_the_pod() -> None:
    """So one that leads again has skipped nothing, and one that leads for the first time begins nothing over."""
    found = pod("n1")
    assert since(found, None) is None, "nobody has written it yet"
    told = Condition("SlurmRunning", "Unknown", last_transition_time=BEGAN + timedelta(seconds=90))
    calls = Condition("SlurmNotResponding", "True", last_transition_time=BEGAN + timedelta(seconds=70))
    ready = Condition("Ready", "True", last_transition_time=BEGAN + timedelta(seconds=80))
    said = replace(found, status=replace(found.status, conditions=(ready, told, calls)))
    assert since(said, None) == BEGAN + timedelta(seconds=90)
    assert since(said, row("n1", NodeFlag.NOT_RESPONDING)) == BEGAN + timedelta(seconds=80)


@given(
    st.lists(
        st.tuples(st.sampled_from(("pod", "row")), st.sampled_from("abcd"), st.sampled_from(("ready", "not", "gone")))
    )
)
async def test_what_is_counted_by_events_is_what_a_walk_would_find(history: list[tuple[str, str, str]]) -> None:
    pods, rows = Store[ComputePod]("pods"), Rows[str, Node]("nodes", key=lambda one: one.name)
    registered = Registered(pods, rows)
    held: dict[str, Node] = {}
    for side, name, what in history:
        if side == "row":
            held = {key: one for key, one in held.items() if key != name} | (
                {name: row(name)} if what == "ready" else {}
            )
            difference = rows.compare(tuple(held.values()))
            rows.replace(difference)
            rows.tell(difference)
        elif what == "gone":
            if (there := pods.get(pod(name).key)) is not None:
                remove(pods, there)
        else:
            put(pods, pod(name, ready=what == "ready"))
        assert registered.lost() == lost(pods.all(), rows)


# Another size


def sized(*, cpus: int = 8, gres: str = "gpu:h100:8(S:0-1)") -> Node:
    return row("n1", cpus=cpus, memory=4000, gres=gres)


def test_a_record_that_has_what_the_pod_says_does() -> None:
    assert differences("CPUs=8 RealMemory=4000 Gres=gpu:h100:8", sized()) == []
    assert differences("Gres=gpu:h100:8", sized(cpus=4)) == [], "what its Node decides is not compared"
    assert differences("", sized()) == []


def test_a_record_of_another_size_or_with_other_gpus_differs() -> None:
    assert differences("CPUs=4 RealMemory=4000 Gres=gpu:h100:8", sized()) == ["CPUs=4 where Slurm has 8"]
    assert differences("CPUs=8 RealMemory=9000 Gres=gpu:h100:8", sized()) == ["RealMemory=9000 where Slurm has 4000"]
    assert differences("CPUs=8 Gres=", sized()) == ["Gres= where Slurm has gpu:h100:8"]
    assert differences("CPUs=8 Gres=gpu:h100:8", sized(gres="")) == ["Gres=gpu:h100:8 where Slurm has none"]


def test_somebody_s_drain_keeps_the_record_and_slurm_s_own_for_the_difference_does_not() -> None:
    assert is_kept(drained("n1", reason="bad fan"))
    assert is_kept(row("n1", NodeFlag.DRAIN, NodeFlag.INVALID_REG, reason="bad fan"))
    assert not is_kept(row("n1", NodeFlag.DRAIN, NodeFlag.INVALID_REG, reason="Low RealMemory (reported:1 < 2)"))
    assert not is_kept(drained("n1", reason="k8s: pod terminated"))
    assert not is_kept(row("n1"))


# Stuck completing


def test_a_node_completes_since_its_first_job_ended() -> None:
    completing = JobBase.CANCELLED.value | JobFlag.COMPLETING.value
    jobs = [
        blank(Job, id=7, state_bits=completing, end_time=500),
        blank(Job, id=8, state_bits=completing, end_time=400),
    ]
    jobs.append(blank(Job, id=9, state_bits=JobBase.RUNNING.value, end_time=100))
    assert began(jobs, seen=900) == 400
    assert began([], seen=900) == 900


def test_patience_follows_the_setting_of_slurm_or_its_default() -> None:
    assert patience(0) == 720
    assert patience(300) == 1200


# A slurmd that came too late

DELETED = {"n1": "10.0.0.7", "n2": "n2"}
LOST = (NodeFlag.NOT_RESPONDING,)


@pytest.mark.parametrize(
    "node",
    [
        row("n1", *LOST, address="10.0.0.7"),
        row("n1", base=NodeBase.DOWN, reason="Not responding", address="10.0.0.7"),
        row("n1", base=NodeBase.DOWN, reason="k8s: pod terminated", address="10.0.0.7"),
    ],
    ids=lambda node: f"{node.state} {node.reason}",
)
def test_a_record_at_the_address_of_one_that_we_deleted_is_known_again(node: Node) -> None:
    assert came_late(node, DELETED)


@pytest.mark.parametrize(
    "node",
    [
        row("n1", address="10.0.0.7"),
        row("n1", base=NodeBase.DOWN, reason="bad fan", address="10.0.0.7"),
        row("n1", *LOST, address="10.0.0.8"),
        row("n1", *LOST, address="n1"),
        row("n1", *LOST),
        row("n2", *LOST, address="n2"),
        row("n3", *LOST, address="10.0.0.7"),
    ],
    ids=lambda node: f"{node.name} {node.state} {node.reason} {node.address}",
)
def test_what_may_be_somebody_else_s_or_lives_is_not(node: Node) -> None:
    assert not came_late(node, DELETED)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (drained(reason="alice: bad fan", reason_time=101), "somebody has drained it: alice: bad fan"),
        (drained(reason="alice: bad fan", reason_time=100), ""),
        (drained(reason="k8s: pod terminated", reason_time=200), ""),
        (row(reason="alice: bad fan", reason_time=200), ""),
        (row(base=NodeBase.DOWN, reason="ResumeTimeout reached", reason_time=200), ""),
    ],
    ids=["later", "before", "ours", "lifted", "only down"],
)
def test_a_drain_that_came_after_the_pod_was_gone_keeps_the_record(node: Node, said: str) -> None:
    assert drained_since(node, absent=100) == said


def test_a_record_that_was_kept_for_a_drain_is_kept_by_the_next_process_too() -> None:
    said = "somebody has drained it: alice: bad fan"
    node = drained(reason="alice: bad fan, ordered", reason_time=100)
    assert drained_since(node, absent=200, said=said) == "somebody has drained it: alice: bad fan, ordered"
    assert drained_since(node, absent=200, said="it is in the reservation fix") == ""
    assert drained_since(row(reason="alice: bad fan", reason_time=100), absent=200, said=said) == "", "it is lifted"
