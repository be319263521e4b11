"""Nodes and Pods for the rules of the Node and the Pod controller, and what a patch makes of a Node."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace

from sunk.kube.core import Condition, Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus
from sunk.kube.resource import Metadata, OwnerReference
from sunk.model import names
from sunk.model.contract import keptdrains
from sunk.model.nodeset import NODESET
from sunk.operator.node.plan import OURS, NodeChange, Ownership, body

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
EARLIER = datetime(2026, 5, 1, 11, tzinfo=UTC)
CLUSTER = keptdrains.cluster(namespace="team", name="slurm")
FOREIGN = Condition(type="Ready", status="True", reason="KubeletReady", last_transition_time=EARLIER)


def said(kind: str, status: str, reason: str = "", message: str = "", *, since: datetime = EARLIER) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=since)


def drained(reason: str = "bad fan") -> Condition:
    """As the syncer says it of a drain by a person."""
    return said(names.SLURM_DRAIN, "True", names.FROM_SLURM, reason)


def drained_by_us(reason: str = "k8s: cordon") -> Condition:
    return said(names.SLURM_DRAIN, "True", names.FROM_KUBERNETES, reason)


def undrained(*, since: datetime = EARLIER) -> Condition:
    return said(names.SLURM_DRAIN, "False", names.NOT_DRAINED, since=since)


def pod(*conditions: Condition, cluster: str = "slurm", namespace: str = "team", **annotations: str) -> Pod:
    owner = OwnerReference(api_version=NODESET.api_version, kind=NODESET.name, name="gpu", uid="set", controller=True)
    metadata = Metadata(
        name="gpu-0",
        namespace=namespace,
        uid="pod",
        labels={names.COMPONENT: names.COMPUTE, names.CLUSTER: cluster},
        annotations={f"{names.GROUP}/{name.replace('_', '-')}": text for name, text in annotations.items()},
        owner_references=(owner,),
    )
    return Pod(metadata=metadata, spec=PodSpec(node_name="n"), status=PodStatus(conditions=conditions))


def node(*conditions: Condition, unschedulable: bool = False, **annotations: str) -> Node:
    """A Node with a condition of the kubelet, and annotations by names that are written with a slash elsewhere."""
    metadata = Metadata(
        name="n",
        uid="node",
        resource_version="7",
        annotations={f"{names.GROUP}/{name.replace('_', '-')}": text for name, text in annotations.items()},
    )
    return Node(metadata=metadata, spec=NodeSpec(unschedulable), status=NodeStatus(conditions=(FOREIGN, *conditions)))


def annotated(one: Node, **annotations: str) -> Node:
    """With annotations under full names."""
    return replace(one, metadata=replace(one.metadata, annotations=one.metadata.annotations | annotations))


def member(one: Pod | None) -> Ownership:
    return Ownership(cluster=CLUSTER, pod=one)


def patched(one: Node, change: NodeChange) -> Node:
    """What the API server makes of it."""
    patch: dict[str, Any] = json.decode(json.encode(body(one, change)))
    metadata = replace(
        one.metadata,
        annotations=_merged(one.metadata.annotations, patch["metadata"].get("annotations", {})),
        labels=_merged(one.metadata.labels, patch["metadata"].get("labels", {})),
    )
    conditions = {each.type: each for each in one.status.conditions}
    for each in patch.get("status", {}).get("conditions", ()):
        if each.get("$patch") == "delete":
            conditions.pop(each["type"], None)
            continue
        since = each.get("lastTransitionTime")
        before = conditions.get(each["type"])
        kept_time = None if before is None else before.last_transition_time
        conditions[each["type"]] = Condition(
            type=each["type"],
            status=each["status"],
            reason=each["reason"],
            message=each["message"],
            last_transition_time=datetime.fromisoformat(since) if since else kept_time,
        )
    return replace(one, metadata=metadata, status=replace(one.status, conditions=tuple(conditions.values())))


def _merged(before: dict[str, str], change: dict[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in (before | change).items() if text is not None}


# Anything that can be there

_texts = st.sampled_from(("", "bad fan", "two\nlines", "a:b"))
_statuses = st.sampled_from(("True", "False", "Unknown"))
_times = st.sampled_from((EARLIER, NOW))


_whys = st.one_of(  # a text of ours always begins so
    st.tuples(st.sampled_from((names.FROM_SLURM, names.NOT_DRAINED)), _texts),
    st.tuples(st.just(names.FROM_KUBERNETES), st.sampled_from(("k8s: cordon", "k8s: pod not ready"))),
)


@st.composite
def conditions(draw: st.DrawFn, *kinds: str) -> tuple[Condition, ...]:
    chosen = draw(st.sets(st.sampled_from(kinds)))
    return tuple(said(kind, draw(_statuses), *draw(_whys), since=draw(_times)) for kind in sorted(chosen))


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    one = pod(*draw(conditions(*OURS)), cluster=draw(st.sampled_from(("slurm", "other"))))
    here = st.dictionaries(st.sampled_from((names.CORDON, names.KEPT_DRAIN, "foreign")), _texts)
    return replace(one, metadata=replace(one.metadata, annotations=draw(here)))


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    one = node(*draw(conditions(*OURS)), unschedulable=draw(st.booleans()))
    labels = st.dictionaries(st.sampled_from((names.NODESET, names.POD, "foreign")), st.just("x"))
    lines = st.lists(st.sampled_from((f"{CLUSTER}:bad fan", "team/other:disk", "no line")))
    here = draw(st.dictionaries(st.sampled_from((names.DRAIN, names.CORDON_REASON, names.CLAIM, "foreign")), _texts))
    metadata = replace(one.metadata, labels=draw(labels), annotations=here)
    return annotated(replace(one, metadata=metadata), **{names.KEPT_DRAIN: "\n".join(draw(lines))})
