"""What slurmd may do beyond what a container may: as little as the values need.

Kubernetes' own set lets slurmd start jobs as their users, and no more. docs/decisions has what was tried.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from sunk.operator.slurmcluster.builders import capabilities
from sunk.operator.slurmcluster.resolve import NodeDefinition, ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.conf import slurm_conf

_SETTING: Final = re.compile(r"^(TaskPlugin|JobAcctGatherType)\s*=\s*(\S+)", re.MULTILINE | re.IGNORECASE)


def security_context(cluster: ResolvedCluster, definition: NodeDefinition) -> dict[str, Any]:
    """The securityContext of slurmd's container: what people wrote, and the capabilities that it needs."""
    theirs = definition.security_context or cluster.spec.compute.security_context or {}
    return capabilities.granted(theirs, needed(cluster), place=definition.place)


def needed(cluster: ResolvedCluster) -> Iterator[tuple[str, str]]:
    """Capabilities, each with the value that asks for it."""
    settings = {key.lower(): value for key, value in _SETTING.findall(slurm_conf(cluster))}
    # Without it slurmstepd may not read what processes of other users have done: MaxRSS stays empty, AveCPU is garbage.
    if settings.get("jobacctgathertype", "") == "jobacct_gather/linux":
        yield "SYS_PTRACE", "job accounting (JobAcctGatherType)"
    # Without it slurmstepd may not bind tasks of other users to CPUs, and every one of their jobs fails.
    if "affinity" in settings.get("taskplugin", ""):
        yield "SYS_NICE", "slurmConfig.slurmCtld.taskPlugin task/affinity"
    if cluster.spec.compute.ssh.enabled:
        yield from capabilities.of_sshd("compute.ssh")
    # enroot mounts file systems.
    if cluster.spec.compute.pyxis.enabled:
        yield "SYS_ADMIN", "compute.pyxis"
