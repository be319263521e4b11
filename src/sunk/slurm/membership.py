"""Which partitions a node is in. Slurm says it the other way round: each partition has a list of nodes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from sunk.model.hostlist import expand
from sunk.slurm.records import Partition


def partitions_by_node(partitions: Iterable[Partition]) -> Mapping[str, tuple[str, ...]]:
    """The names of each node's partitions, in order; a node that is in none is not there."""
    found: dict[str, list[str]] = {}
    for partition in sorted(partitions, key=lambda each: each.name):
        for node in _expanded(partition.nodes):
            found.setdefault(node, []).append(partition.name)
    return {node: tuple(names) for node, names in found.items()}


# Lists of thousands change seldom, and this is asked whenever any row of any table has changed.
@lru_cache(maxsize=64)
def _expanded(nodes: str) -> frozenset[str]:
    return frozenset(expand(nodes))
