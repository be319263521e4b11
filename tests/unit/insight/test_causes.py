"""Whatever drains a node because of Kubernetes is a cause to `sunk verify` and to `sunk explain` too.

They share no rule with the syncer, so a new cause has to be told to each: else one reports a drain without cause, and the
other says that the syncer will lift it.
"""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import fields, replace
from tests.unit.insight.verify import test_laws as sides
from tests.unit.syncer.builders import BEGAN, drained, going, pod, snapshot

from sunk.insight.explain.explanation import explain
from sunk.insight.status.members import ObservedMember
from sunk.insight.verify import laws
from sunk.model import names
from sunk.model.contract import drains
from sunk.model.contract.drains import Causes
from sunk.model.nodeslice import Entry
from sunk.syncer.drains.snapshot import causes
from sunk.syncer.pods import ComputePod

PODS: dict[str, tuple[ComputePod, dict[str, Any]]] = {
    "terminated": (going(pod()), {"deletionTimestamp": BEGAN + timedelta(minutes=1)}),
    "pending_deletion": (pod(pending_deletion="scale-in"), sides.marked(pending_deletion="scale-in")),
    "not_ready": (pod(ready=False), {}),
    "cordon": (pod(cordon="disk"), sides.marked(cordon="disk")),
}
"""For each cause a Pod that shows it: as the syncer reads it, and what is special in its metadata for the others."""
NOT_SHOWN = {"deletion_timeout", "new", "unreached"}
"""Causes that are not read from Kubernetes: nobody sets the first yet, slurmd alone the second, and a prolog the third."""
WHERE = """a new cause: if a Pod shows it, give one here, and tell
  - causes in syncer/drains/snapshot.py, which drains upon it
  - _causes and causes_of in insight/verify/laws.py
  - _caused in insight/explain/explanation.py
else name it in NOT_SHOWN"""


def test_each_cause_is_either_shown_by_a_pod_or_not() -> None:
    assert {field.name for field in fields(Causes)} == PODS.keys() | NOT_SHOWN, WHERE


@pytest.mark.parametrize("cause", PODS)
def test_the_syncer_sees_it(cause: str) -> None:
    found = causes(snapshot(of=PODS[cause][0]))
    assert [field.name for field in fields(Causes) if getattr(found, field.name) not in {False, None}] == [cause]


@pytest.mark.parametrize("cause", PODS)
def test_verify_sees_it(cause: str) -> None:
    metadata, text = PODS[cause][1], drains.text(replace(Causes(), **{cause: "" if cause == "cordon" else True}))
    assert text is not None
    drained = {names.SLURM_DRAIN: "True", "Ready": str(cause != "not_ready")}
    shown, node = sides.pod(drained, message=text, **metadata), sides.node({names.SLURM_DRAIN: "True"})
    found = [fault.topic for fault in laws.faults(sides.sides(shown, node, sides.out(text, extra=sides.OURS)))]
    assert "drain without cause" not in found, WHERE
    assert laws.causes_of(shown), WHERE


@pytest.mark.parametrize("cause", PODS)
def test_explain_sees_it(cause: str) -> None:
    metadata = PODS[cause][1]
    drained = {names.SLURM_DRAIN: "True", "Ready": str(cause != "not_ready")}
    shown = sides.pod(drained, message=f"{drains.PREFIX} {cause}", **metadata)
    seen = ObservedMember(Entry("gpu-1", node="node-1"), pod=shown, node=sides.node())
    texts = [sentence.text for sentence in explain(seen, owner=None, cluster=None).sentences]
    assert any("for the cause above" in text for text in texts), WHERE


def test_a_prolog_that_did_not_reach_the_syncer_is_a_cause_to_verify_and_explained() -> None:
    text = drains.text(Causes(unreached=True))
    assert text is not None
    assert causes(snapshot(of=pod(), on=drained(reason=text))) == Causes(unreached=True)
    shown, node = sides.pod({names.SLURM_DRAIN: "True", "Ready": "True"}, message=text), sides.node()
    found = [fault.topic for fault in laws.faults(sides.sides(shown, node, sides.out(text, extra=sides.OURS)))]
    assert "drain without cause" not in found
    seen = ObservedMember(Entry("gpu-1", node="node-1"), pod=shown, node=node)
    texts = [sentence.text for sentence in explain(seen, owner=None, cluster=None).sentences]
    assert any("no answer from the syncer" in text for text in texts)
    assert not any("The cause is gone" in text for text in texts)
