"""The chain of causes behind a node, and what is advised."""

from typing import Any

import msgspec
from msgspec.structs import replace
from tests.unit.insight.status.test_members import node

from sunk.insight.explain.explanation import Explanation, explain
from sunk.insight.status.members import ObservedMember
from sunk.kube.core import Pod
from sunk.model import names
from sunk.model.nodeslice import Entry, State
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster


def pod(*, drained: str | None = None, ready: bool = True, busy: bool = False, **notes: str) -> Pod:
    told = [
        {"type": "Ready", "status": str(ready)},
        {"type": names.SLURM_DRAIN, "status": str(drained is not None), "message": drained or ""},
        {"type": names.SLURM_RUNNING, "status": str(busy), "message": "ALLOCATED" if busy else "IDLE"},
    ]
    metadata = {
        "name": "gpu-1",
        "namespace": "team",
        "annotations": {getattr(names, k.upper()): v for k, v in notes.items()},
    }
    return msgspec.convert({"metadata": metadata, "status": {"phase": "Running", "conditions": told}}, Pod)


def cluster(**report: Any) -> SlurmCluster:
    metadata = {"name": "slurm", "namespace": "team"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {}, "status": {"syncer": report} if report else {}}, SLURMCLUSTERS.record
    )


def told(pod_: Pod | None, *, state: State = "joined", reason: str = "", **more: Any) -> Explanation:
    entry = Entry("gpu-1", node="node-1", state=state, reason=reason)
    found, of = more.pop("node", node()), more.pop("cluster", None)
    key = more.pop("reason_key", names.CORDON_REASON)
    return explain(ObservedMember(entry, pod=pod_, node=found, **more), owner=None, cluster=of, reason_key=key)


def texts(found: Explanation, about: str) -> list[str]:
    return [each.text for each in found.sentences if each.about == about]


def test_a_node_in_service_needs_no_advice() -> None:
    found = told(pod())
    assert found.well
    assert texts(found, "Slurm") == ["in service, idle"]


def test_a_cordon_is_followed_from_the_node_to_slurm() -> None:
    cordoned = node(unschedulable=True)
    found = told(pod(drained="k8s: cordon: disk", cordon="disk"), node=cordoned)
    assert texts(found, "Node") == ["node-1 is cordoned: disk"]
    assert texts(found, "Slurm") == ['drained by the syncer: "k8s: cordon: disk", for the cause above']
    assert found.advice[0].startswith("kubectl uncordon node-1")


def test_why_a_node_is_cordoned_is_read_where_the_operator_reads_it() -> None:
    reasons = {"example.com/why": "bad fan", names.CORDON_REASON: "not this"}
    plain = node(unschedulable=True)
    why = replace(plain, metadata=replace(plain.metadata, annotations=reasons))
    assert texts(told(pod(cordon="bad fan"), node=why), "Node") == ["node-1 is cordoned: bad fan"]
    assert texts(told(None, node=why, reason_key="example.com/why"), "Node") == ["node-1 is cordoned: bad fan"]
    nobody = node(unschedulable=True)
    assert texts(told(pod(cordon=""), node=nobody), "Node") == ["node-1 is cordoned, without a reason"]


def test_a_record_that_is_new_says_what_it_waits_for() -> None:
    found = told(pod(drained="k8s: new node"))
    assert "until the syncer has checked it" in texts(found, "Slurm")[0]
    assert found.well, "nobody has to do anything about it"


def test_a_drain_from_before_the_machine_left_is_told() -> None:
    assert "before its Node was removed: alice: bad fan" in texts(told(pod(kept_drain="alice: bad fan")), "Pod")[-1]


def test_a_drain_of_ours_without_a_cause_is_about_to_end() -> None:
    assert "the syncer will lift it" in texts(told(pod(drained="k8s: cordon")), "Slurm")[0]


def test_a_drain_of_a_person_is_the_persons() -> None:
    found = told(pod(drained="alice: fan"))
    assert texts(found, "Slurm") == ['drained, but not by SUNK: "alice: fan". SUNK does not lift this drain']
    assert found.advice[0].startswith("sunk undrain gpu-1")


def test_a_drain_until_verified_says_what_it_waits_for() -> None:
    found = told(pod(drained="prolog pre-hook failed (sunk:verify-undrain)"))
    assert texts(found, "Pod")[-1] == "not verified yet: it has no condition HPCVerification"


def test_a_member_that_leaves_says_what_it_waits_for() -> None:
    leaving = pod(drained="k8s: pending deletion", busy=True, pending_deletion="scaled in")
    found = told(leaving, state="leaving", reason="scaled in")
    assert texts(found, "NodeSet")[0].startswith("leaving ")
    assert texts(found, "Pod")[-1] == "marked for deletion: scaled in; it stays until its jobs have ended"
    assert any(each.startswith("squeue -w gpu-1") for each in found.advice)


def test_a_silent_syncer_is_named() -> None:
    silent = msgspec.convert({"metadata": {"name": "gpu-1", "namespace": "team"}, "status": {"phase": "Running"}}, Pod)
    found = told(silent, cluster=cluster())
    assert texts(found, "Slurm") == ["the syncer has not reported on this node yet"]
    assert any("deploy/slurm-syncer" in each for each in found.advice)


def test_what_the_syncer_holds_back_is_told() -> None:
    found = told(pod(), cluster=cluster(held="40 of 50 nodes disappeared at once"))
    assert texts(found, "Syncer") == ["holds back all deletions: 40 of 50 nodes disappeared at once"]
    assert not found.well


def test_a_syncer_that_has_said_nothing_yet_is_told_nothing_of() -> None:
    assert texts(told(pod(), cluster=cluster()), "Syncer") == []


def test_a_slurm_that_cannot_be_read_is_said_first_and_what_follows_may_be_old() -> None:
    unseen = "the syncer has not been able to read Slurm since 2026-11-17 19:43:06 UTC: nobody is there"
    found = told(pod(), cluster=cluster(unseen=unseen))
    assert found.sentences[0].text == f"{unseen}. The lines below may be outdated"
    assert found.sentences[0].grave
    assert not found.well
    assert "deploy/slurm-syncer" in found.advice[1]


def test_a_syncer_that_does_not_run_is_said_first_too() -> None:
    condition = {"type": "InStep", "status": "False", "reason": "NotReady", "message": "syncer: 0 of 1 ready"}
    condition["lastTransitionTime"] = "2026-11-17T19:43:06Z"
    of = msgspec.convert(
        {"metadata": {"name": "slurm", "namespace": "team"}, "spec": {}, "status": {"conditions": [condition]}},
        SLURMCLUSTERS.record,
    )
    found = told(pod(), cluster=of)
    assert found.sentences[0].text == "syncer: 0 of 1 ready. The lines below may be outdated"
    assert not found.well
