"""Layers for tests: those of the chart, and definitions composed of whatever a test wants."""

from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from sunk.model.kubernetes.selection import NodeSelector
from sunk.model.layers.catalog import gather
from sunk.model.layers.compose import Composed, compose

FOLDER: Final = Path(__file__).parents[4] / "charts" / "slurm" / "compute-defs"
SHIPPED: Final = gather({path.name: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))})

Values: TypeAlias = dict[str, Any]


def composed(name: str, nodes: str | Values, *, shipped: Values | None = None) -> Composed:
    """Of values as a person writes them; without layers of the chart unless they are given."""
    return compose(name, nodes=yaml.safe_load(nodes) if isinstance(nodes, str) else nodes, shipped=shipped or {})


def laid(*layers: Values) -> Any:
    """What layers come to, the first at the bottom."""
    names = [f"layer{number}" for number, _ in enumerate(layers)]
    return composed("made", {**dict(zip(names, layers, strict=True)), "made": {"definitions": names}}).value


def asking(*expressions: Values) -> Values:
    """A layer that asks for this of Nodes, in one term."""
    return asking_one_of(list(expressions))


def asking_one_of(*terms: list[Values]) -> Values:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def terms(value: Values) -> Any:
    required = value["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchExpressions"] for term in required["nodeSelectorTerms"]]


def asked(value: Values) -> dict[str, Any]:
    """What the one term asks for, by key."""
    (term,) = terms(value)
    return {one["key"]: one.get("values", one["operator"]) for one in term}


def within(key: str, *values: str) -> Values:
    return {"key": key, "operator": "In", "values": list(values)}


def selector(value: Values) -> NodeSelector:
    required = value["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return msgspec.convert(required, NodeSelector)
