"""Custom resources for the kit, out of their declaration in `sunk.model`."""

from typing import Generic, TypeVar

from msgspec import Struct

from sunk.kube.resource import Record, Resource
from sunk.model.schema.kind import Kind, record

Spec = TypeVar("Spec", bound=Struct)
Status = TypeVar("Status", bound=Struct)


class Custom(Record, Generic[Spec, Status], frozen=True, gc=False, rename="camel", kw_only=True):
    """What a custom resource looks like to whoever reads one."""

    spec: Spec
    status: Status


def resource(kind: Kind[Spec, Status]) -> Resource[Custom[Spec, Status]]:
    """The resource of a kind, whose records have its very types for spec and status."""
    return Resource(
        record(kind, base=Custom[Spec, Status]),
        version=kind.stored.name,
        plural=kind.plural,
        group=kind.group,
        namespaced=kind.namespaced,
    )
