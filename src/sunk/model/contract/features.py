"""Slurm features of a node: those of its NodeSet, and those that labels of its Kubernetes Node give.

Slurm keeps features as one text with commas between, and jobs ask for them in expressions, where `&|!*[]()` and blanks
mean something. Every character of a feature that is not a letter, a digit or one of `_ . : / = -` becomes `_`, so that
no label can bring a second feature in. An empty label gives no feature, not even its prefix.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sunk.model.nodeset import Features

_STRANGE: Final = re.compile(r"[^A-Za-z0-9_.:/=-]")


def features(spec: Features, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Static ones in their order, then dynamic ones in the order of the labels' keys; each once."""
    return tuple(dict.fromkeys(_all(spec, labels)))


def _all(spec: Features, labels: Mapping[str, str]) -> Iterator[str]:
    yield from (_plain(name) for name in spec.static_features if name)
    for key, dynamic in sorted(spec.dynamic_features.items()):
        if value := labels.get(key):
            yield _plain(dynamic.prefix + value)


def _plain(name: str) -> str:
    return _STRANGE.sub("_", name)
