"""Members, Pods and NodeSets for tests, with only what the test is about said aloud."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.model.contract import clearance
from sunk.model.nodeslice import Entry, State
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice, owned_by
from sunk.operator.nodeset.decide.podactions import Moment, RemovalRules
from sunk.operator.nodeset.observe.members import Member

UID = "6f1c0c0e-0000-4000-8000-000000000001"
NEW, OLD = "new", "old"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = Moment(BEGIN, since=BEGIN - timedelta(hours=1))
CLEARANCE = clearance.write("1:k8s: pending deletion", read=BEGIN)
TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "slurmd", "image": "slurm"}]}}


def nodeset(name: str = "gpu", *, uid: str = UID, meta: dict[str, Any] | None = None, **spec: Any) -> NodeSet:
    metadata = {"name": name, "namespace": "slurm", "uid": uid, "generation": 1, "resourceVersion": "1"} | (meta or {})
    tree = {"metadata": metadata, "spec": {"template": TEMPLATE} | spec, "status": {"observedGeneration": 1}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=NODESETS.record)


def node_slice(owner: NodeSet, number: int, *entries: Entry, released: tuple[str, ...] = ()) -> NodeSlice:
    tree = {
        "metadata": {
            "name": f"{owner.metadata.name}-{number}",
            "namespace": owner.metadata.namespace,
            "ownerReferences": [owned_by(owner)],
        },
        "spec": {
            "nodeSet": owner.metadata.name,
            "nodeSetUid": owner.metadata.uid,
            "cluster": owner.spec.cluster,
            "entries": msgspec.to_builtins(entries),
        },
        "status": {"released": released},
    }
    return msgspec.convert(tree, NODESLICES.record)


def node(name: str, *, address: str = "", labels: dict[str, str] | None = None, claim: str = "", **spec: Any) -> Node:
    annotations = {names.CLAIM: claim} if claim else {}
    addresses = [{"type": "InternalIP", "address": address}] if address else []
    status = {"addresses": addresses, "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def pod(  # noqa: PLR0913 - one for each thing that a decision looks at
    name: str = "gpu-0",
    *,
    at: str = "node-0",
    ready: bool = True,
    running: bool = False,
    drained: bool = False,
    started: bool = True,
    phase: str = "Running",
    revision: str = NEW,
    mark: str | None = None,
    cleared: bool = False,
    terminating: bool = False,
    age: int = 0,
    owner: NodeSet | None = None,
) -> Pod:
    conditions = {"Ready": ready, "SlurmRunning": running, "SlurmDrain": drained}
    annotations = {names.PENDING_DELETION: mark} if mark is not None else {}
    annotations |= {names.CLEAR_TO_DELETE: CLEARANCE} if cleared else {}
    metadata = {
        "name": name,
        "namespace": "slurm",
        "uid": f"uid of {name}",
        "resourceVersion": "1",
        "creationTimestamp": BEGIN - timedelta(seconds=age),
        "deletionTimestamp": BEGIN if terminating else None,
        "labels": {names.REVISION: revision},
        "annotations": annotations,
        "ownerReferences": [owned_by(owner)] if owner else [],
    }
    state = {"running": {"startedAt": BEGIN}} if started else {}
    status = {
        "phase": phase,
        "conditions": [{"type": kind, "status": str(holds)} for kind, holds in conditions.items()],
        "containerStatuses": [{"name": "slurmd", "state": state}],
    }
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": at}, "status": status}, Pod)


def rules(*, forced: bool = False, slurm: bool = True) -> RemovalRules:
    return RemovalRules(NOW, forced=forced, slurm=slurm)


def entry(name: str = "gpu-0", *, state: State = "joined", reason: str = "", at: str = "") -> Entry:
    return Entry(name=name, node=at or f"node of {name}", state=state, reason=reason)


def member(
    name: str = "gpu-0", *, state: State = "joined", unfit: str = "", released: bool = False, **traits: Any
) -> Member:
    """One with a Pod."""
    found = entry(name, state=state, reason="scaled in" if state == "leaving" else "")
    return Member(found, pod(name, at=found.node, **traits), unfit=unfit, released=released)


def bare(name: str = "gpu-0", *, state: State = "joined", unfit: str = "", released: bool = False) -> Member:
    """One without a Pod."""
    return Member(entry(name, state=state), unfit=unfit, released=released)


@st.composite
def members(draw: st.DrawFn, *, most: int = 12) -> tuple[Member, ...]:
    """Any members at all, also such as no history leads to."""
    return tuple(draw(_member(f"gpu-{number}")) for number in range(draw(st.integers(0, most))))


@st.composite
def _member(draw: st.DrawFn, name: str) -> Member:
    state: State = draw(st.sampled_from(("joined", "joined", "joined", "leaving", "parked")))
    traits = {trait: draw(st.booleans()) for trait in ("ready", "running", "drained", "started", "cleared")}
    made = member(
        name,
        state=state,
        unfit=draw(st.sampled_from(("", "", "its Node is gone"))),
        released=draw(st.booleans()),
        terminating=draw(st.sampled_from((False, False, True))),
        phase=draw(st.sampled_from(("Running", "Running", "Pending", "Failed"))),
        revision=draw(st.sampled_from((NEW, OLD))),
        mark=draw(st.sampled_from((None, None, "scaled in", "its template was changed"))),
        age=draw(st.integers(0, 3)),
        **traits,
    )
    return made if draw(st.booleans()) else msgspec.structs.replace(made, pod=None)
