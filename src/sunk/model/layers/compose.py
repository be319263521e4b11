"""Composes a definition of the layers that it names.

What a definition says about itself is not handed on when it serves as a layer: `enabled` (a disabled entry is the usual
layer), `definitions` (they have been applied) and `podNamePrefix` (nodes of two definitions must not be called alike).
Everything else is, `replicas` too. A layer may well say "two of these"; were that passed over, the definition would
take every Node that fits.
"""

from collections.abc import Iterator, Mapping, Set as AbstractSet
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from sunk.model.layers.catalog import LayerCatalog
from sunk.model.layers.nodeselector import SELECTOR, as_affinity
from sunk.model.layers.tree import Layer, MapNode, Part, Path, origins, plain, plant
from sunk.model.layers.update import update
from sunk.model.refusal import Refusal

BASE: Final = "base"
"""The layer beneath every definition that uses `definitions`, and only those."""
OWN: Final = frozenset({"enabled", "definitions", "podNamePrefix"})
"""What a definition says about itself alone."""
MOST_LAYERS: Final = 1000
"""Layers of layers double with every storey; a few dozen entries could keep a process busy for ever."""
LONGEST_CHAIN: Final = 64


class Composed(Struct, frozen=True):
    """A definition with everything that its layers give it."""

    name: str
    value: dict[str, Any]
    """Without `definitions`, and without any null."""
    origins: dict[Path, Layer]
    """Of each leaf of the value the layer that it came from: of a scalar the last that set it, of a list's item the
    first that had it. An empty map or list is a leaf."""
    layers: tuple[Layer, ...]
    """All that were applied, from the bottom up; the last is the definition itself."""


def compose(name: str, *, nodes: Mapping[str, object], shipped: Mapping[str, object]) -> Composed:
    """The definition `name` of `nodes`, which is what stands under compute.nodes; `shipped` is what the chart brings."""
    shelf = LayerCatalog(nodes=nodes, shipped=shipped)
    definition = Layer(name)
    if name not in nodes:
        raise Refusal(f"compute.nodes has no definition {name}.")
    layers = tuple(islice(_stack(definition, shelf=shelf), MOST_LAYERS + 1))
    if len(layers) > MOST_LAYERS:
        raise Refusal(f"{definition.place}: it has more than {MOST_LAYERS} layers. Use fewer.")
    made: Part = MapNode({}, definition)
    for layer in layers:
        passed_over = {SELECTOR} | (OWN if layer != definition else {"definitions"})
        made = update(made, _values(layer, shelf=shelf, without=passed_over), at=definition.place) or made
        if wanted := as_affinity(shelf.values(layer).get(SELECTOR), layer=layer):
            made = update(made, wanted, at=definition.place) or made
    return Composed(name, value=plain(made), origins=dict(origins(made)), layers=layers)


def _values(layer: Layer, *, shelf: LayerCatalog, without: AbstractSet[str]) -> Part:
    values = {key: value for key, value in shelf.values(layer).items() if key not in without}
    return plant(values, layer=layer, at=layer.place)


def _stack(definition: Layer, *, shelf: LayerCatalog) -> Iterator[Layer]:
    """The layers of a definition, from the bottom up."""
    base = shelf.find(BASE)
    if base is not None and base != definition and shelf.definitions(definition) is not None:
        yield from _storeys(base, shelf=shelf, chain=(definition,))
    yield from _storeys(definition, shelf=shelf, chain=())


def _storeys(layer: Layer, *, shelf: LayerCatalog, chain: tuple[Layer, ...]) -> Iterator[Layer]:
    """A layer, and before it those that it is built on."""
    if layer in chain or len(chain) > LONGEST_CHAIN:
        raise Refusal(_endless((*chain, layer)))
    for below in shelf.definitions(layer) or ():
        yield from _storeys(below, shelf=shelf, chain=(*chain, layer))
    yield layer


def _endless(chain: tuple[Layer, ...]) -> str:
    at, told = f"{chain[0].place}.definitions", " → ".join(str(layer) for layer in chain)
    if chain[-1] in chain[:-1]:
        return f"{at}: {told} is a cycle. A layer cannot build on itself: remove one of these names."
    return f"{at}: more than {LONGEST_CHAIN} layers build on each other, {told}. Use fewer."
