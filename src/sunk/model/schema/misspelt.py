"""Keys that nothing reads.

A schema refuses them, and so does Helm. msgspec passes them over, so whoever reads values without Helm asks here first.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from msgspec import Struct

from sunk.model.schema.reading import read
from sunk.model.schema.shape import List, Map, Object, Shape

_ALIKE: Final = 0.7
"""How much two words must have in common for one to be a misspelt other: subPath is not what mountPath was to be."""
_FEW: Final = 8
"""So many values can be told apart by a sentence each."""


def misspelt(value: Any, kind: type[Struct]) -> tuple[str, ...]:
    """The keys that the struct does not have, each in a sentence with its path."""
    return tuple(_strange(value, read(kind), path=""))


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
    told = {name: each.description for name, each in known.items()}
    for key, each in value.items():
        place = f"{path}.{key}"
        if key in known:
            yield from _strange(each, known[key], path=place)
        else:
            yield f"{place.removeprefix('.')}: no such value. {_meant(str(key), told)}"


def _meant(key: str, known: Mapping[str, str]) -> str:
    """What it may have been to be. `known` has the description of each value."""
    names = {each.lower(): each for each in known}
    if close := get_close_matches(key.lower(), names, n=1, cutoff=_ALIKE):
        return f"Did you mean {names[close[0]]}?"
    few = len(known) <= _FEW
    return f"Known: {', '.join(_described(name, known[name] if few else '') for name in sorted(known))}."


def _described(name: str, told: str) -> str:
    return f"{name} ({told.partition('. ')[0].rstrip('.')})" if told else name
