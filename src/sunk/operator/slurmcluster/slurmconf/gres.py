"""gres.conf: which devices the GPUs of a node are.

Every slurmd is sent the same file, and one that cannot find a device of it does not start. So each line says whose it
is, by all the names that nodes of a definition can have. `AutoDetect=nvidia` adds what the driver knows (cores, links);
where there is no driver the file alone counts, so that any file under these names does for a trial.
"""

import re
from collections.abc import Iterator
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.resolve import NodeDefinition, ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.lines import owned

DEVICES = "/dev/nvidia"
_GPUS: Final = re.compile(r"((?P<type>[A-Za-z0-9_.-]+):)?(?P<count>[0-9]{1,4})")


def gres_conf(cluster: ResolvedCluster) -> str:
    if text := cluster.spec.slurm_config.gres_config:
        lines = owned(text, at="slurmConfig.gresConfig")
    else:
        lines = [line for definition in cluster.definitions for line in _lines(cluster, definition)]
    return "".join(f"{line}\n" for line in lines)


def gpus(definition: NodeDefinition) -> tuple[str, int] | None:
    """Type, which may be empty, and number of the GPUs of a node."""
    if not definition.gres_gpu:
        return None
    match = _GPUS.fullmatch(definition.gres_gpu)
    if match is None:
        raise Refusal(
            f"{definition.place}.gresGpu: {definition.gres_gpu!r} is not a type and number of GPUs. Write h100:8 for "
            "eight of type h100, or 8 without a type."
        )
    return (match["type"] or "", int(match["count"])) if int(match["count"]) else None


def gres(definition: NodeDefinition) -> str:
    """As a node says it: `gpu:h100:8`."""
    counted = gpus(definition)
    return ":".join(filter(None, ("gpu", counted[0], str(counted[1])))) if counted else ""


def types(cluster: ResolvedCluster) -> tuple[str, ...]:
    """What accounting counts, beside GPUs as such."""
    kinds = sorted({counted[0] for definition in cluster.definitions if (counted := gpus(definition)) and counted[0]})
    return tuple(f"gres/gpu:{kind}" for kind in kinds)


def _lines(cluster: ResolvedCluster, definition: NodeDefinition) -> Iterator[str]:
    counted = gpus(definition)
    if counted is None:
        return
    kind, count = counted
    # A name ends with two octets of an address, or with an ordinal.
    ends = "[000-255]-[000-255]" if definition.naming == "address" else "[0-65535]"
    names = f"NodeName={cluster.prefix(definition)}-{ends}"
    devices = f"{DEVICES}[0-{count - 1}]" if count > 1 else f"{DEVICES}0"
    yield f"{names} AutoDetect=nvidia"
    yield " ".join(filter(None, (names, "Name=gpu", f"Type={kind}" if kind else "", f"File={devices}")))
