"""What is wrong with a lock, and what is not: while a job runs, in what is written, and afterwards."""

from typing import Any

import msgspec
import pytest
from tests.unit.insight.verify import test_laws as sides

from sunk.insight.nodepods import NodePod
from sunk.insight.verify import laws, locklaws
from sunk.insight.verify.faults import LONG, MOMENT
from sunk.insight.verify.laws import Snapshot
from sunk.insight.verify.locklaws import LINGER, LockSight
from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.contract import hooks
from sunk.objects.nodesets import NODESETS, NodeSet
from sunk.slurm.states import NodeBase, NodeFlag

TAINT = {"key": names.LOCK, "value": "true", "effect": "NoExecute"}
LASTING = {"key": names.LOCK, "operator": "Exists"}


def notes(state: str, *, number: str = "7", owner: str = "pod-1") -> dict[str, str]:
    return {names.LOCK: state, names.LOCK_NUMBER: number, names.LOCK_OWNER: owner}


def node(state: str | None = "locked", *, taints: tuple[dict[str, str], ...] | None = None, **more: Any) -> Node:
    label = more.pop("label", state)
    said = {} if state is None else notes(state, **more)
    metadata = {
        "name": "node-1",
        "annotations": {names.CLAIM: "uid-1"} | said,
        "labels": {} if label is None else {names.LOCK: label},
    }
    given = (TAINT,) if state not in {None, "false"} else ()
    spec = {"taints": list(given if taints is None else taints)}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Node)


def pod(
    state: str | None = "locked", *, running: str | None = "True", request: str | None = "", uid: str = "pod-1"
) -> Pod:
    asked = '{"number":7,"jobs":["4711/0"]}' if request == "" else request
    said = ({} if state is None else notes(state)) | ({} if asked is None else {names.LOCK_REQUEST: asked})
    told = [] if running is None else [{"type": names.SLURM_RUNNING, "status": running}]
    metadata = {"name": "gpu-1", "namespace": "team", "uid": uid, "annotations": said}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": told}}, Pod)


def other(*tolerations: dict[str, Any], runs: bool = True, marks: dict[str, str] | None = None) -> NodePod:
    state: dict[str, Any] = {"running": {}} if runs else {"terminated": {}}
    return msgspec.convert(
        {
            "metadata": {"name": "web-1", "namespace": "web", "annotations": marks or {}},
            "spec": {"nodeName": "node-1", "tolerations": list(tolerations)},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]},
        },
        NodePod,
    )


def topics(
    node_: Node | None = None, pod_: Pod | None = None, *, busy: bool | None = True, others: Any = None, **more: Any
) -> list[str]:
    seen = LockSight(pod=pod_ or pod(), node=node_ or node(), busy=busy, others=others, **more)
    return [fault.topic for fault in locklaws.faults(seen)]


IDLE = pod("false", running="False", request='{"number":7}')


def test_a_job_under_its_lock_breaks_no_law() -> None:
    assert topics(others=(other(LASTING), other(runs=False))) == []
    assert topics(node("pending"), pod("pending"), others=(other(),)) == []
    assert topics(node("locked_strict"), pod("locked_strict")) == []


def test_an_idle_node_without_a_lock_breaks_no_law() -> None:
    assert topics(node("false"), IDLE, busy=False, others=(other(),)) == []
    assert topics(node(None), pod(None, running="False", request=None), busy=False) == []


# While a job runs


@pytest.mark.parametrize("bare", [node(None), node("false"), node("locked", taints=())])
def test_a_job_needs_the_lock_and_the_taint(bare: Node) -> None:
    assert "job without lock" in topics(bare)


def test_a_job_that_only_slurm_tells_of_needs_the_lock_too() -> None:
    assert topics(node("false"), IDLE, busy=True) == ["job without lock"]


def test_where_nodes_may_not_be_read_the_copy_on_the_pod_tells() -> None:
    for state, found in (
        ("false", ["job without lock"]),
        (None, ["job without lock"]),
        ("pending", []),
        ("locked", []),
    ):
        seen = LockSight(pod=pod(state), node=None, busy=True)
        assert [fault.topic for fault in locklaws.faults(seen)] == found


def test_a_node_that_is_slurms_alone_is_locked_while_it_is_idle() -> None:
    assert topics(node("false"), IDLE, busy=False, slurm_only=True) == ["job without lock"]
    idle = pod(running="False", request=None)
    assert topics(node(), idle, busy=False, slurm_only=True) == []


@pytest.mark.parametrize(
    "beside",
    [other(), other(LASTING | {"tolerationSeconds": 300}), other(LASTING, marks={names.JOB_ID: "42"})],
    ids=["plain", "bounded", "of another job"],
)
def test_nobody_else_runs_on_a_locked_node(beside: NodePod) -> None:
    assert topics(others=(beside,)) == ["beside a job: web/web-1"]


@pytest.mark.parametrize(
    "beside",
    [
        other(LASTING),
        other(runs=False),
        other(marks={"kubernetes.io/config.mirror": "x"}),
        other(marks={names.JOB_ID: "4711"}),
    ],
    ids=["tolerates it", "ended", "mirror", "of this job"],
)
def test_who_may_be_there_may_run(beside: NodePod) -> None:
    assert topics(others=(beside,)) == []


