"""The resources that the NodeSet controller reads and writes beside Kubernetes' own."""

from typing import Final

from msgspec import Raw

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
