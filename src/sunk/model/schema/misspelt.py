"""Keys that nothing reads.

A schema refuses them, and so does Helm. msgspec passes them over, so whoever reads values without Helm asks here first.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from sunk.model.schema.reading import read
from sunk.model.schema.shape import List, Map, Object, Shape


def misspelt(value: Any, kind: type[Struct]) -> str:
    """The first key that the struct does not have, in a sentence with its path; empty if there is none."""
    return next(_strange(value, read(kind), path=""), "")


def _strange(value: Any, shape: Shape, *, path: str) -> Iterator[str]:
    match shape:
        case Object() if isinstance(value, Mapping):
            yield from _of_object(value, shape, path=path)
        case Map(values=inner) if isinstance(value, Mapping):
            for key, each in value.items():
                yield from _strange(each, inner, path=f"{path}.{key}")
        case List(items=inner) if isinstance(value, list):
            for position, each in enumerate(value):
                yield from _strange(each, inner, path=f"{path}[{position}]")


def _of_object(value: Mapping[Any, Any], shape: Object, *, path: str) -> Iterator[str]:
    known = {member.name: member.shape for member in shape.members}
    for key, each in value.items():
        place = f"{path}.{key}"
        if key in known:
            yield from _strange(each, known[key], path=place)
        else:
            yield f"{place.removeprefix('.')}: there is no such value. {_meant(str(key), known)}"


def _meant(key: str, known: Mapping[str, object]) -> str:
    names = {each.lower(): each for each in known}
    if close := get_close_matches(key.lower(), names, n=1):
        return f"Did you mean {names[close[0]]}?"
    return f"There are {', '.join(sorted(known))}."
