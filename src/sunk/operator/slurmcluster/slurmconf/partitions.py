"""Partitions: those that people wrote, then one for each enabled definition.

Nodes are dynamic, so no partition can name them: it names a set, and nodes belong to the set by a feature that they
bring along when they register.
"""

from collections.abc import Iterator
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.compute.shares import share
from sunk.operator.slurmcluster.slurmconf.lines import keys, owned, pairs
from sunk.operator.slurmcluster.view import Cluster, NodeDefinition

AT: Final = "compute.partitions"
_BEGINNINGS: Final = frozenset({"partitionname", "nodeset"})
_OURS: Final = frozenset({"partitionname", "nodes"})


def partitions(cluster: Cluster) -> list[str]:
    """Lines of slurm.conf."""
    written = _written(cluster.spec.compute.partitions)
    taken = {name for line in written for name in _names(line)}
    automatic = cluster.definitions if cluster.spec.compute.auto_partition.enabled else ()
    return [*written, *(line for one in automatic if one.name not in taken for line in _made(cluster, one))]


def _written(text: str) -> list[str]:
    lines = owned(text, at=AT)
    for line in lines:
        first = keys(line)[:1]
        if not first or first[0].lower() not in _BEGINNINGS or not line.lower().startswith(first[0].lower()):
            raise Refusal(
                f"{AT}: {line!r} should begin with PartitionName= or NodeSet=. Other settings have a place of their own."
            )
    return lines


def _names(line: str) -> list[str]:
    first = line.split(maxsplit=1)[0]
    return first.partition("=")[2].split(",") if first.lower().startswith("partitionname=") else []


def _made(cluster: Cluster, definition: NodeDefinition) -> Iterator[str]:
    name = definition.name
    yield f"NodeSet={name} Feature={cluster.features(definition)[0]}"
    settings = {"MaxTime": "INFINITE", "State": "UP"} | _memory(cluster, definition) | _said(definition)
    yield " ".join((f"PartitionName={name} Nodes={name}", *pairs(settings, at=f"{definition.place}.partitionConfig")))


def _said(definition: NodeDefinition) -> dict[str, str | int]:
    for key in definition.partition_config:
        if key.lower() in _OURS:
            raise Refusal(f"{definition.place}.partitionConfig: {key} is ours. Write a partition of your own in {AT}.")
    return dict(definition.partition_config)


def _memory(cluster: Cluster, definition: NodeDefinition) -> dict[str, str | int]:
    """A job that names no memory must fit where it asks for every CPU of a node: Slurm refuses it otherwise."""
    wanted = cluster.spec.slurm_config.def_mem_per_cpu
    found = share(definition, reserved=cluster.spec.compute.reserved_memory)
    if not wanted or found.cpus is None or found.memory is None:
        return {}
    fair = max(1, found.memory // found.cpus)
    return {"DefMemPerCPU": fair} if fair < wanted else {}
