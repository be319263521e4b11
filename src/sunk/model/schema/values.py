"""From a struct to the JSON Schema of a Helm chart's values, which refuses what the API server would only drop.

Draft 7 is what every Helm 3 reads. Rules in CEL have no counterpart and are left to the API server.
"""

from typing import Any, Final

from msgspec import UNSET, Struct

from sunk.model.schema.reading import read
from sunk.model.schema.shape import Anything, IntOrStr, List, Map, Object, Property, Scalar, Shape

Schema = dict[str, Any]

DRAFT: Final = "http://json-schema.org/draft-07/schema#"

_OF_HELM: Final = {"global": {"description": "Values shared by a parent chart; Helm adds them.", "type": "object"}}


def values_schema(kind: type[Struct], *, title: str) -> Schema:
    """The schema of a values.yaml whose root is this struct."""
    root = _schema(read(kind))
    root["properties"] = root.get("properties", {}) | _OF_HELM
    return {"$schema": DRAFT, "title": title} | root


def _schema(shape: Shape) -> Schema:
    head: Schema = {"description": shape.description} if shape.description else {}
    types = _types(shape)
    if (shape.nullable or shape.or_null) and types:
        types.append("null")
    typed: Schema = {"type": types[0] if len(types) == 1 else types} if types else {}
    return head | typed | _inside(shape) | dict(shape.words)


def _types(shape: Shape) -> list[str]:
    match shape:
        case Scalar(type=kind):
            return [kind]
        case IntOrStr():
            return ["integer", "string"]
        case List(or_empty=or_empty):
            return ["array", "string"] if or_empty else ["array"]
        case Map() | Object() | Anything(only_objects=True):
            return ["object"]
    return []


def _inside(shape: Shape) -> Schema:
    match shape:
        case Scalar():
            return _scalar(shape)
        case List(items=items, list_type=list_type, or_empty=or_empty):
            unique: Schema = {"uniqueItems": True} if list_type == "set" else {}
            return {"items": _schema(items)} | unique | ({"maxLength": 0} if or_empty else {})
        case Map(values=values):
            return {"additionalProperties": _schema(values)}
        case Object():
            return _object(shape)
    return {}


def _scalar(shape: Scalar) -> Schema:
    made: Schema = {}
    if shape.choices:
        made["enum"] = [*shape.choices, None] if shape.nullable or shape.or_null else list(shape.choices)
    if shape.above is not None:
        made["exclusiveMinimum"] = shape.above
    if shape.below is not None:
        made["exclusiveMaximum"] = shape.below
    return made


def _object(shape: Object) -> Schema:
    made: Schema = {"properties": {member.name: _member(member) for member in shape.members}}
    if required := [member.name for member in shape.members if member.required]:
        made["required"] = required
    return made | {"additionalProperties": False}


def _member(member: Property) -> Schema:
    made = _schema(member.shape)
    return made if member.default is UNSET else made | {"default": member.default}
