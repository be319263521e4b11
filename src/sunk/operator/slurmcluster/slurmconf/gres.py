"""gres.conf: which devices the GPUs of a node are.

Every slurmd is sent the same file, and one that cannot find a device of it does not start. So each line says whose it
is, by all the names that nodes of a definition can have. `AutoDetect=nvidia` adds what the driver knows (cores, links);
where there is no driver the file alone counts, so that any file under these names does for a trial.
"""

import re
from collections.abc import Iterator
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.slurmconf.lines import owned
from sunk.operator.slurmcluster.view import Cluster, NodeDefinition

DEVICES = "/dev/nvidia"
_GPUS: Final = re.compile(r"((?P<type>[A-Za-z0-9_.-]+):)?(?P<count>[0-9]{1,4})")


def gres_conf(cluster: Cluster) -> str:
    if text := cluster.spec.slurm_config.gres_config:
        lines = owned(text, at="slurmConfig.gresConfig")
    else:
        lines = [line for one in cluster.definitions for line in _lines(cluster, one)]
    return "".join(f"{line}\n" for line in lines)


def gpus(definition: NodeDefinition) -> tuple[str, int] | None:
    """Type, which may be empty, and number of the GPUs of a node."""
    if not definition.gres_gpu:
        return None
    found = _GPUS.fullmatch(definition.gres_gpu)
    if found is None:
        raise Refusal(
            f"{definition.place}.gresGpu: {definition.gres_gpu!r} is not a type and a number of GPUs. Write h100:8 for "
            "eight of type h100, or 8 if they have none."
        )
    return (found["type"] or "", int(found["count"])) if int(found["count"]) else None


def gres(definition: NodeDefinition) -> str:
    """As a node says it: `gpu:h100:8`."""
    found = gpus(definition)
    return ":".join(filter(None, ("gpu", found[0], str(found[1])))) if found else ""


def types(cluster: Cluster) -> tuple[str, ...]:
    """What accounting counts, beside GPUs as such."""
    kinds = sorted({found[0] for one in cluster.definitions if (found := gpus(one)) and found[0]})
    return tuple(f"gres/gpu:{kind}" for kind in kinds)


def _lines(cluster: Cluster, definition: NodeDefinition) -> Iterator[str]:
    found = gpus(definition)
    if found is None:
        return
    kind, count = found
    # A name ends with two octets of an address, or with an ordinal.
    ends = "[000-255]-[000-255]" if definition.naming == "address" else "[0-65535]"
    names = f"NodeName={cluster.prefix(definition)}-{ends}"
    devices = f"{DEVICES}[0-{count - 1}]" if count > 1 else f"{DEVICES}0"
    yield f"{names} AutoDetect=nvidia"
    yield " ".join(filter(None, (names, "Name=gpu", f"Type={kind}" if kind else "", f"File={devices}")))
