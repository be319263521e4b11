"""NodeSets and what belongs to them: NodeSlices, ControllerRevisions, and the Nodes that they claim."""

from functools import lru_cache
from typing import Final

from msgspec import Raw

from sunk.kube.core import Node
from sunk.kube.custom import Custom, resource
from sunk.kube.resource import Record, Resource
from sunk.model import names
from sunk.model.nodeset import NODESET, NodeSetSpec, NodeSetStatus
from sunk.model.nodeslice import NODESLICE, NodeSliceSpec, NodeSliceStatus

NodeSet = Custom[NodeSetSpec, NodeSetStatus]
NodeSlice = Custom[NodeSliceSpec, NodeSliceStatus]


class ControllerRevision(Record, frozen=True, gc=False, rename="camel"):
    """A template that was in use once; `data` is not looked into."""

    revision: int = 0
    data: Raw = Raw(b"{}")


NODESETS: Final = resource(NODESET)
NODESLICES: Final = resource(NODESLICE)
_OURS: Final = f"{names.GROUP}/"
REVISIONS: Final = Resource(ControllerRevision, group="apps", version="v1", plural="controllerrevisions")


def slice_name(node_set: str, number: int) -> str:
    return f"{node_set}-{number}"


def number_of(one: NodeSlice) -> int | None:
    """The place of a slice in the order, by its name; none if it is called otherwise, so somebody else made it."""
    return _number(one.metadata.name, one.spec.node_set)


@lru_cache(maxsize=1 << 14)  # asked of every slice at every look
def _number(name: str, node_set: str) -> int | None:
    digits = name.rpartition("-")[2]
    found = digits.isdecimal() and name == slice_name(node_set, int(digits))
    return int(digits) if found else None


def owned_by(owner: NodeSet) -> dict[str, object]:
    """The reference that makes an object one of this NodeSet's."""
    return {
        "apiVersion": NODESET.api_version,
        "kind": NODESET.name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_uid(record: Record) -> str:
    """The uid of the NodeSet that controls an object; empty if none does."""
    for reference in record.metadata.owner_references:
        if reference.controller and reference.kind == NODESET.name and reference.api_version.startswith(_OURS):
            return reference.uid
    return ""


def by_owner(record: Record) -> tuple[str, ...]:
    """Index of what NodeSets control; a NodeSet finds its own under `index_value`."""
    uid = owner_uid(record)
    return (f"{record.metadata.namespace}/{uid}",) if uid else ()


def index_value(owner: NodeSet) -> str:
    """Where a NodeSet finds its own in the index `by_owner`.

    The uid alone would not do: whoever may create an object may write any uid into its ownerReferences, and an owner is
    always in the namespace of what it owns.
    """
    return f"{owner.metadata.namespace}/{owner.metadata.uid}"


def ours(owner: NodeSet) -> dict[str, str]:
    """The labels that everything of a NodeSet carries."""
    found = {names.MANAGED_BY: "sunk", names.NODESET: owner.metadata.name}
    return found | ({names.CLUSTER: owner.spec.cluster} if owner.spec.cluster else {})


# Nodes that a NodeSet claims


CLAIM_LABELS: Final = (names.NODESET, names.NAMESPACE, names.CLUSTER, names.POD)
"""Beside the claim, for people and selectors."""


def claim_of(node: Node) -> str:
    return node.metadata.annotations.get(names.CLAIM, "")


def marked_by(node: Node) -> str:
    """Whose marks a Node carries: the uid that claims it, or else the labels' NodeSet as a key; empty if nobody's."""
    label = node.metadata.labels.get
    return claim_of(node) or (f"{label(names.NAMESPACE, '')}/{label(names.NODESET)}" if label(names.NODESET) else "")


def claimed_for(node: Node, owner: NodeSet, name: str) -> bool:
    """The claim is there, and the labels beside it say what is true."""
    if claim_of(node) != owner.metadata.uid:
        return False
    label, at = node.metadata.labels.get, owner.metadata  # written out, since it is asked of every member at every look
    return (
        label(names.POD) == name
        and label(names.NODESET) == at.name
        and label(names.NAMESPACE) == at.namespace
        and label(names.CLUSTER, "") == owner.spec.cluster
    )
