"""Pods, entries of slices and rows of Slurm, in which only what matters has a value."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Raw
from msgspec.structs import replace
from tests.unit.slurm.blank import blank

from sunk.kube.resource import Key, Metadata
from sunk.model import names
from sunk.model.nodeset import NodeSetSpec, NodeSetStatus
from sunk.model.nodeslice import Entry, NodeSliceSpec, NodeSliceStatus, State
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.drains.snapshot import NodeSnapshot
from sunk.syncer.members import Member
from sunk.syncer.pods import ComputePod, ComputePodCondition, ComputePodSpec, ComputePodStatus

HERE = "slurm"
CLUSTER = "big"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
READY = "Ready"


def later(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def pod(
    name: str = "n1",
    *conditions: ComputePodCondition,
    ready: bool = True,
    since: float = 60.0,
    uid: str = "",
    **annotations: str,
) -> ComputePod:
    """A Pod that began at `BEGAN`, and is ready or not `since` so many seconds after that.

    Annotations are named as in `sunk.model.names`.
    """
    said = {getattr(names, key.upper()): value for key, value in annotations.items()}
    metadata = Metadata(name=name, namespace=HERE, uid=uid or f"uid-of-{name}", annotations=said)
    state = ComputePodCondition(READY, "True" if ready else "False", last_transition_time=later(since))
    status = ComputePodStatus(phase="Running", start_time=BEGAN, conditions=(state, *conditions))
    return ComputePod(metadata=metadata, spec=ComputePodSpec(node_name=f"node-of-{name}"), status=status)


def going(found: ComputePod) -> ComputePod:
    return replace(found, metadata=replace(found.metadata, deletion_timestamp=later(0)))


def ended(found: ComputePod) -> ComputePod:
    return replace(found, status=replace(found.status, phase="Failed"))


def row(name: str = "n1", *flags: NodeFlag, base: NodeBase = NodeBase.IDLE, **values: Any) -> Node:
    bits = base.value | sum(flag.value for flag in flags)
    return blank(Node, name=name, state_bits=bits, **values)


def drained(name: str = "n1", *, reason: str, **values: Any) -> Node:
    return row(name, NodeFlag.DRAIN, reason=reason, **values)


def entry(name: str = "n1", state: State = "joined") -> Entry:
    return Entry(name=name, node=f"node-of-{name}", state=state)


def member(name: str = "n1", state: State = "joined") -> Member:
    return Member(entry=entry(name, state), slice=Key(HERE, "set-0"), node_set="set", node_set_uid="uid-of-set")


def slice_of(*entries: Entry, name: str = "set-0", cluster: str = CLUSTER) -> NodeSlice:
    return NODESLICES.record(
        metadata=Metadata(name=name, namespace=HERE, uid=f"uid-of-{name}"),
        spec=NodeSliceSpec(node_set="set", node_set_uid="uid-of-set", cluster=cluster, entries=entries),
        status=NodeSliceStatus(),
    )


def node_set(*, members: int, generation: int = 1, observed: int = 1, uid: str = "uid-of-set") -> NodeSet:
    return NODESETS.record(
        metadata=Metadata(name="set", namespace=HERE, uid=uid, generation=generation),
        spec=NodeSetSpec(template=Raw(b"{}"), cluster=CLUSTER),
        status=NodeSetStatus(members=members, observed_generation=observed),
    )


def snapshot(
    *, of: ComputePod | None = None, on: Node | None = None, state: State = "joined", unready_long: bool = True
) -> NodeSnapshot:
    return NodeSnapshot(member=member(state=state), pod=of, row=on or row(), unready_long=unready_long)
