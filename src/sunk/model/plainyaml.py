"""YAML as a person would write it."""

from typing import Any, Final

import yaml

_AMBIGUOUS: Final = frozenset("yYnN")
"""Plain strings to PyYAML and truth values to the YAML that Kubernetes reads: a field called `n` would vanish."""


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists; the same object twice is written twice, since anchors are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name is PyYAML's
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - PyYAML's
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if text in _AMBIGUOUS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump(data: Any) -> str:
    """In the order in which things stand; the same for the same data, byte by byte."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
