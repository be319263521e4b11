"""What a struct looks like from outside: the tree that both kinds of schema are written from.

msgspec's types can say more than a structural schema can (tagged unions, tuples of fixed length, recursion), and the
API server can say less than JSON Schema. A shape holds what all of them can say; `sunk.model.schema.reading` makes one from a
struct and refuses the rest.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from sunk.model.refusal import Refusal

EMPTY: Final[Mapping[str, Any]] = {}

Rules = tuple[Mapping[str, Any], ...]


class Inexpressible(Refusal):
    """A type or a rule that the API server has no words for."""


class Place(Struct, frozen=True):
    """Where in a struct one is: what an error names."""

    path: str
    within: tuple[type, ...] = ()
    """The structs around it, outermost first: one that comes up again has no end."""
    unbounded: str = ""
    """The path of a list or map around it that may grow without limit."""

    def into(self, step: str) -> "Place":
        return Place(self.path + step, within=self.within, unbounded=self.unbounded)

    def inside(self, kind: type) -> "Place":
        return Place(self.path, within=(*self.within, kind), unbounded=self.unbounded)

    def repeated(self, step: str, *, bounded: bool) -> "Place":
        unbounded = self.unbounded or ("" if bounded else self.path)
        return Place(self.path + step, within=self.within, unbounded=unbounded)

    def refuse(self, found: str, *, advice: str) -> Inexpressible:
        return Inexpressible(f"{self.path}: {found}: {advice}.")


class Shape(Struct, frozen=True, kw_only=True):
    """What all of them have."""

    description: str = ""
    nullable: bool = False
    """Whether null is a value of the type."""
    or_null: bool = False
    """Whether null may stand in values, though it is none."""
    rules: Rules = ()
    words: Mapping[str, Any] = EMPTY
    """Bounds and other words that mean the same in every schema."""


class Scalar(Shape, frozen=True, kw_only=True):
    """A string, number or truth value. `above` and `below` are bounds that do not belong to the range."""

    type: Literal["string", "integer", "number", "boolean"]
    choices: tuple[str | int, ...] = ()
    above: float | None = None
    below: float | None = None


class IntOrStr(Shape, frozen=True, kw_only=True):
    """The one union that Kubernetes has a word for. The bounds of both lie in `words`: they never meet."""


class Anything(Shape, frozen=True, kw_only=True):
    """JSON that passes through unread."""

    only_objects: bool = False
    embedded: bool = False


class List(Shape, frozen=True, kw_only=True):
    """A sequence, a set, or a list whose items have keys."""

    items: Shape
    or_empty: bool = False
    """Whether an empty text may stand in values instead."""
    list_type: Literal["", "atomic", "set", "map"] = ""
    keys: tuple[str, ...] = ()


class Map(Shape, frozen=True, kw_only=True):
    """Names that are data, all with the same kind of value."""

    values: Shape
    atomic: bool = False


class Property(Struct, frozen=True, kw_only=True):
    """A field of an object, by the name it has in JSON."""

    name: str
    shape: Shape
    required: bool
    default: Any | UnsetType = UNSET
    """In the form that `sunk.model.schema.defaults` gives it."""
    null_is_absence: bool = False

    @property
    def keeps_null(self) -> bool:
        return self.shape.nullable and not self.null_is_absence


class Object(Shape, frozen=True, kw_only=True):
    """A struct."""

    members: tuple[Property, ...]
    atomic: bool = False

    @property
    def all_optional(self) -> bool:
        return not any(member.required for member in self.members)


def follow(shape: Shape, names: tuple[str, ...]) -> Shape | None:
    """What lies at a path of names; `None` if nothing does."""
    for name in names:
        match shape:
            case Object(members=members):
                found = next((member.shape for member in members if member.name == name), None)
            case Map(values=values):
                found = values
            case Anything():
                return shape
            case _:
                found = None
        if found is None:
            return None
        shape = found
    return shape
