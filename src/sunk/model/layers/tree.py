"""A value that knows of each of its parts which layer it came from.

Layers are planted as trees, updated as trees, and only the last one is turned into a plain value and the origins of its
leaves: positions in lists are then final, and no rule has to keep a second record in step.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from sunk.model.refusal import Refusal

DEEPEST: Final = 64
"""Maps and lists within each other; no Pod comes near it, and what is read for people must not exhaust the stack."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions that lead to a part of a value."""


class Layer(Struct, frozen=True):
    """A name, and whether the chart brought what stands under it."""

    name: str
    shipped: bool = False

    def __str__(self) -> str:
        return f"{self.name} (shipped)" if self.shipped else self.name

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return f"compute-defs/{self.name}" if self.shipped else f"compute.nodes.{self.name}"


class ScalarNode(Struct, frozen=True):
    value: str | float | bool | None
    layer: Layer
    kind = "a single value"


class MapNode(Struct, frozen=True):
    parts: dict[str, "Part"]
    layer: Layer
    """The first that had it; likewise for lists."""
    kind = "a map"


class ListNode(Struct, frozen=True):
    parts: tuple["Part", ...]
    layer: Layer
    kind = "a list"


Part: TypeAlias = ScalarNode | MapNode | ListNode


def plant(value: object, *, layer: Layer, at: str, depth: int = 0) -> Part:
    """What a layer says, as a tree; refused if it is nothing that JSON could say."""
    if depth > DEEPEST:
        raise Refusal(f"{at}: maps and lists are nested more than {DEEPEST} levels deep. Flatten them.")
    if isinstance(value, Mapping):
        parts = {
            _key(key, at=at): plant(part, layer=layer, at=inside(at, str(key)), depth=depth + 1)
            for key, part in value.items()
        }
        return MapNode(parts, layer)
    if isinstance(value, list | tuple):
        if None in value:
            raise Refusal(f"{at} has an empty item in layer {layer}: remove it. Null removes keys, not items.")
        return ListNode(tuple(plant(part, layer=layer, at=f"{at}[]", depth=depth + 1) for part in value), layer)
    if value is None or isinstance(value, str | int | float):
        return ScalarNode(value, layer)
    raise Refusal(
        f"{at} is {type(value).__name__} {value} in layer {layer}, which JSON does not know: put it in quotes."
    )


def _key(key: object, *, at: str) -> str:
    if isinstance(key, str):
        return key
    raise Refusal(f"{at} has the key {key}, which is not text: put it in quotes.")


def inside(at: str, key: str) -> str:
    """The text of a path, one key further; a key that has dots itself is put in brackets."""
    return f'{at}["{key}"]' if "." in key or not key else f"{at}.{key}"


def spoken(path: Path) -> str:
    """A path for people: `env[0].value`."""
    text = ""
    for step in path:
        text = f"{text}[{step}]" if isinstance(step, int) else inside(text, step)
    return text.removeprefix(".")


def absent(part: Part | None) -> bool:
    """Whether there is nothing, or null."""
    return part is None or (isinstance(part, ScalarNode) and part.value is None)


def settled(part: Part) -> Part:
    """Without the keys that are null: there is nothing beneath that they could remove."""
    if isinstance(part, MapNode):
        return MapNode({key: settled(one) for key, one in part.parts.items() if not absent(one)}, part.layer)
    if isinstance(part, ListNode):
        return ListNode(tuple(settled(one) for one in part.parts), part.layer)
    return part


def plain(part: Part) -> Any:
    if isinstance(part, MapNode):
        return {key: plain(one) for key, one in part.parts.items()}
    if isinstance(part, ListNode):
        return [plain(one) for one in part.parts]
    return part.value


def same(one: Part, other: Part) -> bool:
    return written(one) == written(other)


def written(part: Part) -> bytes:
    """Equal for equal values, whatever the order of their keys. As Python compares, 1 would equal true."""
    return msgspec.json.encode(plain(part), order="sorted")


def origins(part: Part, path: Path = ()) -> Iterator[tuple[Path, Layer]]:
    """Every leaf, and the layer that it came from. An empty map or list is a leaf too."""
    if isinstance(part, ScalarNode) or not part.parts:
        yield path, part.layer
    elif isinstance(part, MapNode):
        for key, one in part.parts.items():
            yield from origins(one, (*path, key))
    else:
        for position, one in enumerate(part.parts):
            yield from origins(one, (*path, position))
