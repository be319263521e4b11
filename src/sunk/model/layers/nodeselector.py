"""`nodeSelector` of a definition: labels that Nodes must have, in two lines where node affinity takes eight.

It is turned into required node affinity before layers are put together. So there is one rule for both (a layer replaces
what those below ask of the same label, and leaves the rest), and whoever chooses Nodes knows affinity alone.
"""

from collections.abc import Mapping
from typing import Any, Final

from sunk.model.layers.tree import Layer, Part, plant
from sunk.model.refusal import Refusal

SELECTOR: Final = "nodeSelector"


def as_affinity(selector: object, *, layer: Layer) -> Part | None:
    """What a layer asks for by its `nodeSelector`; none if by that it asks for nothing."""
    if not selector:
        return None
    at = f"{layer.place}.{SELECTOR}"
    if not isinstance(selector, Mapping):
        raise Refusal(f"{at} is not a map: write Node labels and their values, such as gpu.nvidia.com/model: H100.")
    terms = [{"matchExpressions": [_expression(key, value, at=at) for key, value in selector.items()]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return plant({"affinity": {"nodeAffinity": required}}, layer=layer, at=at)


def _expression(key: object, value: object, *, at: str) -> dict[str, Any]:
    """An operator that is null takes away what layers below ask of a label."""
    if value is None:
        return {"key": key, "operator": None}
    if not isinstance(value, str):
        raise Refusal(f"{at}: the value {value} of label {key} is not text: put it in quotes.")
    return {"key": key, "operator": "In", "values": [value]}
