"""What stands beside a type in `Annotated`, put onto its shape; a note that means nothing there is refused."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET, Meta, structs

from sunk.model.schema.shape import Anything, List, Map, Object, Place, Property, Rules, Scalar, Shape

_RULES: Final = "x-kubernetes-validations"
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_NULL: Final = re.compile(r"\bnull\b")


def noted(shape: Shape, notes: Mapping[str, Any], *, at: Place) -> Shape:
    for note, value in notes.items():
        changed = _common(shape, note, value, at=at) or _special(shape, note, value, at=at)
        if changed is None:
            raise at.refuse(f'"{note}" means nothing here', advice="see sunk.model.schema.vocabulary for what does")
        shape = changed
    return shape


def _common(shape: Shape, note: str, value: Any, *, at: Place) -> Shape | None:
    match note:
        case "description":
            return structs.replace(shape, description=value)
        case "title" | "examples":
            return structs.replace(shape, words={**shape.words, note: value})
        case "x-or-null":
            return structs.replace(shape, or_null=True)
        case "x-kubernetes-validations":
            return structs.replace(shape, rules=shape.rules + accepted(tuple(value), at=at))
    return None


def _special(shape: Shape, note: str, value: Any, *, at: Place) -> Shape | None:
    match shape:
        case Scalar(type="string") if note == "format":
            return structs.replace(shape, words={**shape.words, note: value})
        case List():
            return _of_list(shape, note, value, at=at)
        case Map() | Object() if note == "x-atomic":
            return structs.replace(shape, atomic=True)
        case Anything() if note == "type":
            return structs.replace(shape, only_objects=True, nullable=False)
        case Anything() if note == "x-kubernetes-embedded-resource":
            return structs.replace(shape, embedded=True)
    return None


def _of_list(shape: List, note: str, value: Any, *, at: Place) -> List | None:
    match note, shape.items:
        case "x-atomic", _:
            return structs.replace(shape, list_type="atomic")
        case "x-or-empty", _:
            return structs.replace(shape, or_empty=True)
        case "x-kubernetes-list-type", Scalar():
            return structs.replace(shape, list_type=value)
        case "x-kubernetes-list-type", Object() if value == "map":
            return structs.replace(shape, list_type=value)
        case "x-kubernetes-list-map-keys", Object(members=members):
            return structs.replace(shape, keys=_usable(tuple(value), members, at=at))
    return None


def _usable(keys: tuple[str, ...], members: tuple[Property, ...], *, at: Place) -> tuple[str, ...]:
    usable = {member.name for member in members if member.required or member.default is not UNSET}
    if missing := [key for key in keys if key not in usable]:
        advice = (
            f"name fields that are required or have a default, of {', '.join(sorted(usable)) or 'which it has none'}"
        )
        raise at.refuse(f'the items have no key "{missing[0]}"', advice=advice)
    return keys


def rules_of(metas: Iterable[Meta]) -> Rules:
    return tuple(one for meta in metas for one in (meta.extra_json_schema or {}).get(_RULES, ()))


def accepted(rules: Rules, *, at: Place) -> Rules:
    """The rules, unless the API server would refuse a definition that has them."""
    if rules and at.unbounded:
        advice = f"give {at.unbounded} a max_length: the API server refuses rules whose cost it cannot tell beforehand"
        raise at.refuse('the rule "{}" may run any number of times'.format(rules[0]["rule"]), advice=advice)
    for rule in rules:
        if _NULL.search(_QUOTED.sub("", rule["rule"])):
            advice = "write has(self.field): to a rule a field that is null is absent, and no type compares with null"
            raise at.refuse('the rule "{}" compares with null'.format(rule["rule"]), advice=advice)
    return rules
