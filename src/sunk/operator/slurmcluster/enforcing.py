"""Bring a configuration into force: tried first, then applied, then read by Slurm, and seen there."""

from typing import Final

from sunk.kube.client import Client, Scope
from sunk.kube.core import CONFIG_MAPS, PODS
from sunk.kube.errors import NotFound
from sunk.kube.patch import Merge
from sunk.operator.slurmcluster.applying import apply
from sunk.operator.slurmcluster.availability import Configuration
from sunk.operator.slurmcluster.errand import Errands
from sunk.operator.slurmcluster.mark import PARAMETER
from sunk.operator.slurmcluster.metadata import CONFIG_HASH, CONTROLLER, selector
from sunk.operator.slurmcluster.trial import candidate, read_anew, trial
from sunk.operator.slurmcluster.view import Cluster

TRYING: Final = "Trying"
BAD: Final = "BadConfiguration"
READING: Final = "Reading"
NOT_READ: Final = "NotRead"


class Enforcing:
    def __init__(self, client: Client, errands: Errands) -> None:
        self._client = client
        self._errands = errands

    async def judged(self, cluster: Cluster, files: dict[str, str], wanted: str) -> Configuration | None:
        """Have new files tried. None means that they are good, or the ones that are there already."""
        if await self._is_live(cluster, files):
            return None
        await apply(self._client, [candidate(cluster, files, wanted)])
        body = trial(cluster, wanted)
        found = await self._errands.ask(body)
        if not found.done:
            await self._errands.forget(cluster.namespace, cluster=cluster.name, keep=body["metadata"]["name"])
            return Configuration(wanted, reason=TRYING, message="a slurmctld tries it, apart from the cluster")
        if not found.well:
            return Configuration(wanted, reason=BAD, message=f"the last one stays: {found.words}", final=True)
        return None

    async def _is_live(self, cluster: Cluster, files: dict[str, str]) -> bool:
        try:
            live = await self._client.get(CONFIG_MAPS, cluster.named("slurm-conf"), namespace=cluster.namespace)
        except NotFound:
            return False
        return all(live.data.get(name) == text for name, text in files.items())

    async def enforced(self, cluster: Cluster, wanted: str, *, known: str, up: bool) -> Configuration:
        """Have Slurm read what lies there, unless it is known to run with it."""
        if known == wanted or not cluster.spec.controller.replicas:
            await self._errands.forget(cluster.namespace, cluster=cluster.name)
            return Configuration(wanted, applied=wanted)
        if not up:
            return Configuration(wanted, reason=READING, message="slurmctld is not up yet")
        await self._hasten(cluster, wanted)
        found = await self._errands.ask(read_anew(cluster, wanted))
        if not found.done:
            return Configuration(wanted, reason=READING, message=f"slurmctld is asked to read {PARAMETER}={wanted}")
        await self._errands.forget(cluster.namespace, cluster=cluster.name)
        if not found.well:
            return Configuration(wanted, reason=NOT_READ, message=found.words)
        return Configuration(wanted, applied=wanted)

    async def _hasten(self, cluster: Cluster, wanted: str) -> None:
        """Write to slurmctld's Pod: its kubelet looks at it at once then, and brings its files up to date."""
        chosen = ",".join(f"{key}={value}" for key, value in selector(cluster, CONTROLLER).items())
        note = Merge({"metadata": {"annotations": {f"{CONFIG_HASH}-wanted": wanted}}})
        for pod in (await self._client.list(PODS, Scope(namespace=cluster.namespace, labels=chosen))).items:
            await self._client.patch(PODS, pod.metadata.name, note, namespace=cluster.namespace)