def test_while_a_newer_request_waits_others_may_still_run() -> None:
    newer = pod(request='{"number":8,"jobs":["4711/0","4712/0"]}')
    assert topics(pod_=newer, others=(other(),)) == []


def test_others_that_could_not_be_read_are_not_judged() -> None:
    assert topics(others=None) == []


# What is written


def test_the_word_is_one_of_four() -> None:
    assert topics(node("true")) == ["word of lock", "copy of lock"]
    assert "number of lock" in topics(node("locked", number="seven"))


@pytest.mark.parametrize(
    ("state", "taints"),
    [
        ("false", (TAINT,)),
        (None, (TAINT,)),
        ("pending", ()),
        ("locked", (TAINT | {"effect": "NoSchedule"},)),
        ("locked", (TAINT, TAINT | {"effect": "NoSchedule"})),
    ],
)
def test_taint_and_annotation_agree(state: str | None, taints: tuple[dict[str, str], ...]) -> None:
    assert "taint of lock" in topics(node(state, taints=taints), busy=None)


def test_the_label_says_what_the_annotation_says() -> None:
    assert topics(node(label="pending")) == ["label of lock"]


def test_the_owner_is_the_pod_that_is_there() -> None:
    assert "owner of lock" in topics(node(owner="pod-0"))
    assert "owner of lock" not in topics(node(owner="pod-0"), pod(running=None), busy=None), "nothing is known of it"
    assert "owner of lock" not in topics(node("false", owner="pod-0"), IDLE, busy=False)


def test_the_copy_on_the_pod_is_the_same() -> None:
    assert topics(pod_=pod("pending")) == ["copy of lock"]
    assert topics(node(number="8")) == ["copy of lock"]
    assert "copy of lock" in topics(node(owner="pod-0")), "what was given to another Pod is not this one's"
    assert topics(node(owner="pod-0"), pod(None, running=None), busy=None) == []
    assert topics(node("false", number="9"), IDLE, busy=False) == [], "while there is no lock the number is of no use"


# Afterwards


def test_no_lock_lasts_on_an_idle_node() -> None:
    idle = pod(running="False", request='{"number":7}')
    seen = LockSight(pod=idle, node=node(), busy=False)
    (fault,) = locklaws.faults(seen)
    assert (fault.topic, fault.law, fault.grace) == ("lasting lock", locklaws.ENDING, LINGER + MOMENT)
    assert topics(node(), idle, busy=False, slurm_only=True) == []
    assert topics(node(), idle, busy=False, slurm_only=None) == []


def test_a_lock_stays_while_it_is_not_known_that_the_node_is_idle() -> None:
    for unknown in (pod(running="Unknown", request=None), pod(running=None, request=None)):
        assert topics(node(), unknown, busy=None) == []
    assert topics(node(), pod(running="False"), busy=False) == [], "the request names a job"
    assert topics(node(), pod(running="False", request="{"), busy=False) == []


# Out of both sides


def node_set(sharing: str) -> NodeSet:
    tree = {"metadata": {"name": "gpu", "uid": "uid-1"}, "spec": {"template": {}, "sharing": sharing}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=NODESETS.record)


def test_slurms_own_word_goes_before_the_pods() -> None:
    shown = sides.pod({names.SLURM_RUNNING: "True"})
    found = [fault.topic for fault in laws.faults(sides.sides(shown, sides.node(), sides.row(NodeBase.IDLE)))]
    assert "job without lock" not in found


def test_a_nodeset_says_whether_its_nodes_are_slurms_alone() -> None:
    def found(sharing: str) -> list[str]:
        both = sides.sides(sides.pod(), sides.node(), sides.row(), sets={"uid-1": node_set(sharing)})
        return [fault.topic for fault in laws.faults(both)]

    assert found("slurmOnly") == ["job without lock"]
    assert found("open") == []


def test_a_node_that_is_nobodys_carries_no_lock() -> None:
    left = msgspec.convert(
        {
            "metadata": {"name": "node-1", "annotations": notes("locked"), "labels": {names.LOCK: "locked"}},
            "spec": {"taints": [TAINT]},
        },
        Node,
    )
    (fault,) = laws.faults(Snapshot(members={}, pods={}, sets={}, nodes={"node-1": left}))
    assert (fault.law, fault.grace) == (5, LONG)
    for word in ("taint", f"annotation {names.LOCK_OWNER}", f"label {names.LOCK}"):
        assert word in fault.text


def test_that_a_prolog_did_not_reach_the_syncer_is_a_cause_for_a_while() -> None:
    told = {names.SLURM_DRAIN: "True"}
    drained = sides.row(flags=NodeFlag.DRAIN, reason=hooks.UNREACHED, extra=sides.OURS)
    (fault,) = laws.faults(sides.sides(sides.pod(told), sides.node(told), drained))
    assert (fault.topic, fault.law, fault.grace) == ("unreached", 7, LONG)
