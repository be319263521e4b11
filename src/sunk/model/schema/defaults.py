"""Defaults in the form that the API server applies them.

It fills an object from outside in: where a field is missing it puts the default, and then goes on inside what it has
put. So a default only has to say where it differs from the defaults of its own members, and most are `{}`. Rules are
the exception: when the definition is created they are held against the default as it is written there, so what a rule
can see has to stand in it.
"""

from typing import Any

from msgspec import UNSET, Struct, json

from sunk.model.schema.shape import List, Map, Object, Property, Shape


def json_form(value: Any) -> Any:
    """The value as JSON holds it; sets come in a fixed order."""
    return json.decode(json.encode(value, order="deterministic"))


def of_empty(kind: type[Struct], *, shape: Object) -> Any:
    """What an object is if nothing is said about it; `UNSET` where something has to be."""
    return written(json_form(kind()), shape=shape) if shape.all_optional else UNSET


def written(form: Any, *, shape: Shape, whole: bool = False) -> Any:
    """The form as a default of that shape; `whole` if a rule around it sees all of it."""
    whole = whole or bool(shape.rules)
    match shape:
        case Object(members=members) if isinstance(form, dict):
            return dict(pair for member in members for pair in _kept(member, form.get(member.name, UNSET), whole=whole))
        case List(items=items) if isinstance(form, list):
            return [written(item, shape=items, whole=whole) for item in form]
        case Map(values=values) if isinstance(form, dict):
            return {name: written(value, shape=values, whole=whole) for name, value in form.items()}
    return form


def _kept(member: Property, form: Any, *, whole: bool) -> list[tuple[str, Any]]:
    """The member's name and value if it has to be said, else nothing."""
    if form is UNSET:  # a struct with omit_defaults does not even write them
        form = member.default if whole else UNSET
    if form is UNSET or (form is None and member.null_is_absence):
        return []
    value = written(form, shape=member.shape, whole=whole)
    same = member.default is not UNSET and json.encode(value) == json.encode(member.default)
    return [] if same and not whole else [(member.name, value)]
