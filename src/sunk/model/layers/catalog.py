"""Where layers are found.

A layer is a key of `compute.nodes`, enabled or not, or one that the chart ships. A key of the user's shadows a shipped
layer of the same name, so that whoever wants another `h100` writes one, and every definition that names it gets it.
Two names are looked for elsewhere:

- In the user's key `h100` itself the name `h100` means the shipped layer: what else could it mean? So a shipped layer
  is extended under its own name.
- Shipped layers name shipped layers only. A user who calls a definition `b200` does not change what the chart's
  `b200-8x` is made of.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from msgspec import Struct

from sunk.model.layers.tree import Layer
from sunk.model.refusal import Refusal

_UNLIKE: Final = 0.6


class LayerCatalog(Struct, frozen=True):
    """All layers there are, as they were parsed."""

    nodes: Mapping[str, object]
    shipped: Mapping[str, object]

    def find(self, name: str) -> Layer | None:
        """The layer that this name means in a definition of the user's."""
        if name in self.nodes:
            return Layer(name)
        return Layer(name, shipped=True) if name in self.shipped else None

    def named(self, name: str, *, by: Layer, at: str) -> Layer:
        """The layer that `by` means by this name."""
        inward = by.shipped or (name == by.name and name in self.shipped)
        found = LayerCatalog(nodes={}, shipped=self.shipped).find(name) if inward else self.find(name)
        if found is None:
            raise Refusal(f"{at}: no layer {name}. {self._meant(name)}")
        return found

    def values(self, layer: Layer) -> Mapping[str, object]:
        """What stands in it."""
        values = (self.shipped if layer.shipped else self.nodes)[layer.name]
        if isinstance(values, Mapping):
            return values
        found = "nothing" if values is None else type(values).__name__
        raise Refusal(f"{layer.place}: a layer must be a map of values, found {found}. Write {{}} for an empty one.")

    def definitions(self, layer: Layer) -> tuple[Layer, ...] | None:
        """The layers that it is built on; none if it does without layers, which is not the same as an empty list."""
        at = f"{layer.place}.definitions"
        names = self.values(layer).get("definitions")
        if names is None:
            return None
        if not isinstance(names, list | tuple):
            raise Refusal(f"{at} must be a list of layer names, found {names!r}.")
        return tuple(self.named(_text(one, at=f"{at}[{i}]"), by=layer, at=f"{at}[{i}]") for i, one in enumerate(names))

    def _meant(self, name: str) -> str:
        known = {each.lower(): each for each in (*self.shipped, *self.nodes)}
        if close := get_close_matches(name.lower(), known, n=3, cutoff=_UNLIKE):
            return f"Did you mean {' or '.join(known[one] for one in close)}?"
        return "Layers are the keys of compute.nodes and of the chart's compute-defs."


def _text(name: object, *, at: str) -> str:
    if isinstance(name, str):
        return name
    raise Refusal(f"{at}: a layer name must be text, found {name!r}. Put the content of a layer next to definitions.")


def gather(files: Mapping[str, object]) -> dict[str, object]:
    """The layers of parsed files, by the names of the files. None may stand in two: one would be lost."""
    layers: dict[str, object] = {}
    homes: dict[str, str] = {}
    for file, content in files.items():
        if not isinstance(content, Mapping):
            raise Refusal(f"{file}: a file of layers must be a map of names to values, found {type(content).__name__}.")
        for name, values in content.items():
            if name in homes:
                raise Refusal(f"layer {name} is defined in {homes[name]} and in {file}. Remove one of them.")
            homes[name] = file
            layers[name] = values
    return layers
