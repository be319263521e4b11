"""From a shape to a structural schema: OpenAPI v3 as the API server wants it in a CustomResourceDefinition.

What is particular about it:
- Unknown fields are dropped, or refused if the request asks for `fieldValidation=Strict` as kubectl does. A schema has
  no say in that: `additionalProperties: false` is forbidden.
- Null for a field that is not nullable is dropped before defaults are put in. So `X | None = None` needs no `nullable`,
  and must not have it, or null and absence would be two things.
- A choice cannot be null, whatever the schema says.
"""

from typing import Any, Final

from msgspec import UNSET

from sunk.model.schema.shape import Anything, IntOrStr, List, Map, Object, Place, Property, Scalar, Shape

Schema = dict[str, Any]

UNREAD: Final = "x-kubernetes-preserve-unknown-fields"


def structural(shape: Shape, *, at: Place) -> Schema:
    """The schema of a shape by itself: whether it may be null is for whoever holds it to say."""
    head: Schema = {"description": shape.description} if shape.description else {}
    words = {word: value for word, value in shape.words.items() if word != "examples"}
    return head | _body(shape, at=at) | words | _validations(shape)


def _body(shape: Shape, *, at: Place) -> Schema:
    match shape:
        case Scalar():
            return _scalar(shape)
        case IntOrStr():
            return {"x-kubernetes-int-or-string": True}
        case Anything():
            return _anything(shape)
        case List():
            return _list(shape, at=at)
        case Map():
            return _map(shape, at=at)
        case Object():
            return _object(shape, at=at)
    raise at.refuse(
        f"a shape of {type(shape).__name__} has no schema", advice="teach sunk.model.schema.structural about it"
    )


def _scalar(shape: Scalar) -> Schema:
    made: Schema = {"type": shape.type}
    if shape.choices:
        made["enum"] = list(shape.choices)
    # OpenAPI v3.0 keeps the bound itself and says beside it that it does not belong to the range.
    if shape.above is not None:
        made |= {"minimum": shape.above, "exclusiveMinimum": True}
    if shape.below is not None:
        made |= {"maximum": shape.below, "exclusiveMaximum": True}
    return made


def _anything(shape: Anything) -> Schema:
    made: Schema = {"type": "object"} if shape.only_objects else {}
    if shape.embedded:
        made["x-kubernetes-embedded-resource"] = True
    return made | {UNREAD: True}


def _list(shape: List, *, at: Place) -> Schema:
    made: Schema = {"type": "array"}
    if shape.list_type:
        made["x-kubernetes-list-type"] = shape.list_type
    if shape.keys:
        made["x-kubernetes-list-map-keys"] = list(shape.keys)
    return made | {"items": _held(shape.items, nullable=shape.items.nullable, at=at.into("[]"))}


def _map(shape: Map, *, at: Place) -> Schema:
    made = _object_type(atomic=shape.atomic)
    if shape.values == Anything(nullable=True):
        return made | {UNREAD: True}
    return made | {"additionalProperties": _held(shape.values, nullable=shape.values.nullable, at=at.into("{}"))}


def _object(shape: Object, *, at: Place) -> Schema:
    made = _object_type(atomic=shape.atomic)
    if shape.members:
        made["properties"] = {member.name: _member(member, at=at.into(f".{member.name}")) for member in shape.members}
    if required := [member.name for member in shape.members if member.required]:
        made["required"] = required
    return made


def _object_type(*, atomic: bool) -> Schema:
    return {"type": "object", "x-kubernetes-map-type": "atomic"} if atomic else {"type": "object"}


def _member(member: Property, *, at: Place) -> Schema:
    made = _held(member.shape, nullable=member.keeps_null, at=at)
    return made if member.default is UNSET else made | {"default": member.default}


def _held(shape: Shape, *, nullable: bool, at: Place) -> Schema:
    if nullable and isinstance(shape, Scalar) and shape.choices:
        advice = 'give it the default None, so that null means the same as leaving it out, or a choice such as "none"'
        raise at.refuse("the API server takes no null where there is a choice", advice=advice)
    return structural(shape, at=at) | ({"nullable": True} if nullable else {})


def _validations(shape: Shape) -> Schema:
    return {"x-kubernetes-validations": [dict(rule) for rule in shape.rules]} if shape.rules else {}
