"""What is said about the lock of a node, who is in its way, and why it stays."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.insight.explain import test_explanation as plain

from sunk.insight.explain.explanation import Explanation, explain
from sunk.insight.nodepods import NodePod
from sunk.insight.status.members import ObservedMember
from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.contract import hooks
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NODESETS, NodeSet

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
TAINT = {"key": names.LOCK, "value": "true", "effect": "NoExecute"}
JOB = '{"number":7,"jobs":["4711/0"]}'
NONE = '{"number":7}'


def node(state: str | None = "locked", *, number: int = 7, owner: str = "pod-1", tainted: bool | None = None) -> Node:
    notes = {names.LOCK: state, names.LOCK_NUMBER: str(number), names.LOCK_OWNER: owner}
    on = state not in {None, "false"} if tainted is None else tainted
    tree = {
        "metadata": {"name": "node-1", "annotations": {} if state is None else notes},
        "spec": {"taints": [TAINT] if on else []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(tree, Node)


def pod(request: str | None = JOB, *, running: str = "True", ago: float = 5, **more: Any) -> Pod:
    since = (NOW - timedelta(seconds=ago)).isoformat()
    told = [
        {"type": "Ready", "status": "True"},
        {"type": names.SLURM_DRAIN, "status": "False"},
        {"type": names.SLURM_RUNNING, "status": running, "lastTransitionTime": since},
    ]
    notes = {} if request is None else {names.LOCK_REQUEST: request}
    metadata = {"name": "gpu-1", "namespace": "team", "uid": "pod-1", "annotations": notes} | more
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": metadata, "status": {"phase": "Running", "conditions": told}}), type=Pod
    )


def other(name: str = "web-1", *, ends: float | None = None, kind: str = "", runs: bool = True, **more: Any) -> NodePod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "web", "ownerReferences": [owner] if kind else []}
    if ends is not None:
        metadata["deletionTimestamp"] = (NOW + timedelta(seconds=ends)).isoformat()
    state: dict[str, Any] = {"running": {}} if runs else {"terminated": {}}
    tolerations = more.pop("tolerations", [])
    tree = {
        "metadata": metadata | more,
        "spec": {"nodeName": "node-1", "tolerations": tolerations},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]},
    }
    return msgspec.json.decode(msgspec.json.encode(tree), type=NodePod)


def node_set(sharing: str) -> NodeSet:
    tree = {"metadata": {"name": "gpu"}, "spec": {"template": {}, "sharing": sharing}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=NODESETS.record)


def explained(
    node_: Node | None, pod_: Pod | None, *others: NodePod, sharing: str = "open", unseen: bool = False
) -> Explanation:
    seen = ObservedMember(Entry("gpu-1", node="node-1"), pod=pod_, node=node_, node_known=node_ is not None)
    there = None if unseen else others
    return explain(seen, owner=node_set(sharing), cluster=None, others=there, now=NOW)


def said(*arguments: Any, **more: Any) -> list[str]:
    return plain.texts(explained(*arguments, **more), "Lock")


IDLE = pod(NONE, running="False")


def test_a_node_that_is_not_locked_may_have_other_work() -> None:
    assert said(node("false"), IDLE) == ["off: other work may run on this Node"]
    assert said(node(None), pod(None, running="False")) == ["off: other work may run on this Node"]
    assert explained(node("false"), IDLE).well


def test_a_lock_names_its_jobs_and_its_request() -> None:
    assert said(node(), pod()) == ["locked for job 4711 (request 7)"]
    strict = pod('{"number":7,"strict":true,"jobs":["4711/0"]}')
    assert said(node("locked_strict"), strict) == ["locked strictly for job 4711 (request 7)"]
    assert explained(node(), pod()).well


def test_where_the_node_may_not_be_read_the_pod_tells() -> None:
    copied = {names.LOCK: "locked", names.LOCK_NUMBER: "7", names.LOCK_OWNER: "pod-1", names.LOCK_REQUEST: JOB}
    assert said(None, pod(annotations=copied)) == ["locked for job 4711 (request 7)"]


def test_a_request_that_nobody_has_answered_is_told() -> None:
    assert said(node("false"), pod()) == ["requested for job 4711 (request 7); the operator has not answered yet"]


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (other(), "Pod web/web-1: about to be evicted"),
        (other(kind="DaemonSet"), "Pod web/web-1 of DaemonSet web: about to be evicted"),
        (other(ends=12), "Pod web/web-1: terminating, with up to 12 s left"),
        (
            other(ends=-40),
            "Pod web/web-1: should have ended 40 s ago: a process cannot be killed, or its kubelet does not answer",
        ),
        (
            other(tolerations=[{"key": names.LOCK, "operator": "Exists", "tolerationSeconds": 300}]),
            "Pod web/web-1: tolerates the lock for 300 s, and is evicted then",
        ),
        (other(annotations={names.JOB_ID: "42"}), "Pod web/web-1: its Slurm job 42 no longer holds this node"),
    ],
)
def test_a_lock_that_is_pending_names_who_is_in_the_way_and_why(beside: NodePod, words: str) -> None:
    first, second = said(node("pending"), pod(), beside)
    assert first == "pending for job 4711 (request 7), which starts when all other Pods here have ended"
    assert second == f"waits for {words}"


def test_a_strict_lock_waits_for_objects_too() -> None:
    strict = pod('{"number":7,"strict":true,"jobs":["4711/0"]}')
    ended = other(ends=-3, runs=False, finalizers=["example.com/keep"])
    assert said(node("pending"), strict, ended)[1:] == [
        "waits for Pod web/web-1: has ended, but its object is kept by the finalizer example.com/keep"
    ]
    assert said(node("pending"), pod(), ended)[1:] == ["no Pod is in the way any more"]


def test_who_may_not_list_pods_is_told_so_and_many_are_counted() -> None:
    assert "may not list" in said(node("pending"), pod(), unseen=True)[1]
    many = [other(f"web-{number}") for number in range(14)]
    assert said(node("pending"), pod(), *many)[-1] == "waits for 4 more Pods"


def test_what_leaves_in_time_needs_no_advice_and_what_does_not_does() -> None:
    assert explained(node("pending"), pod(), other(ends=12)).well
    late = explained(node("pending"), pod(), other(ends=-40))
    assert late.advice == ("kubectl describe pod -n web web-1    # what keeps it",)
    assert any("sunk check" in each for each in explained(node("pending"), pod(), other(kind="DaemonSet")).advice)


def test_a_newer_request_on_a_locked_node_waits() -> None:
    newer = pod('{"number":8,"jobs":["4712/0"]}')
    first, second = said(node(), newer, other(annotations={names.JOB_ID: "42"}))
    assert first == "locked by request 7; job 4712 (request 8) waits for Pods of earlier jobs"
    assert "no longer holds" in second


@pytest.mark.parametrize(
    ("pod_", "sharing", "words"),
    [
        (IDLE, "open", "the operator waits a few seconds"),
        (IDLE, "slurmOnly", "always kept for Slurm"),
        (pod(NONE, running="Unknown"), "open", "it is not known whether"),
        (pod(NONE), "open", "something runs here"),
        (pod(NONE, running="False", ago=600), "open", "idle for long"),
    ],
)
def test_why_it_is_still_locked_without_a_job(pod_: Pod, sharing: str, words: str) -> None:
    (text,) = said(node(), pod_, sharing=sharing)
    assert words in text


def test_a_lock_that_nobody_takes_off_can_be_taken_off_by_hand() -> None:
    found = explained(node(), pod(NONE, running="False", ago=600))
    assert any(each.startswith("sunk node release node-1") for each in found.advice)
    assert explained(node(), IDLE).well


def test_a_lock_of_an_earlier_pod_is_told() -> None:
    assert "for an earlier Pod" in said(node(owner="pod-0"), pod())[0]


def test_what_contradicts_itself_or_cannot_be_read_is_grave() -> None:
    assert "lost the taint" in said(node(tainted=False), pod())[0]
    assert "still has the taint" in said(node("false", tainted=True), IDLE)[0]
    assert "cannot be read" in said(node("maybe"), pod())[0]
    assert names.LOCK_REQUEST in said(node(), pod("{"))[0]


def test_a_member_without_a_pod_says_something_only_if_it_is_locked() -> None:
    assert said(node("false"), None) == []
    assert "not known whether" in said(node(), None)[0]


def test_drains_of_the_prolog_say_what_happened() -> None:
    lost = plain.told(plain.pod(drained=hooks.UNREACHED))
    assert "got no answer from the syncer" in plain.texts(lost, "Slurm")[0]
    assert any("grep prelock" in each for each in lost.advice)
    assert not any("sunk undrain" in each for each in lost.advice)
    late = plain.told(plain.pod(drained=hooks.TIMED_OUT))
    assert "did not leave the Node in time" in plain.texts(late, "Slurm")[0]
    assert any("sunk undrain" in each for each in late.advice)
