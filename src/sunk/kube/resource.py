"""What a resource is: where it lives in the API, and the record its objects are read into.

A record names only the fields that are read. msgspec skips everything else without building it, so the cost of a
watch follows the fields declared and not the size of the objects. Records are frozen, hence safe to share between a
store and everybody who reads it; they hold tuples and no lists and are hidden from the cyclic collector (`gc=False`),
which otherwise walks through every cached object again and again.
"""

from datetime import datetime
from typing import Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct, field


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Record(Struct, frozen=True, gc=False, rename="camel"):
    """What every object has. By itself it reads the metadata of any object, whatever its spec looks like."""

    metadata: Metadata

    @property
    def key(self) -> "Key":
        return Key(self.metadata.namespace, self.metadata.name)


class Key(Struct, frozen=True, gc=False, order=True):
    """Namespace and name: what an object is called. Its uid says which of that name it is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


R = TypeVar("R", bound=Record)


class Resource(Struct, Generic[R], frozen=True):
    """One kind of object: `Resource(Pod, version="v1", plural="pods")`. An empty group is the core group."""

    record: type[R]
    version: str
    plural: str
    group: str = ""
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", *, subresource: str = "") -> str:
        """Build the path of an object, or of the whole collection if no name is given."""
        if namespace and not self.namespaced:
            raise ValueError(f'{self.plural} live in no namespace, found "{namespace}": leave it out')
        if name and self.namespaced and not namespace:
            raise ValueError(f'{self.plural} live in a namespace, none was given for "{name}": pass namespace=')
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        tail = "".join(f"/{quote(part, safe='')}" for part in (name, subresource) if part)
        return f"{root}{within}/{self.plural}{tail}"
