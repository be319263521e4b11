"""The values of the chart `slurm` without Helm: its own, those of people on top, and its layers.

Put together as Helm does it. Files are laid over each other first: maps are merged, anything else is replaced, by null
too. What comes of that is laid over the chart's own values, and there null takes a value away; it stays where the chart
has none, since a definition says by it what it does not want of its layers.

And read as Helm reads them. PyYAML and Helm agree on nearly everything. Where they do not, values would mean one thing
offline and another in a cluster: `24:00:00`, a time limit, is a text to Helm and 86,400 to PyYAML; a date is a text;
`1e3` is a number; `y` is true; and whatever a key is, Helm makes a text of it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.model.refusal import Refusal
from sunk.model.schema.misspelt import misspelt

VALUES: Final = "values.yaml"
LAYERS: Final = "compute-defs"
OF_HELM: Final = "global"
"""What a parent chart shares. No part of a SlurmCluster."""

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    "bool": ("y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": ("[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    "merge": ("<<", "<"),
}

Tree = dict[str, Any]


def spec(chart: Path, files: Sequence[Path] = ()) -> SlurmClusterSpec:
    """The spec that `helm install` with these files would give a SlurmCluster; a typo is refused as Helm would."""
    merged = values(chart, files)
    if unknown := misspelt(merged, SlurmClusterSpec):
        raise Refusal(
            "these values are not valid for a SlurmCluster:" + "".join(f"\n  {problem}" for problem in unknown)
        )
    try:
        # By way of JSON, as the API server gives it: what is passed on unread is kept as text.
        return msgspec.json.decode(msgspec.json.encode(merged), type=SlurmClusterSpec)
    except msgspec.ValidationError as wrong:
        raise Refusal(f"these values are not valid for a SlurmCluster: {wrong}.") from wrong


def values(chart: Path, files: Sequence[Path] = ()) -> Tree:
    """What the chart's template writes as the spec, unchecked."""
    if not (chart / VALUES).is_file():
        raise Refusal(f"{chart} is not a chart: it has no {VALUES}. Give the path of charts/slurm.")
    given: Tree = {}
    for file in files:
        given = over(given, read(file))
    merged = over_chart(read(chart / VALUES), given)
    compute = merged.get("compute") or {}
    if not isinstance(compute, dict):
        raise Refusal(f"compute must be a map, found {compute!r}.")
    own = compute.get("layers") or {}
    # A layer of somebody's own takes the whole place of one that the chart ships.
    merged["compute"] = compute | {"layers": layers(chart) | own}
    merged.pop(OF_HELM, None)
    return merged


def read(file: Path) -> Tree:
    try:
        tree = load(file.read_text())
    except OSError as missing:
        raise Refusal(f"{file} cannot be read: {missing.strerror}.") from missing
    except (yaml.YAMLError, UnicodeDecodeError) as wrong:
        raise Refusal(f"{file} is not YAML: {wrong}") from wrong
    if tree is not None and not isinstance(tree, dict):
        raise Refusal(f"{file}: values must be a map, found {type(tree).__name__}.")
    return tree or {}


def layers(chart: Path) -> Tree:
    """Everything in compute-defs; a layer may stand in one file only."""
    made: Tree = {}
    for file in sorted((chart / LAYERS).glob("*.yaml")):
        tree = read(file)
        if twice := sorted(set(made) & set(tree)):
            raise Refusal(f"{file}: layer {twice[0]} is also defined in another file of {LAYERS}. Remove one of them.")
        made |= tree
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


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's, filled below
    bool_values = yaml.SafeLoader.bool_values | {"y": True, "n": False}


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    number = loader.construct_yaml_float(node)
    return int(number) if number.is_integer() else number


for _kind, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(f"{_TAG}float", _number)


def load(text: str) -> Any:
    """What the text says; `yaml.YAMLError` if it is no YAML."""
    return _named(yaml.load(text, Loader=_Loader))  # noqa: S506 - it is a safe loader


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _named(item) for key, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()
