"""The values of the chart `slurm` without Helm: its own, those of people on top, and its layers.

Put together as Helm does it. Files are laid over each other first: maps are merged, anything else is replaced, by null
too. What comes of that is laid over the chart's own values, and there null takes a value away; it stays where the chart
has none, since a definition says by it what it does not want of its layers.

And read as Helm reads them. PyYAML and Helm agree on nearly everything. Where they do not, values would mean one thing
offline and another in a cluster: `24:00:00`, a time limit, is a text to Helm and 86,400 to PyYAML; a date is a text;
`1e3` is a number; `y` is true; and whatever a key is, Helm makes a text of it.

Passwords of directories are left behind here, as the chart's template puts them into Secrets: nothing that is printed
later can have one. Nor does a complaint about a file that is no YAML quote it.
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
from sunk.model.schema.reading import read as shape_of
from sunk.model.schema.shape import List, Map, Object, Shape

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


def spec(chart: Path, files: Sequence[Path] = (), *, name: str = "slurm") -> SlurmClusterSpec:
    """The spec that `helm install` with these files would give a SlurmCluster; a typo is refused as Helm would."""
    merged = without_passwords(values(chart, files), name=name)
    if unknown := misspelt(merged, SlurmClusterSpec):
        raise Refusal(
            "these values are not valid for a SlurmCluster:" + "".join(f"\n  {problem}" for problem in unknown)
        )
    try:
        # By way of JSON, as the API server gives it: what is passed on unread is kept as text.
        plain = without_nulls(merged, shape_of(SlurmClusterSpec))
        return msgspec.json.decode(msgspec.json.encode(plain), type=SlurmClusterSpec)
    except msgspec.ValidationError as wrong:
        raise Refusal(f"these values are not valid for a SlurmCluster: {wrong}.") from wrong


def without_passwords(merged: Tree, *, name: str) -> Tree:
    """The Secret instead of each password, as templates/_labels.tpl of the chart has it. What is no map is left as it is."""
    service = merged.get("directoryService")
    directories = service.get("directories") if isinstance(service, dict) else None
    if not (isinstance(service, dict) and isinstance(directories, list)):
        return merged
    made = [_without_password(each, index=index, name=name) for index, each in enumerate(directories)]
    return merged | {"directoryService": service | {"directories": made}}


def _without_password(directory: Any, *, index: int, name: str) -> Any:
    user = directory.get("user") if isinstance(directory, dict) else None
    if not isinstance(user, dict) or "password" not in user:
        return directory
    kept = {key: value for key, value in user.items() if key != "password"}
    if user["password"] and user.get("passwordSecret"):
        raise Refusal(
            f"directoryService.directories[{index}].user: password and passwordSecret exclude each other: set only one of them."
        )
    secret = {"passwordSecret": f"{name}-directory-{index}"} if user["password"] else {}
    return directory | {"user": kept | secret}


def without_nulls(value: Any, shape: Shape) -> Any:
    """As the API server takes it: null for a field that is never null is dropped, and its default counts."""
    match shape:
        case Object(members=members) if isinstance(value, dict):
            known = {member.name: member.shape for member in members}
            kept = {key: each for key, each in value.items() if not _is_unset(each, known.get(key))}
            return {key: without_nulls(each, known[key]) if key in known else each for key, each in kept.items()}
        case Map(values=inner) if isinstance(value, dict):
            return {key: without_nulls(each, inner) for key, each in value.items()}
        case List(items=inner) if isinstance(value, list):
            return [without_nulls(each, inner) for each in value]
    return value


def _is_unset(value: Any, shape: Shape | None) -> bool:
    """By null where that is no value, or by an empty text where a list could stand: that one the chart leaves out."""
    if isinstance(shape, List) and shape.or_empty and value == "":
        return True
    return value is None and shape is not None and not shape.nullable


def values(chart: Path, files: Sequence[Path] = ()) -> Tree:
    """The values of the chart and of the files, and the layers, unchecked."""
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
        raise Refusal(f"{file} is not YAML: {_in_words(wrong)}") from None
    if tree is not None and not isinstance(tree, dict):
        raise Refusal(f"{file}: values must be a map, found {type(tree).__name__}.")
    return tree or {}


def _in_words(wrong: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Without the line itself, which may hold a password."""
    if isinstance(wrong, yaml.MarkedYAMLError) and wrong.problem_mark is not None:
        mark = wrong.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {wrong.problem or wrong.context}."
    return f"{wrong.reason} at byte {wrong.start}." if isinstance(wrong, UnicodeDecodeError) else f"{wrong}."


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
