"""The values of the chart `slurm` without Helm: its own, those of people on top, and its layers.

Put together as Helm does it. Files are laid over each other first: maps are merged, anything else is replaced, by null
too. What comes of that is laid over the chart's own values, and there null takes a value away; it stays where the chart
has none, since a definition says by it what it does not want of its layers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.refusal import Refusal
from sunk.model.schema.misspelt import misspelt
from sunk.operator.slurmcluster.render import helmyaml

VALUES: Final = "values.yaml"
LAYERS: Final = "compute-defs"
OF_HELM: Final = "global"
"""What a parent chart shares. No part of a SlurmCluster."""

Tree = dict[str, Any]


def spec(chart: Path, files: Sequence[Path] = ()) -> SlurmClusterSpec:
    """The spec that `helm install` with these files would give a SlurmCluster; a typo is refused as Helm would."""
    found = values(chart, files)
    if unknown := misspelt(found, SlurmClusterSpec):
        raise Refusal("the values do not make a SlurmCluster:" + "".join(f"\n  {one}" for one in unknown))
    try:
        # By way of JSON, as the API server gives it: what is passed on unread is kept as text.
        return msgspec.json.decode(msgspec.json.encode(found), type=SlurmClusterSpec)
    except msgspec.ValidationError as wrong:
        raise Refusal(f"the values do not make a SlurmCluster: {wrong}.") from wrong


def values(chart: Path, files: Sequence[Path] = ()) -> Tree:
    """What the chart's template writes as the spec, unchecked."""
    if not (chart / VALUES).is_file():
        raise Refusal(f"{chart} is no chart: there is no {VALUES} in it. Give the path of charts/slurm.")
    given: Tree = {}
    for file in files:
        given = over(given, read(file))
    found = over_chart(read(chart / VALUES), given)
    compute = found.get("compute") or {}
    if not isinstance(compute, dict):
        raise Refusal(f"compute is a map of values, found {compute!r}.")
    own = compute.get("layers") or {}
    # A layer of somebody's own takes the whole place of one that the chart ships.
    found["compute"] = compute | {"layers": layers(chart) | own}
    found.pop(OF_HELM, None)
    return found


def read(file: Path) -> Tree:
    try:
        found = helmyaml.load(file.read_text())
    except OSError as missing:
        raise Refusal(f"{file} cannot be read: {missing.strerror}.") from missing
    except (yaml.YAMLError, UnicodeDecodeError) as wrong:
        raise Refusal(f"{file} is not YAML: {wrong}") from wrong
    if found is not None and not isinstance(found, dict):
        raise Refusal(f"{file}: values are a map, found {type(found).__name__}.")
    return found or {}


def layers(chart: Path) -> Tree:
    """Everything in compute-defs; a layer may stand in one file only."""
    made: Tree = {}
    for file in sorted((chart / LAYERS).glob("*.yaml")):
        found = read(file)
        if twice := sorted(set(made) & set(found)):
            raise Refusal(f"{file}: layer {twice[0]} stands in another file of {LAYERS} too. Take one of them out.")
        made |= found
    return made


def over(below: Tree, above: Tree) -> Tree:
    """A file over the files before it."""
    made = dict(below)
    for key, value in above.items():
        under = made.get(key)
        made[key] = over(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return made


def over_chart(chart: Tree, given: Tree) -> Tree:
    """What people give over what the chart has; where it has something, null takes it away."""
    made = _without_nulls(chart)
    for key, value in given.items():
        under = made.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            made[key] = over_chart(under, value)
        elif value is None and key in made:
            del made[key]
        else:
            made[key] = value
    return made


def _without_nulls(chart: Tree) -> Tree:
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in chart.items()
        if value is not None
    }
