"""A custom resource, declared once.

```python
GANG = Kind(
    "Gang",
    group="sunk.coreweave.com",
    plural="gangs",
    description="Pods that start together or not at all.",
    stored=Version(
        "v1alpha1",
        spec=GangSpec,
        status=GangStatus,
        scale=Scale(),
        columns=(Column("Ready", ".status.ready", type="integer"), AGE),
    ),
)
```

`sunk.model.schema.crd` writes the CustomResourceDefinition from it, and `record` the class that objects are read into.
"""

from typing import Any, Final, Generic, Literal, TypeVar, cast, get_origin

from msgspec import Meta, Struct, defstruct, inspect

Spec = TypeVar("Spec", bound=Struct)
Status = TypeVar("Status", bound=Struct)
Base = TypeVar("Base", bound=Struct)


class Column(Struct, frozen=True):
    """A column of `kubectl get`; one with a priority above 0 shows only with `-o wide`."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    description: str = ""
    priority: int = 0


AGE: Final = Column("Age", ".metadata.creationTimestamp", type="date")


class ScalePaths(Struct, frozen=True):
    """Where `kubectl scale` and autoscalers find their numbers; a selector only if autoscalers shall find Pods."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ""


class NoStatus(Struct, frozen=True, gc=False):
    """The status of a kind that has none."""


class Version(Struct, Generic[Spec, Status], frozen=True):
    """One way to write objects of a kind. `rules` are about the whole object, whose `metadata.name` they may read."""

    name: str
    spec: type[Spec]
    status: type[Status]
    scale: ScalePaths | None = None
    columns: tuple[Column, ...] = (AGE,)
    rules: tuple[Meta, ...] = ()
    served: bool = True
    deprecated: str = ""
    """Why it should no longer be used: shown to whoever still does."""


class Kind(Struct, Generic[Spec, Status], frozen=True):
    """One kind of object. `stored` is the version that objects are kept in, `others` are understood as well."""

    name: str
    group: str
    plural: str
    description: str
    stored: Version[Spec, Status]
    others: tuple[Version[Any, Any], ...] = ()
    singular: str = ""
    """What one is called on the command line; the name in small letters if not given."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.stored.name}"


def record(kind: Kind[Spec, Status], *, base: type[Base]) -> type[Base]:
    """The class that objects of the kind are read into: the base, which brings the metadata, with spec and status.

    A struct all of whose fields have defaults may be missing in the object, as it may be for the API server; the
    status may always be missing, since every object begins without.
    """
    parts = {"spec": kind.stored.spec, "status": kind.stored.status}
    fields = [(name, part, part()) if _all_optional(part) else (name, part) for name, part in parts.items()]
    origin: Any = get_origin(base) or base
    made = defstruct(kind.name, fields, bases=(origin,), frozen=True, gc=False, rename="camel", kw_only=True)
    return cast("type[Base]", made)


def _all_optional(part: type[Struct]) -> bool:
    found = inspect.type_info(part)
    return isinstance(found, inspect.StructType) and not any(field.required for field in found.fields)
