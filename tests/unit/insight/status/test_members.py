"""What is said about a member of a NodeSet, and when nothing is."""

from typing import Any

import msgspec
import pytest

from sunk.insight.status.members import LONGEST, ObservedMember, notes
from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.nodeslice import Entry, State

WELL = [{"type": "Ready", "status": "True"}]
WHEN = "2026-01-01T00:00:00Z"


def node(*, ready: str = "True", **spec: Any) -> Node:
    told = [{"type": "Ready", "status": ready, "lastTransitionTime": WHEN}]
    return msgspec.convert({"metadata": {"name": "node-1"}, "spec": spec, "status": {"conditions": told}}, Node)


def pod(meta: dict[str, Any] | None = None, **status: Any) -> Pod:
    metadata = {"name": "gpu-1", "namespace": "team"} | (meta or {})
    return msgspec.convert({"metadata": metadata, "status": {"phase": "Running", "conditions": WELL} | status}, Pod)


def annotated(**found: str) -> Pod:
    keys = {"pending": names.PENDING_DELETION, "clear": names.CLEAR_TO_DELETE}
    return pod({"annotations": {keys[key]: value for key, value in found.items()}})


def said(
    pod: Pod | None = None, node: Node | None = None, *, state: State = "joined", reason: str = "", **more: Any
) -> list[str]:
    entry = Entry("gpu-1", node="node-1", state=state, reason=reason)
    return [note.text for note in notes(ObservedMember(entry, pod=pod, node=node, **more))]


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"containerStatuses": [{"name": "slurmd", "state": {"waiting": {"reason": reason, "message": message}}}]}


def test_there_is_nothing_to_say_about_one_that_is_well() -> None:
    assert said(pod(), node()) == []


def test_one_that_is_parked_has_no_pod_and_is_well() -> None:
    assert said(None, node(), state="parked") == []
    assert said(pod(phase="Failed"), node(), state="parked") == ["Pod has ended (Failed)"]


def test_one_that_leaves_says_why_and_what_it_waits_for() -> None:
    assert said(pod(), node(), state="leaving", reason="scaled in") == ["scaled in"]
    assert said(pod(), node(), state="leaving") == ["no reason given"]
    gone = said(None, node(), state="leaving", reason="scaled in", refused="it is in reservation night")
    assert gone[1:] == [
        "Slurm cannot release it: it is in reservation night",
        "its Pod is gone, its record in Slurm is not yet",
    ]


def test_a_mark_that_says_the_same_as_the_entry_is_not_repeated() -> None:
    marked = annotated(pending="scaled in", clear="drain-1")
    assert said(marked, node(), state="leaving", reason="scaled in") == ["scaled in", "released by Slurm"]
    assert said(annotated(pending="another template"), node()) == ["marked for deletion: another template"]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, ["Node is gone"]),
        (node(ready="Unknown"), ["Node is not ready"]),
        (node(unschedulable=True), ["cordoned"]),
    ],
)
def test_what_is_with_its_node_is_said(found: Node | None, told: list[str]) -> None:
    assert said(pod(), found) == told


def test_a_node_that_could_not_be_read_is_not_taken_for_gone() -> None:
    assert said(pod(), None, node_known=False) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "no Pod"),
        (pod({"deletionTimestamp": WHEN}), "Pod is terminating"),
        (pod(phase="Failed", reason="Evicted", message="disk pressure"), "Pod has ended (Failed): disk pressure"),
        (pod(phase="Pending", conditions=[]), "Pod is pending"),
        (
            pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes\n are free"}],
            ),
            "Pod is pending: 0/3 nodes are free",
        ),
        (
            pod(phase="Pending", conditions=[], **waiting("ImagePullBackOff", "no such image")),
            "Pod is pending: slurmd ImagePullBackOff no such image",
        ),
        (pod(phase="Pending", conditions=[], **waiting("ContainerCreating")), "Pod is pending"),
        (
            pod(conditions=[{"type": "Ready", "status": "False"}], **waiting("CrashLoopBackOff")),
            "Pod is not ready: slurmd CrashLoopBackOff",
        ),
        (
            pod(
                conditions=[],
                containerStatuses=[
                    {"name": "slurmd", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
                ],
            ),
            "Pod is not ready: slurmd OOMKilled exit code 137",
        ),
    ],
)
def test_what_is_with_its_pod_is_said_with_the_cause(found: Pod | None, told: str) -> None:
    assert said(found, node()) == [told]


def test_a_drain_says_why_and_since_when() -> None:
    drain = {"type": "SlurmDrain", "status": "True", "message": "alice: bad fan", "lastTransitionTime": WHEN}
    found = notes(ObservedMember(Entry("gpu-1", node="node-1"), pod=pod(conditions=[*WELL, drain]), node=node()))
    assert [(note.text, note.grave) for note in found] == [("drained in Slurm: alice: bad fan", False)]
    assert found[0].since is not None
    ended = [*WELL, drain | {"status": "False"}]
    assert said(pod(conditions=ended), node()) == []


def test_a_node_that_slurm_does_not_hear_from_is_said() -> None:
    lost = [*WELL, {"type": "SlurmNotResponding", "status": "True"}]
    assert said(pod(conditions=lost), node()) == ["not responding in Slurm"]


def test_wishes_of_people_are_not_grave_and_losses_are() -> None:
    entry = Entry("gpu-1", node="node-1")
    wish = notes(ObservedMember(entry, pod=annotated(pending="an update"), node=node(unschedulable=True)))
    loss = notes(ObservedMember(entry, pod=None, node=None))
    assert [note.grave for note in wish] == [False, False]
    assert [note.grave for note in loss] == [True, True]


def test_a_long_cause_is_cut() -> None:
    (told,) = said(pod(phase="Failed", message="x" * 5000), node())
    assert len(told) < LONGEST + 50
    assert told.endswith("…")
