"""Which configuration a cluster should have now, where partitions are to go and jobs may still name them.

A partition that is gone from slurm.conf takes its jobs along. So it stays, drained, and takes no new ones; once that is
in force, an errand asks Slurm whether any job names it, and when none does it is left out.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from sunk.kube.api.client import Client
from sunk.kube.core import CONFIG_MAPS
from sunk.kube.errors import NotFound
from sunk.model.contract import clusterobjects
from sunk.operator.slurmcluster.rollout.probe import Errands
from sunk.operator.slurmcluster.rollout.trial import unnamed
from sunk.operator.slurmcluster.slurmconf.conf import SLURM_CONF, beside, configuration
from sunk.operator.slurmcluster.slurmconf.leaving import leaving
from sunk.operator.slurmcluster.slurmconf.mark import marked
from sunk.operator.slurmcluster.view import Cluster

NOTHING: Final[Mapping[str, str]] = {}
AGAIN: Final = 10.0
"""Seconds between two looks at the queue."""


class Plan(Struct, frozen=True):
    files: dict[str, str]
    wanted: str
    """Their hash."""
    waits: str = ""
    """For what, before it can become what the cluster asks for; nothing if it is that already."""
    errands: tuple[str, ...] = ()
    """Names of those whose answers it rests upon."""


class Farewell:
    def __init__(self, client: Client, errands: Errands) -> None:
        self._client = client
        self._errands = errands

    async def plan(self, cluster: Cluster, *, known: str, etc: Mapping[str, str] = NOTHING) -> Plan:
        """Decide, where `known` is the hash of what Slurm is known to run with.

        `etc` are people's own files.
        """
        asked_for = beside(etc, configuration(cluster))
        before = await self._in_force(cluster)
        gone = _partitions(leaving(before, asked_for[SLURM_CONF]))
        if not gone:
            return Plan(*marked(asked_for, cluster=cluster))
        drained, mark = marked(beside(etc, configuration(cluster, before=before)), cluster=cluster)
        words = f"partition {', '.join(gone)} stays, drained, until no job names it"
        if mark != known:
            return Plan(drained, mark, waits=words)
        errand = unnamed(cluster, gone)
        said = await self._errands.ask(errand, again=AGAIN)
        resting = (errand["metadata"]["name"],)
        if said.well:
            return Plan(*marked(asked_for, cluster=cluster), errands=resting)
        return Plan(drained, mark, waits=f"{words}: {said.words}" if said.words else words, errands=resting)

    async def _in_force(self, cluster: Cluster) -> str:
        try:
            live = await self._client.get(
                CONFIG_MAPS, cluster.named(clusterobjects.SLURM_CONF), namespace=cluster.namespace
            )
        except NotFound:
            return ""
        return live.data.get(SLURM_CONF, "")


def _partitions(lines: Iterable[str]) -> tuple[str, ...]:
    first = (line.split(maxsplit=1)[0].partition("=") for line in lines)
    return tuple(name for word, _, name in first if word.lower() == "partitionname")
