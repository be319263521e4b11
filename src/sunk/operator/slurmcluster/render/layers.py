"""Definitions for people: what their layers make of them, and which layer each value came from.

An expression of required node affinity is one line, since whoever asks wants to know which Nodes it chooses; its path
alone would be wider than a screen.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import json

from sunk.model.cluster.compute import Compute
from sunk.model.layers.compose import Composed, compose
from sunk.model.layers.tree import Path, spoken

REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
WIDEST: Final = 60
"""Of a value. A script or a list of many labels would push the layers out of sight."""

Row = tuple[str, str, str]


def definitions(compute: Compute, *, everything: bool = False) -> str:
    """The enabled definitions, or all of them."""
    nodes, shipped = json.decode(json.encode(compute.nodes)), json.decode(json.encode(compute.layers))
    chosen = sorted(name for name, definition in compute.nodes.items() if everything or definition.enabled is True)
    if not chosen:
        return f"No definition is enabled. {_others(compute.nodes)}"
    parts = []
    for name in chosen:
        composed = compose(name, nodes=nodes, shipped=shipped)
        parts.append("\n".join((_title(composed, on=compute.nodes[name].enabled is True), *table(composed))))
    return "\n\n".join(parts)


def _others(nodes: Mapping[str, object]) -> str:
    if not nodes:
        return "Add some under compute.nodes."
    return f"Defined: {', '.join(sorted(nodes))}. --all shows them; set compute.nodes.<name>.enabled to enable one."


def _title(composed: Composed, *, on: bool) -> str:
    state = "" if on else ", not enabled"
    return f"{composed.name}{state}: {' → '.join(map(str, composed.layers))}"


def table(composed: Composed) -> Iterator[str]:
    """A line a value: where it stands, what it is, and its layer."""
    rows = [*_rows(composed)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for path, value, layer in rows:
        yield f"  {path:<{widths[0]}}  {value:<{widths[1]}}  {layer}"


def _rows(composed: Composed) -> Iterator[Row]:
    told: set[Path] = set()
    for path, layer in composed.origins.items():
        whole = _expression(path)
        if whole is None:
            yield spoken(path), _short(_plain(_at(composed.value, path))), str(layer)
        elif whole not in told:
            told.add(whole)
            # Layers replace expressions whole, so all of one is from the same.
            yield _name(composed, whole), _short(_words(_at(composed.value, whole))), str(layer)


def _expression(path: Path) -> Path | None:
    """The path of the expression that a leaf belongs to: terms[i].matchExpressions[j] or matchFields[j]."""
    end = len(REQUIRED) + 3
    return path[:end] if path[: len(REQUIRED)] == REQUIRED and len(path) > end else None


def _name(composed: Composed, path: Path) -> str:
    terms = _at(composed.value, REQUIRED)
    term, field = path[len(REQUIRED)], path[len(REQUIRED) + 1]
    kind = "affinity" if field == "matchExpressions" else "affinity by field"
    return kind if len(terms) == 1 else f"{kind}, term {int(term) + 1} of {len(terms)}"


def _words(expression: Mapping[str, Any]) -> str:
    values = expression.get("values")
    told = f"{expression.get('key')} {expression.get('operator')}"
    return told if values is None else f"{told} {_plain(values)}"


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _plain(value: Any) -> str:
    """As in YAML, on one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return f"[{', '.join(value)}]"
    return json.encode(value).decode()


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…"
