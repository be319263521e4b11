"""YAML as Helm reads it.

PyYAML and Helm agree on nearly everything. Where they do not, values would mean one thing offline and another in a
cluster: `24:00:00`, a time limit, is a text to Helm and 86,400 to PyYAML; a date is a text; `1e3` is a number; `y` is
true; and whatever a key is, Helm makes a text of it.
"""

import re
from typing import Any, Final

import yaml
from msgspec import json

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    "bool": ("y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": ("[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    "merge": ("<<", "<"),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML's, filled below
    bool_values = yaml.SafeLoader.bool_values | {"y": True, "n": False}


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    found = loader.construct_yaml_float(node)
    return int(found) if found.is_integer() else found


for _kind, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(f"{_TAG}float", _number)


def load(text: str) -> Any:
    """What the text says; `yaml.YAMLError` if it is no YAML."""
    return _named(yaml.load(text, Loader=_Loader))  # noqa: S506 - it is a safe loader


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _named(each) for key, each in value.items()}
    return [_named(each) for each in value] if isinstance(value, list) else value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json.encode(key).decode()
