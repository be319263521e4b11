"""What a release takes off a Node, and when it is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from sunk.insight.node.commands import line, summary
from sunk.insight.node.release import (
    Situation,
    Surroundings,
    kept_drain,
    left,
    lock_patch,
    marks,
    marks_patch,
    objection,
)
from sunk.insight.node.releasing import LATELY, ReleaseOutcome, expanded, is_held
from sunk.kube.core import Lease, Node, Pod
from sunk.model import names
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NODESETS, NodeSet

LOCKED = {names.LOCK: "locked", names.LOCK_NUMBER: "7", names.LOCK_OWNER: "pod-uid"}
TAINT = {"key": names.LOCK, "value": "true", "effect": "NoExecute"}
OTHER = {"key": "example.com/other", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def node(*, owned: bool = True, locked: bool = True, **annotations: str) -> Node:
    notes = {getattr(names, key.upper()): value for key, value in annotations.items()}
    owner = {names.NODESET: "gpu", names.NAMESPACE: "team", names.CLUSTER: "slurm", names.POD: "gpu-1"}
    metadata = {
        "name": "node-1",
        "uid": "node-uid",
        "resourceVersion": "42",
        "annotations": (LOCKED if locked else {}) | ({names.CLAIM: "set-uid"} if owned else {}) | notes,
        "labels": {"zone": "a"} | ({names.LOCK: "locked"} if locked else {}) | (owner if owned else {}),
    }
    conditions = [{"type": kind, "status": "False"} for kind in ("Ready", *([names.SLURM_DRAIN] if owned else []))]
    taints = [OTHER, TAINT] if locked else [OTHER]
    return msgspec.convert(
        {"metadata": metadata, "spec": {"taints": taints}, "status": {"conditions": conditions}}, Node
    )


def pod(running: str | None = "False", request: str | None = None, *, phase: str = "Running") -> Pod:
    told = [] if running is None else [{"type": names.SLURM_RUNNING, "status": running}]
    notes = {} if request is None else {names.LOCK_REQUEST: request}
    metadata = {"name": "gpu-1", "namespace": "team", "annotations": notes}
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase, "conditions": told}}, Pod)


def node_set(sharing: str = "open") -> NodeSet:
    metadata = {"name": "gpu", "namespace": "team", "uid": "set-uid"}
    tree = {"metadata": metadata, "spec": {"template": {}, "sharing": sharing}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=NODESETS.record)


def against(
    found: Node | None = None, pods: tuple[Pod, ...] | None = (), *, all_marks: bool = False, **around: Any
) -> str:
    situation = Situation(found or node(), pods=pods, around=Surroundings(**around))
    return objection(situation, all_marks=all_marks)


def test_the_lock_goes_and_nothing_else() -> None:
    assert marks(node(), all_marks=False) == (
        f"taint {names.LOCK}=true:NoExecute",
        f"annotation {names.LOCK}=locked",
        f"annotation {names.LOCK_NUMBER}=7",
        f"annotation {names.LOCK_OWNER}=pod-uid",
        f"label {names.LOCK}=locked",
    )
    patch = lock_patch(node())
    assert patch is not None
    assert [each for each in patch if each["op"] == "remove" and "taints" in each["path"]] == [
        {"op": "remove", "path": "/spec/taints/1"}
    ]
    assert {"op": "replace", "path": "/metadata/resourceVersion", "value": "42"} in patch


def test_with_all_marks_nothing_of_ours_stays_but_a_persons_drain() -> None:
    found = node(kept_drain="team/slurm:bad fan", drain="bad fan")
    gone = marks(found, all_marks=True)
    assert f"annotation {names.CLAIM}=set-uid" in gone
    assert f"annotation {names.DRAIN}=bad fan" in gone
    assert {f"label {key}" for key in (names.NODESET, names.NAMESPACE, names.CLUSTER, names.POD)} <= {
        mark.partition("=")[0] for mark in gone
    }
    assert f"condition {names.SLURM_DRAIN}" in gone
    assert not any(names.KEPT_DRAIN in mark or "zone" in mark or "Ready" in mark for mark in gone)
    assert kept_drain(found)
    body = marks_patch(found)
    assert body is not None
    assert body["metadata"]["resourceVersion"] == "42"
    assert names.KEPT_DRAIN not in body["metadata"]["annotations"]


def test_what_stays_is_told_and_where_there_is_nothing_nothing_is_written() -> None:
    assert len(left(node())) == 6
    clean = node(owned=False, locked=False)
    assert (marks(clean, all_marks=True), lock_patch(clean), marks_patch(clean)) == ((), None, None)


def test_a_lock_without_a_taint_and_a_taint_without_a_lock_go_too() -> None:
    bare = node(owned=False, locked=False)
    tainted = msgspec.convert({"metadata": {"name": "node-1"}, "spec": {"taints": [TAINT]}}, Node)
    noted = msgspec.structs.replace(
        bare, metadata=msgspec.structs.replace(bare.metadata, annotations={names.LOCK: "x"})
    )
    assert lock_patch(tainted) is not None
    assert lock_patch(noted) is not None


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (pod("True"), "runs a job"),
        (pod("False", '{"number":7,"jobs":["4711/0"]}'), "runs job 4711"),
        (pod(None), "not known whether"),
        (pod("Unknown"), "not known whether"),
        (pod("False", "{"), "not known whether"),
    ],
)
def test_a_node_whose_slurm_node_runs_jobs_or_may_run_some_is_not_released(there: Pod, words: str) -> None:
    assert words in against(pods=(there,))
    assert words in against(pods=(there,), operator=True)


def test_an_idle_node_is_released_and_so_is_one_whose_pod_is_gone_or_has_ended() -> None:
    assert against(pods=(pod("False"),), operator=True) == ""
    assert against(pods=(), operator=True) == ""
    assert against(pods=(pod("True", phase="Failed"),)) == ""


def test_pods_that_may_not_be_read_count_as_if_a_job_ran() -> None:
    assert "may not list Pods" in against(pods=None)


def test_that_the_operator_would_put_the_lock_back_is_said() -> None:
    assert "lock the Node again" in against(pods=(pod("True"),), operator=True)
    assert "lock the Node again" in against(pods=(pod("True"),), operator=None)
    assert "lock the Node again" not in against(pods=(pod("True"),), operator=False)
    assert "slurmOnly" in against(sets=(node_set("slurmOnly"),), operator=True)
    assert against(sets=(node_set("slurmOnly"),), operator=False) == ""


def test_marks_of_a_nodeset_stay_while_an_operator_would_put_them_back() -> None:
    sets = (node_set(),)
    assert "belongs to NodeSet team/gpu" in against(all_marks=True, sets=sets, operator=True)
    assert "belongs to NodeSet team/gpu" in against(all_marks=True, sets=sets, operator=None)
    assert "may not list NodeSets" in against(all_marks=True, sets=None, operator=True)
    assert against(all_marks=True, sets=sets, operator=False) == ""
    assert against(all_marks=True, sets=(), operator=True) == ""
    assert against(node(owned=False), all_marks=True, sets=sets, operator=True) == ""
    assert against(sets=sets, operator=True) == "", "the lock alone may go"


def lease(holder: str = "me", *, age: timedelta = timedelta(seconds=5)) -> Lease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": NOW - age}
    return msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, Lease)


def test_an_operator_runs_while_its_lease_is_renewed() -> None:
    assert is_held(lease(), now=NOW)
    assert not is_held(lease(""), now=NOW)
    assert not is_held(lease(age=LATELY + timedelta(seconds=1)), now=NOW)
    assert is_held(lease(age=-timedelta(minutes=5)), now=NOW), "its clock may be ahead"


def test_names_may_be_hostlists() -> None:
    assert expanded(("gpu-[1-2]", "gpu-2", "a.example.com")) == ("gpu-1", "gpu-2", "a.example.com")
    with pytest.raises(Refusal, match="hostlists"):
        expanded(("gpu-[1-",))


def test_the_summary_counts_and_says_how_to_go_on() -> None:
    outcomes = [
        ReleaseOutcome("a", "took off x", done=True),
        ReleaseOutcome("b", "has no lock", idle=True),
        ReleaseOutcome("c", "runs a job", refused=True),
        ReleaseOutcome("d", "not released: 500"),
    ]
    assert [line(outcome)[0] for outcome in outcomes] == ["✓", "-", "✗", "✗"]
    assert summary(outcomes, dry_run=False) == (
        "1 Node released; 1 Node had nothing to release; 1 Node refused (--force overrides); 1 Node failed."
    )
    assert summary([], dry_run=False) == "No Node matches the selector."
