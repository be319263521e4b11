"""Whether partitions by feature hold the nodes that have the feature.

Slurm puts a node into such partitions when it registers, and looks at its features again only at a reconfigure. So
whoever changes features asks for one, a moment later; if that process dies in between, nobody does. What is left is
partition drift: a partition that holds other nodes than its line says, and that can be seen.

Only what is beyond doubt is reported: sets and partitions written in the plain way, and nodes whose features that are
available are the active ones too. What else people may write is theirs.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from sunk.model.hostlist import expand
from sunk.slurm.records import Node, Partition

_SET: Final = re.compile(r"NodeSet=([\w.-]+)\s+Feature=([\w.-]+)", re.IGNORECASE)
_FEATURE: Final = re.compile(r"NodeSet=.*\bFeature=(\S+)", re.IGNORECASE)
_WORD: Final = re.compile(r"[\w.-]+")
_INCLUDE: Final = re.compile(r"include\s", re.IGNORECASE)
_PARTITION: Final = re.compile(r"PartitionName=([\w.-]+)\s(?:.*\s)?Nodes=(\S+)", re.IGNORECASE)


def partition_features(conf: str) -> frozenset[str] | None:
    """The features that decide which nodes a partition has; None if that cannot be told from this slurm.conf alone."""
    lines = [line.strip() for line in conf.splitlines()]
    if not conf or any(_INCLUDE.match(line) for line in lines):
        return None
    expressions = (match[1] for line in lines if (match := _FEATURE.match(line)))
    # Also of a set that is none by features alone: every word in it may be a feature.
    return frozenset(word for text in expressions for word in _WORD.findall(text))


def outdated(conf: str, *, nodes: Iterable[Node], partitions: Iterable[Partition]) -> tuple[str, ...]:
    """The partitions that a reconfigure would change, by slurm.conf as it is in force."""
    by_features, all_nodes = dict(_by_features(conf)), tuple(nodes)
    stale = (
        partition.name
        for partition in partitions
        if _is_stale(partition, by_features.get(partition.name, frozenset()), all_nodes)
    )
    return tuple(sorted(stale))


def _is_stale(partition: Partition, features: frozenset[str], nodes: Iterable[Node]) -> bool:
    if not features:
        return False
    held = set(expand(partition.nodes))
    for node in nodes:
        available, active = (not features.isdisjoint(names) for names in (node.features, node.features_active))
        if available == active and available != (node.name in held):
            return True
    return False


def _by_features(conf: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Partitions whose nodes are given by features alone, and by which."""
    sets = {name: feature for line in conf.splitlines() for name, feature in _SET.findall(line.strip())}
    for line in conf.splitlines():
        if match := _PARTITION.match(line.strip()):
            members = match[2].split(",")
            if all(name in sets for name in members):
                yield match[1], frozenset(sets[name] for name in members)
