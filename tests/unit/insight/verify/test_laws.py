"""What counts as a broken law, what is given a moment, and what is nobody's fault."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.slurm.blank import blank

from sunk.insight.verify import laws
from sunk.insight.verify.faults import Fault
from sunk.insight.verify.laws import OwnedEntry, Snapshot
from sunk.insight.verify.watcher import FaultTimer, NewestEvent, holding
from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.nodeslice import Entry, State
from sunk.objects.nodesets import NODESETS, NodeSet
from sunk.slurm.records import Job, Node as Row
from sunk.slurm.states import JobBase, NodeBase, NodeFlag

DRAIN, RUNNING, CORDON = names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_CORDON
NO_FLAGS = NodeFlag(0)
NOW = datetime(2026, 11, 16, tzinfo=UTC)
OURS = '{"k8s":{"pod":"gpu-1"}}'
IDLE = {DRAIN: "False", RUNNING: "False", names.SLURM_NOT_RESPONDING: "False"}


def conditions(found: dict[str, str], *, message: str = "") -> list[dict[str, str]]:
    return [{"type": kind, "status": status, "message": message} for kind, status in found.items()]


def pod(told: dict[str, str] | None = None, *, message: str = "", **metadata: Any) -> Pod:
    every = {"Ready": "True"} | IDLE | (told or {})
    slurmd = {"name": names.SLURMD, "state": {"running": {}}}
    return msgspec.convert(
        {
            "metadata": {"name": "gpu-1", "namespace": "team"} | metadata,
            "spec": {"nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "conditions": conditions(every, message=message),
                "containerStatuses": [slurmd],
            },
        },
        Pod,
    )


def marked(**notes: str) -> dict[str, Any]:
    return {"annotations": {getattr(names, key.upper()): value for key, value in notes.items()}}


def node(told: dict[str, str] | None = None, *, claimed: bool = True, cordoned: bool = False, **more: Any) -> Node:
    notes = {names.CLAIM: "uid-1"} if claimed else {}
    return msgspec.convert(
        {
            "metadata": {"name": "node-1", "annotations": notes} | more,
            "spec": {"unschedulable": cordoned},
            "status": {"conditions": conditions(IDLE | (told or {}))},
        },
        Node,
    )


def sides(
    pod_: Pod | None = None, node_: Node | None = None, row: Row | None = None, *, state: State = "joined", **more: Any
) -> Snapshot:
    held = OwnedEntry(Entry("gpu-1", node="node-1", state=state), owner="uid-1", cluster="slurm")
    return Snapshot(
        members={"gpu-1": (held,)},
        pods={"gpu-1": pod_} if pod_ else {},
        sets=more.pop("sets", {}),
        nodes={"node-1": node_ or node()},
        rows={"gpu-1": row} if row else None,
        cluster="slurm",
        **more,
    )


def out(reason: str, *flags: NodeFlag, **more: Any) -> Row:
    return row(flags=NodeFlag(sum(flag.value for flag in flags or (NodeFlag.DRAIN,))), reason=reason, **more)


def row(base: NodeBase = NodeBase.IDLE, flags: NodeFlag = NO_FLAGS, **more: Any) -> Row:
    return replace(blank(Row), name="gpu-1", state_bits=base | flags.value, **more)


def topics(found: Snapshot) -> list[str]:
    return [fault.topic for fault in laws.faults(found)]


def test_two_sides_in_step_break_no_law() -> None:
    assert topics(sides(pod(), node(), row())) == []


def test_a_drain_of_ours_needs_a_cause_and_a_cause_needs_a_drain() -> None:
    drained = row(flags=NodeFlag.DRAIN, reason="k8s: cordon: disk")
    told = {DRAIN: "True"}
    assert topics(sides(pod(told), node(told), drained)) == ["drain without cause"]
    assert topics(sides(pod(told), node(told, cordoned=True), drained)) == []
    assert topics(sides(pod(), node(cordoned=True), row(extra=OURS))) == ["cause without drain"]


def test_a_drain_of_somebody_else_needs_no_cause() -> None:
    told = {DRAIN: "True"}
    found = sides(pod(told), node(told | {CORDON: "True"}), row(flags=NodeFlag.DRAIN, reason="alice: fan"))
    assert topics(found) == []


def test_a_node_that_is_down_keeps_our_drain_and_needs_none() -> None:
    told = {DRAIN: "True"}
    down = row(NodeBase.DOWN, NodeFlag.DRAIN, reason="k8s: pod terminated")
    assert topics(sides(pod(told), node(told), down)) == []
    assert topics(sides(pod({"Ready": "False"}), node(), row(NodeBase.DOWN, reason="Not responding"))) == []


def test_what_slurm_says_the_pod_and_the_node_say_too() -> None:
    assert topics(sides(pod(), node(), row(NodeBase.ALLOCATED))) == ["job without lock", "SlurmRunning of Pod"]
    assert topics(sides(pod({RUNNING: "True"}), node())) == ["SlurmRunning of Node", "job without lock"]
    ours = pod({DRAIN: "True"}, message="k8s: cordon")
    assert topics(sides(ours, node({DRAIN: "True", CORDON: "True"}))) == ["loop"]


def test_while_slurm_is_unknown_nothing_is_said_about_it() -> None:
    assert topics(sides(pod({DRAIN: "True"}), node({DRAIN: "True"}))) == []


def test_a_node_that_left_carries_nothing_of_ours() -> None:
    bare = Snapshot(members={}, pods={}, sets={}, nodes={"node-1": node(claimed=False)})
    assert topics(bare) == ["left behind"]
    clean = msgspec.convert({"metadata": {"name": "node-1"}}, Node)
    assert topics(Snapshot(members={}, pods={}, sets={}, nodes={"node-1": clean})) == []


def test_a_node_is_a_member_of_one_nodeset() -> None:
    entry = Entry("gpu-1", node="node-1")
    two = tuple(OwnedEntry(entry, owner=uid, cluster="slurm") for uid in ("uid-1", "uid-2"))
    assert topics(Snapshot(members={"gpu-1": two}, pods={}, sets={})) == ["shared Node"]


def test_a_record_of_ours_that_no_slice_knows_is_left_over() -> None:
    alone = Snapshot(
        members={}, pods={}, sets={}, rows={"gpu-1": row(extra='{"k8s":{"pod":"gpu-1"}}')}, cluster="slurm"
    )
    assert topics(alone) == ["left record"]
    by_hand = Snapshot(members={}, pods={}, sets={}, rows={"gpu-1": row(extra='{"a":1}')}, cluster="slurm")
    assert topics(by_hand) == []


def test_a_new_record_is_drained_where_its_pod_says_why_it_must_be() -> None:
    kept = pod(**marked(kept_drain="alice: bad fan"))
    cordoned = pod(**marked(cordon="disk"))
    assert "new record" in topics(sides(kept, node(), row()))
    assert "new record" in topics(sides(cordoned, node(cordoned=True), row()))
    drained = row(flags=NodeFlag.DRAIN, reason="k8s: new node")
    assert "new record" not in topics(sides(kept, node(), drained))
    assert "new record" not in topics(sides(kept, node(), row(extra=OURS))), "it was looked at: a person has lifted it"
    assert "new record" not in topics(sides(pod(), node(), row()))


def test_no_job_runs_on_a_record_that_nobody_has_looked_at() -> None:
    drained = row(NodeBase.ALLOCATED, NodeFlag.DRAIN, reason="k8s: new node")
    assert "job on new record" in topics(sides(pod(), node(), drained, jobs={"gpu-1": (7,)}))
    cordoned = row(NodeBase.ALLOCATED, NodeFlag.DRAIN, reason="k8s: cordon")
    assert "job on new record" not in topics(sides(pod(), node(), cordoned, jobs={"gpu-1": (7,)}))


def test_a_persons_drain_is_there_again_when_the_machine_is() -> None:
    owed = {"node-1": "alice: bad fan"}
    assert topics(sides(pod(), node(), row(extra=OURS), owed=owed)) == ["lost drain"]
    told = {DRAIN: "True"}
    drained = row(flags=NodeFlag.DRAIN, reason="alice: bad fan", extra=OURS)
    assert topics(sides(pod(told), node(told | {CORDON: "True"}), drained, owed=owed)) == []
    assert topics(sides(pod(), node(), row(extra=OURS), owed={"node-2": "alice: bad fan"})) == []


# Acts


def deleted(before: Pod, found: Snapshot) -> list[str]:
    return [fault.text for fault in laws.deleted_pod(found, before, None)]


def test_a_pod_may_go_once_slurm_has_let_it_go() -> None:
    let_go = pod(**marked(pending_deletion="scaled in", clear_to_delete="1:k8s"))
    assert deleted(let_go, sides(let_go)) == []
    assert deleted(let_go, sides(let_go, jobs={"gpu-1": (7,)})) == ["was deleted (scaled in) under job 7"]


def test_a_pod_that_has_to_go_may_not_go_before() -> None:
    held = pod(**marked(pending_deletion="scaled in"))
    assert deleted(held, sides(held)) == ["was deleted (scaled in) before Slurm released it"]


def test_force_is_what_somebody_wanted() -> None:
    held = pod(**marked(pending_deletion="scaled in"))
    assert deleted(held, sides(held, sets={"uid-1": forced()})) == []


def forced() -> NodeSet:
    metadata = {"name": "gpu", "namespace": "team", "annotations": {names.FORCE_DELETION: "true"}}
    template = {"spec": {"containers": [{"name": "slurmd", "image": "x"}]}}
    body = msgspec.json.encode({"metadata": metadata, "spec": {"template": template}})
    return msgspec.json.decode(body, type=NODESETS.record)


def test_a_pod_that_somebody_else_deletes_is_not_our_fault() -> None:
    assert deleted(pod(), sides(pod(), jobs={"gpu-1": (7,)})) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (sides(pod()), ["was deleted though it is a member and its Pod is ready"]),
        (sides(pod({"Ready": "False"})), []),
        (sides(None, state="leaving"), []),
        (sides(None, state="leaving", jobs={"gpu-1": (7, 8)}), ["was deleted under job 7, 8"]),
    ],
)
def test_a_record_goes_only_when_its_member_leaves_and_no_job_is_on_it(found: Snapshot, told: list[str]) -> None:
    assert [fault.text for fault in laws.deleted_row(found, row(), now=NOW)] == told


def test_a_record_may_have_been_that_of_the_pod_before() -> None:
    for age, times in ((2, 0), (20, 1)):
        found = sides(pod(creationTimestamp=(NOW - timedelta(seconds=age)).isoformat()))
        assert len([*laws.deleted_row(found, row(), now=NOW)]) == times


def test_a_record_of_another_size_than_its_pod_is_recreated() -> None:
    grown = sides(pod(**marked(shape="CPUs=8 RealMemory=4000 Gres=gpu:h100:8")))
    gpus = "gpu:h100:8(S:0-1)"
    assert [*laws.deleted_row(grown, row(cpus=4, memory=4000, gres=gpus), now=NOW)] == []
    assert len([*laws.deleted_row(grown, row(cpus=8, memory=4000, gres=gpus), now=NOW)]) == 1


# Time


def test_a_job_that_ended_later_counts_as_one_that_held_its_nodes() -> None:
    done = blank(Job, id=7, nodes="gpu-[1-2]", end_time=100, state_bits=JobBase.COMPLETED.value)
    assert holding([done]) == {}
    assert holding([done], since=100.5) == {}
    assert holding([done], since=99.0) == {"gpu-1": (7,), "gpu-2": (7,)}


def test_a_fault_is_told_once_and_only_when_it_has_lasted() -> None:
    lasting, found = FaultTimer(), [Fault(2, "loop", "Node a", "is odd", grace=10)]
    assert [*lasting.look(found, now=0)] == []
    assert [*lasting.look(found, now=9.9)] == []
    assert [round(one.lasted) for one in lasting.look(found, now=10)] == [10]
    assert [*lasting.look(found, now=60)] == []


def test_a_fault_that_went_away_starts_over() -> None:
    lasting, found = FaultTimer(), [Fault(2, "loop", "Node a", "is odd", grace=10)]
    assert [*lasting.look(found, now=0)] == []
    assert [*lasting.look([], now=5)] == []
    assert [*lasting.look(found, now=11)] == []
    assert len([*lasting.look(found, now=21)]) == 1


def test_with_patience_a_fault_may_last_longer() -> None:
    lasting, found = FaultTimer(patience=30), [Fault(2, "loop", "Node a", "is odd", grace=10)]
    assert [*lasting.look(found, now=0)] == []
    assert [*lasting.look(found, now=39)] == []
    assert len([*lasting.look(found, now=40)]) == 1


# What people said


def test_fail_is_a_drain_for_the_pod_and_keeps_a_node_from_jobs_whatever_the_cause() -> None:
    cordoned = marked(cordon="disk")
    assert not topics(sides(pod({DRAIN: "True"}, **cordoned), node({DRAIN: "True"}), out("bob: fan", NodeFlag.FAIL)))
    told = topics(sides(pod(**cordoned), row=out("bob: fan", NodeFlag.FAIL)))
    assert told == ["SlurmDrain of Pod"]


def test_a_drain_that_waits_for_a_reboot_is_no_drain_without_a_cause() -> None:
    waiting = out("k8s: cordon", NodeFlag.DRAIN, NodeFlag.REBOOT_REQUESTED)
    assert not topics(sides(pod({DRAIN: "True"}), node({DRAIN: "True"}), waiting))
    lasts = topics(sides(pod({DRAIN: "True"}), node({DRAIN: "True"}), out("k8s: cordon")))
    assert lasts == ["drain without cause"]


@pytest.mark.parametrize("flag", [NodeFlag.DRAIN, NodeFlag.FAIL])
def test_somebodys_drain_under_ours_right_after_a_new_cause_is_a_breach(flag: NodeFlag) -> None:
    before, after = out("bob: fan", flag), out("k8s: cordon: disk")
    broken = [*laws.replaced_drain(sides(pod(**marked(cordon="disk"))), before, after, young=0.2)]
    assert [(fault.law, fault.topic) for fault in broken] == [(0, "replaced drain")]
    assert "bob: fan" in broken[0].text


@pytest.mark.parametrize(
    ("before", "young", "asked"),
    [
        (out("bob: fan"), 60.0, False),  # somebody lifted it, and the cause holds
        (out("bob: fan"), None, False),
        (out("bob: fan"), 0.2, True),  # by `sunk undrain`
        (out("NHC: verify-undrain"), 0.2, False),
        (out("k8s: pod not ready"), 0.2, False),
        (row(reason="bob: fan"), 0.2, False),  # left over
        (row(base=NodeBase.DOWN, flags=NodeFlag.DRAIN, reason="bob: fan"), 0.2, False),  # somebody resumed it
    ],
)
def test_ours_in_the_place_of_one_that_was_lifted_is_none(before: Row, young: float | None, asked: bool) -> None:  # noqa: FBT001
    notes = marked(cordon="disk", order="{}") if asked else marked(cordon="disk")
    assert not [*laws.replaced_drain(sides(pod(**notes)), before, out("k8s: cordon: disk"), young=young)]


@pytest.mark.parametrize("there", [pod(), pod(**marked(cordon="disk"))])
def test_our_prefix_written_by_hand_over_somebodys_drain_is_not_our_act(there: Pod) -> None:
    before, after = out("alice: bad fan"), out("k8s: cordon: by hand")
    assert not [*laws.replaced_drain(sides(there), before, after, young=0.2)]


def test_a_text_of_somebody_on_a_node_from_which_our_drain_was_lifted_tells_of_a_lost_drain() -> None:
    ours = out("k8s: cordon", reason_time=5)
    assert laws.lifted_drain(ours, row(reason="bob: fan", reason_time=6)) == "bob: fan"
    assert not laws.lifted_drain(ours, row(reason="k8s: cordon", reason_time=5))
    assert not laws.lifted_drain(ours, row(reason="Not responding", reason_time=6))
    assert not laws.lifted_drain(ours, row())
    assert not laws.lifted_drain(ours, out("bob: fan", reason_time=6))
    assert not laws.lifted_drain(out("bob: fan"), row(reason="bob: fan"))
    lost = topics(sides(pod(), row=row(reason="bob: fan"), lifted={"gpu-1": "bob: fan"}))
    assert lost == ["lifted drain"]


def test_a_cause_that_was_there_before_somebody_drained_says_nothing_about_that_drain() -> None:
    newest = NewestEvent()
    assert newest.young("gpu-1", now=5.0) is None
    newest.caused("gpu-1", now=6.0)
    assert newest.young("gpu-1", now=7.0) == 1.0
    newest.drained("gpu-1", now=8.0)  # and lifted by the same person: ours comes back upon the old cause
    assert newest.young("gpu-1", now=8.5) is None
    newest.caused("gpu-1", now=9.0)
    assert newest.young("gpu-1", now=9.5) == 0.5
