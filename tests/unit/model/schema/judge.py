"""JSON Schema draft 7, as far as we write it. A second opinion on our schemas, by the letter of the standard."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]


def fits(value: Any, schema: Schema) -> bool:
    return _typed(value, schema.get("type", list(_TYPES))) and _chosen(value, schema) and _inside(value, schema)


def _chosen(value: Any, schema: Schema) -> bool:
    return any(value == one and type(value) is type(one) for one in schema.get("enum", [value]))


def _inside(value: Any, schema: Schema) -> bool:
    match value:
        case dict():
            return _object(value, schema)
        case list():
            return _list(value, schema)
        case str():
            return _holds(len(value), schema, "minLength", "maxLength") and _matches(value, schema)
        case int() | float() if not isinstance(value, bool):
            return _number(value, schema)
    return True


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _typed(value: Any, wanted: str | list[str]) -> bool:
    return any(_TYPES[one](value) for one in ([wanted] if isinstance(wanted, str) else wanted))


def _holds(value: float, schema: Schema, least: str, most: str) -> bool:
    return bool(schema.get(least, value) <= value <= schema.get(most, value))


def _matches(value: str, schema: Schema) -> bool:
    # Only here `$` has to be spelt as Python means it.
    return re.search(schema.get("pattern", "").replace("$", r"\Z"), value) is not None


def _number(value: float, schema: Schema) -> bool:
    above = "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"]
    below = "exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"]
    return (
        above
        and below
        and _holds(value, schema, "minimum", "maximum")
        and value % schema.get("multipleOf", value or 1) == 0
    )


def _list(value: list[Any], schema: Schema) -> bool:
    unique = not schema.get("uniqueItems") or len(set(map(repr, value))) == len(value)
    return (
        unique
        and _holds(len(value), schema, "minItems", "maxItems")
        and all(fits(item, schema.get("items", {})) for item in value)
    )


def _object(value: dict[str, Any], schema: Schema) -> bool:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    if not set(schema.get("required", ())) <= set(value) or (others is False and not set(value) <= set(known)):
        return False
    size = _holds(len(value), schema, "minProperties", "maxProperties")
    return size and all(fits(item, known.get(name, others)) for name, item in value.items())
