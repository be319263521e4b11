"""What a member's lock is, for which jobs, and since when.

The Node is asked, or the Pod if whoever looks may not read Nodes: it carries a copy. No field says since when a lock is
what it is, but the API server notes who wrote the annotation last, and when (`managedFields`).
"""

from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, field

from sunk.kube.core import Node, Pod
from sunk.kube.resource import Metadata, Resource
from sunk.model import names
from sunk.model.contract import lock
from sunk.model.contract.lock import LockAnswer, LockRequest

SHOWN_JOBS: Final = 5


class _Annotations(Struct, frozen=True, gc=False):
    lock: dict[str, Any] | UnsetType = field(name=f"f:{names.LOCK}", default=UNSET)


class _Metadata(Struct, frozen=True, gc=False):
    annotations: _Annotations = field(name="f:annotations", default=_Annotations())


class _Fields(Struct, frozen=True, gc=False):
    metadata: _Metadata = field(name="f:metadata", default=_Metadata())


class _Write(Struct, frozen=True, gc=False):
    """The fields that one writer has set, and when it last changed one of them."""

    time: datetime | None = None
    fields: _Fields = field(name="fieldsV1", default=_Fields())


class DatedMetadata(Metadata, frozen=True, gc=False, rename="camel"):
    managed_fields: tuple[_Write, ...] = ()


class DatedNode(Node, frozen=True, gc=False, rename="camel"):
    metadata: DatedMetadata = DatedMetadata()


DATED_NODES: Final = Resource(DatedNode, version="v1", plural="nodes", namespaced=False)


def lock_written(node: DatedNode) -> datetime | None:
    """When the lock of a Node last changed; None if it has none, or the API server does not say."""
    if names.LOCK not in node.metadata.annotations:
        return None
    writes = (one for one in node.metadata.managed_fields if one.fields.metadata.annotations.lock is not UNSET)
    return max((one.time for one in writes if one.time is not None), default=None)


class LockView(Struct, frozen=True):
    """Both halves of the contract as people see them. What cannot be read is None."""

    answer: LockAnswer | None
    request: LockRequest | None
    tainted: bool | None = None
    """None if the Node could not be read."""

    @property
    def locked(self) -> bool:
        return self.answer is not None and self.answer.state in lock.HELD

    @property
    def pending(self) -> bool:
        return self.answer is not None and self.answer.state == lock.PENDING


def lock_of(node: Node | None, pod: Pod | None) -> LockView:
    asked = {} if pod is None else pod.metadata.annotations
    shown = asked if node is None else node.metadata.annotations
    tainted = None if node is None else any(taint.key == names.LOCK for taint in node.spec.taints)
    return LockView(lock.answer(shown), lock.read(asked.get(names.LOCK_REQUEST)), tainted)


def jobs(request: LockRequest | None) -> str:
    """The jobs that a request names, in words; empty if it names none."""
    ids = sorted(request.job_ids) if request else []
    if not ids:
        return ""
    more = len(ids) - SHOWN_JOBS
    listed = ", ".join(map(str, ids[:SHOWN_JOBS])) + (f" and {more} more" if more > 0 else "")
    return f"job{'s' if len(ids) > 1 else ''} {listed}"
