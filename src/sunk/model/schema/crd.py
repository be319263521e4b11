"""From a kind to its CustomResourceDefinition, as plain data.

Paths of columns and of the scale subresource are looked up in the structs: the API server takes any, and shows nothing
where there is nothing.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from sunk.model.schema.defaults import of_empty
from sunk.model.schema.kind import Column, Kind, NoStatus, ScalePaths, Version
from sunk.model.schema.notes import rules_of
from sunk.model.schema.reading import read
from sunk.model.schema.shape import Object, Place, Property, Scalar, Shape, follow
from sunk.model.schema.structural import Schema, structural

_SIMPLE: Final = re.compile(r"(?:\.[A-Za-z0-9_-]+)+")


def definition(kind: Kind[Any, Any]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind; what the API server could not say is refused with its path."""
    versions = [_version(kind, kind.stored, storage=True)]
    versions += [_version(kind, other, storage=False) for other in kind.others]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": versions,
        },
    }


def _names(kind: Kind[Any, Any]) -> dict[str, Any]:
    names: dict[str, Any] = {"kind": kind.name, "listKind": f"{kind.name}List"}
    names |= {"plural": kind.plural, "singular": kind.singular or kind.name.lower()}
    several = {"shortNames": kind.short_names, "categories": kind.categories}
    return names | {word: list(chosen) for word, chosen in several.items() if chosen}


def _version(kind: Kind[Any, Any], version: Version[Any, Any], *, storage: bool) -> dict[str, Any]:
    root, at = _root(kind, version), Place(f"{kind.name} {version.name}")
    made: dict[str, Any] = {"name": version.name, "served": version.served, "storage": storage}
    if version.deprecated:
        made |= {"deprecated": True, "deprecationWarning": version.deprecated}
    if columns := [_column(column, root=root, at=at) for column in version.columns]:
        made["additionalPrinterColumns"] = columns
    if subresources := dict(_subresources(version, root=root, at=at)):
        made["subresources"] = subresources
    return made | {"schema": {"openAPIV3Schema": _schema(root, at=at)}}


def _root(kind: Kind[Any, Any], version: Version[Any, Any]) -> Object:
    spec = read(version.spec)
    # Where nothing in the spec is required it may be left out, and its defaults still have to hold.
    default = of_empty(version.spec, shape=spec)
    members = [Property(name="spec", shape=spec, required=default is UNSET, default=default)]
    if version.status is not NoStatus:
        members.append(Property(name="status", shape=_status(kind, version), required=False))
    return Object(members=tuple(members), description=kind.description, rules=rules_of(version.rules))


def _status(kind: Kind[Any, Any], version: Version[Any, Any]) -> Object:
    status = read(version.status)
    if not status.all_optional:
        required = next(member.name for member in status.members if member.required)
        at = Place(f"{kind.name} {version.name}.status.{required}")
        raise at.refuse("it is required", advice="give it a default: every object begins without a status")
    return status


def _schema(root: Object, *, at: Place) -> Schema:
    """The schema of the whole object. What every object has is checked by the API server without being told."""
    made = structural(root, at=at)
    common = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return made | {"properties": common | made["properties"]}


def _subresources(version: Version[Any, Any], *, root: Object, at: Place) -> Iterator[tuple[str, dict[str, str]]]:
    if version.status is not NoStatus:
        yield "status", {}
    if version.scale:
        yield "scale", _scale(version.scale, root=root, at=at)


def _scale(scale: ScalePaths, *, root: Object, at: Place) -> dict[str, str]:
    wanted = (
        ("specReplicasPath", scale.spec, "integer"),
        ("statusReplicasPath", scale.status, "integer"),
        ("labelSelectorPath", scale.selector, "string"),
    )
    for word, path, kind in wanted:
        if path and not _is_scalar(_lookup(path, root=root), kind=kind):
            advice = f"point {word} at a field of type {kind}"
            raise at.refuse(f"scale wants {kind} at {path}, which is not what lies there", advice=advice)
    return {word: path for word, path, _ in wanted if path}


def _is_scalar(shape: Shape | None, *, kind: str) -> bool:
    return isinstance(shape, Scalar) and shape.type == kind


def _column(column: Column, *, root: Object, at: Place) -> dict[str, Any]:
    if not column.path.startswith(".metadata.") and _lookup(column.path, root=root) is None:
        advice = "name a field of spec, status or metadata as it is written in JSON"
        raise at.refuse(f"the column {column.name} shows {column.path}, and nothing lies there", advice=advice)
    made: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        made["description"] = column.description
    return made | ({"priority": column.priority} if column.priority else {})


def _lookup(path: str, *, root: Object) -> Shape | None:
    """What lies at a path, as far as it is made of plain names: filters and indexes are left to the API server."""
    plain = _SIMPLE.match(path)
    return follow(root, tuple(plain.group().split(".")[1:])) if plain else None
