"""Partitions: those that people wrote, then one for each enabled definition.

Nodes are dynamic, so no partition can name them: it names a set, and nodes belong to the set by a feature that they
bring along when they register.

A partition that is gone from slurm.conf takes its jobs along, those that run and those that wait. So it retires in two
steps: it stays as it was but takes no new jobs, and is left out when no job names it any more.
"""

import re
from collections.abc import Iterator
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.resolve import NodeDefinition, ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.lines import keys, owned, pairs
from sunk.operator.slurmcluster.slurmconf.shares import share

AT: Final = "compute.partitions"
_BEGINNINGS: Final = frozenset({"partitionname", "nodeset"})
_OURS: Final = frozenset({"partitionname", "nodes"})
_PARTITION: Final = re.compile(r"PartitionName=(\S+)", re.IGNORECASE)
_SET: Final = re.compile(r"NodeSet=(\S+)", re.IGNORECASE)
_NODES: Final = re.compile(r"(?<!\S)Nodes=(\S+)", re.IGNORECASE)
_STATE: Final = re.compile(r"(?<!\S)State=\S+", re.IGNORECASE)
_DEFAULT: Final = re.compile(r"\s+Default=\S+", re.IGNORECASE)
EVERYTHING: Final = "DEFAULT"
"""A line of this name is no partition, and says what those behind it have in common."""


def partitions(cluster: ResolvedCluster) -> list[str]:
    """Lines of slurm.conf."""
    written = _written(cluster.spec.compute.partitions)
    taken = {name for line in written for name in _names(line)}
    automatic = cluster.definitions if cluster.spec.compute.auto_partition.enabled else ()
    return [
        *written,
        *(line for definition in automatic if definition.name not in taken for line in _made(cluster, definition)),
    ]


def _written(text: str) -> list[str]:
    lines = owned(text, at=AT)
    for line in lines:
        first = keys(line)[:1]
        if not first or first[0].lower() not in _BEGINNINGS or not line.lower().startswith(first[0].lower()):
            raise Refusal(
                f"{AT}: {line!r} must begin with PartitionName= or NodeSet=. Other settings belong elsewhere."
            )
    return lines


def _names(line: str) -> list[str]:
    first = line.split(maxsplit=1)[0]
    return first.partition("=")[2].split(",") if first.lower().startswith("partitionname=") else []


def _made(cluster: ResolvedCluster, definition: NodeDefinition) -> Iterator[str]:
    name = definition.name
    yield f"NodeSet={name} Feature={cluster.features(definition)[0]}"
    settings = {"MaxTime": "INFINITE", "State": "UP"} | _memory(cluster, definition) | _said(definition)
    yield " ".join((f"PartitionName={name} Nodes={name}", *pairs(settings, at=f"{definition.place}.partitionConfig")))


def _said(definition: NodeDefinition) -> dict[str, str | int]:
    for key in definition.partition_config:
        if key.lower() in _OURS:
            raise Refusal(
                f"{definition.place}.partitionConfig: SUNK itself sets {key}. Define your own partition in {AT}."
            )
    return dict(definition.partition_config)


def _memory(cluster: ResolvedCluster, definition: NodeDefinition) -> dict[str, str | int]:
    """A job that names no memory must fit where it asks for every CPU of a node: Slurm refuses it otherwise."""
    wanted = cluster.spec.slurm_config.def_mem_per_cpu
    slurm_share = share(definition, reserved=cluster.spec.compute.reserved_memory)
    if not wanted or slurm_share.cpus is None or slurm_share.memory is None:
        return {}
    fair = max(1, slurm_share.memory // slurm_share.cpus)
    return {"DefMemPerCPU": fair} if fair < wanted else {}


def retiring(before: str, after: str) -> list[str]:
    """Lines that a new slurm.conf needs beside its own, so that partitions of the old one stay, drained."""
    there = set(_names_of(_PARTITION, after))
    gone = [line for line in before.splitlines() if _of(_PARTITION, line) not in {"", EVERYTHING, *there}]
    sets = {name for line in gone for nodes in _NODES.findall(line) for name in nodes.split(",")}
    known = set(_names_of(_SET, after))
    kept = [line for line in before.splitlines() if _of(_SET, line) in sets - known - {""}]
    return [*kept, *(_drained(line) for line in gone)]


def _names_of(pattern: re.Pattern[str], text: str) -> list[str]:
    return [name for line in text.splitlines() if (name := _of(pattern, line))]


def _of(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.match(line.strip())
    return match[1] if match else ""


def _drained(line: str) -> str:
    """Without being the default one, which another may be by now."""
    plain = _DEFAULT.sub("", line)
    states = "state" in {key.lower() for key in keys(plain)}
    return _STATE.sub("State=DRAIN", plain) if states else f"{plain} State=DRAIN"
