"""Which configuration a cluster should have now, where partitions are to go and jobs may still name them.

A partition that is gone from slurm.conf takes its jobs along. So it stays, drained, and takes no new ones; once that is
in force, a probe Pod asks Slurm whether any job names it, and when none does it is left out.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import NotFound
from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.objects import marked
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.probe import ProbePods
from sunk.operator.slurmcluster.rollout.trial import queue_probe
from sunk.operator.slurmcluster.slurmconf.conf import SLURM_CONF, beside, configuration
from sunk.operator.slurmcluster.slurmconf.partitions import retiring

NOTHING: Final[Mapping[str, str]] = {}
ASK_AGAIN: Final = 10.0
"""Seconds between two looks at the queue."""


class ConfigurationPlan(Struct, frozen=True):
    """Which files slurmctld should have now."""

    files: dict[str, str]
    wanted: str
    """Their hash."""
    waits: str = ""
    """For what, before it can become what the cluster asks for; nothing if it is that already."""
    probes: tuple[str, ...] = ()
    """Names of the probe Pods whose answers it rests upon."""


class PartitionRetirement:
    """Decides which configuration a cluster should have while partitions of it retire."""

    def __init__(self, client: Client, probes: ProbePods) -> None:
        self._client = client
        self._probes = probes

    async def plan(
        self, cluster: ResolvedCluster, *, known: str, etc: Mapping[str, str] = NOTHING
    ) -> ConfigurationPlan:
        """Decide, where `known` is the hash of what Slurm is known to run with.

        `etc` are people's own files.
        """
        asked_for = beside(etc, configuration(cluster))
        before = await self._in_force(cluster)
        gone = _partitions(retiring(before, asked_for[SLURM_CONF]))
        if not gone:
            return ConfigurationPlan(*marked(asked_for, cluster=cluster))
        drained, mark = marked(beside(etc, configuration(cluster, before=before)), cluster=cluster)
        words = f"partition {', '.join(gone)} stays drained until no job uses it"
        if mark != known:
            return ConfigurationPlan(drained, mark, waits=words)
        probe = queue_probe(cluster, gone)
        result = await self._probes.ask(probe, retry_after=ASK_AGAIN)
        probes = (probe["metadata"]["name"],)
        if result.succeeded:
            return ConfigurationPlan(*marked(asked_for, cluster=cluster), probes=probes)
        return ConfigurationPlan(
            drained, mark, waits=f"{words}: {result.message}" if result.message else words, probes=probes
        )

    async def _in_force(self, cluster: ResolvedCluster) -> str:
        try:
            live = await self._client.get(
                CONFIG_MAPS, cluster.named(clusterobjects.SLURM_CONF), namespace=cluster.namespace
            )
        except NotFound:
            return ""
        return live.data.get(SLURM_CONF, "")


def _partitions(lines: Iterable[str]) -> tuple[str, ...]:
    first = (line.split(maxsplit=1)[0].partition("=") for line in lines)
    return tuple(name for key, _, name in first if key.lower() == "partitionname")
