"""gres.conf: which devices the GPUs of a node are.

Every slurmd is sent the same file, and one that cannot find a device of it does not start. So each line says whose it
is, by all the names that nodes of a definition can have. `AutoDetect=nvidia` adds what the driver knows (cores, links);
where there is no driver the file alone counts, so that any file under these names does for a trial.
"""

from collections.abc import Iterator

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.lines import owned, word
from sunk.operator.slurmcluster.view import Cluster, NodeDefinition

DEVICES = "/dev/nvidia"


def gres_conf(cluster: Cluster) -> str:
    if text := cluster.spec.slurm_config.gres_config:
        lines = owned(text, at="slurmConfig.gresConfig")
    else:
        lines = [line for one in cluster.definitions for line in _lines(cluster, one)]
    return "".join(f"{line}\n" for line in lines)


def gpus(definition: NodeDefinition) -> tuple[str, int] | None:
    """Type, which may be empty, and number of the GPUs of a node."""
    kind, _, count = word(definition.gres_gpu, at=f"{definition.place}.gresGpu").rpartition(":")
    if not count:
        return None
    if not count.isdecimal():
        raise Refusal(f"{definition.place}.gresGpu: {definition.gres_gpu!r} should end with a number, as in h100:8.")
    return (kind, int(count)) if int(count) else None


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
