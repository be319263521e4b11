"""Bring a configuration into force: tried first, then applied, then read by Slurm, and seen there by the syncer."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS, PODS
from sunk.kube.errors import NotFound
from sunk.model.contract import clusterobjects
from sunk.model.contract.confighash import PARAMETER
from sunk.model.contract.report import Report
from sunk.operator.slurmcluster.builders import keys
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH, CONTROLLER, selector
from sunk.operator.slurmcluster.daemons import slurmdbd
from sunk.operator.slurmcluster.rollout.apply import apply
from sunk.operator.slurmcluster.rollout.probe import Answer, Errands
from sunk.operator.slurmcluster.rollout.retirement import Plan
from sunk.operator.slurmcluster.rollout.status import Configuration
from sunk.operator.slurmcluster.rollout.trial import Trial, slurm_trials, slurmdbd_trial
from sunk.operator.slurmcluster.view import Cluster

TRYING: Final = "Trying"
BAD: Final = "BadConfiguration"
READING: Final = "Reading"
NOT_READ: Final = "NotRead"
NOBODY: Final = "NobodyApplies"
_NOBODY: Final = "syncer.enabled is false, so nothing makes Slurm read its configuration. Switch it on"
_LONGEST_VERSION: Final = 64
_TRIED: Final = "it is tried by the daemons it is for, apart from them"
NOTHING: Final[Mapping[str, str]] = {}


class Enforcing:
    def __init__(self, client: Client, errands: Errands) -> None:
        self._client = client
        self._errands = errands

    async def judged(self, cluster: Cluster, plan: Plan) -> Configuration | None:
        """Have new files tried. None means that they are good, or the ones that are there already."""
        wanted = plan.wanted
        trials = await self._trials(cluster, plan.files, wanted)
        answers = [await self._asked(one) for one in trials]
        both = zip(trials, answers, strict=True)
        refused = [f"{one.at}: {said.words}" for one, said in both if said.refused and not (one.optional and said.mute)]
        if refused:
            return Configuration(wanted, reason=BAD, message=f"the last one stays; {'; '.join(refused)}", final=True)
        if not all(said.done for said in answers):
            keep = [*plan.errands, *(one.errand["metadata"]["name"] for one in trials)]
            await self._errands.forget(cluster.namespace, cluster=cluster.name, uid=cluster.uid, keep=keep)
            hindered = [said.words for said in answers if not said.done and said.words]
            return Configuration(wanted, reason=TRYING, message="; ".join((_TRIED, *hindered)))
        return None

    async def _trials(self, cluster: Cluster, files: Mapping[str, str], wanted: str) -> list[Trial]:
        found = []
        if not await self._is_live(cluster, clusterobjects.SLURM_CONF, files):
            found += slurm_trials(cluster, files, wanted)
        if keys.serves_accounting(cluster):
            accounting, notes = {slurmdbd.FILE: slurmdbd.slurmdbd_conf(cluster)}, slurmdbd.annotations(cluster)
            if not await self._is_live(cluster, clusterobjects.SLURMDBD_CONF, accounting, notes=notes):
                found.append(slurmdbd_trial(cluster, accounting))
        return found

    async def _asked(self, one: Trial) -> Answer:
        await apply(self._client, [one.candidate])
        return await self._errands.ask(one.errand, again=one.again)

    async def _is_live(
        self, cluster: Cluster, name: str, files: Mapping[str, str], *, notes: Mapping[str, str] = NOTHING
    ) -> bool:
        try:
            live = await self._client.get(CONFIG_MAPS, cluster.named(name), namespace=cluster.namespace)
        except NotFound:
            return False
        return files.items() <= live.data.items() and notes.items() <= live.metadata.annotations.items()

    async def enforced(self, cluster: Cluster, plan: Plan, *, said: Report | None, up: bool) -> Configuration:
        """Have Slurm read what lies there. The syncer sees to it, and `said` is what it says of Slurm."""
        await self._errands.forget(cluster.namespace, cluster=cluster.name, uid=cluster.uid, keep=plan.errands)
        wanted, runs = plan.wanted, said.config if said else ""
        if not cluster.spec.controller.replicas:
            return Configuration(wanted, applied=wanted, message=plan.waits)
        if not cluster.spec.syncer.enabled:
            return Configuration(wanted, reason=NOBODY, message=_NOBODY, final=True)
        found = Configuration(wanted, applied=runs, version=said.version[:_LONGEST_VERSION] if said else "")
        if runs == wanted:
            return replace(found, message=plan.waits)
        if not up:
            return replace(found, reason=READING, message="slurmctld is not up yet")
        await self._hasten(cluster, wanted)
        if said and said.config_trouble:
            return replace(found, reason=NOT_READ, message=said.config_trouble)
        return replace(
            found, reason=READING, message=f"slurmctld is to read {PARAMETER}={wanted}, and the syncer asks it to"
        )

    async def _hasten(self, cluster: Cluster, wanted: str) -> None:
        """Write to slurmctld's Pod: its kubelet looks at it at once then, and brings its files up to date."""
        chosen = ",".join(f"{key}={value}" for key, value in selector(cluster, CONTROLLER).items())
        note = Merge({"metadata": {"annotations": {f"{CONFIG_HASH}-wanted": wanted}}})
        for pod in (await self._client.list(PODS, Scope(namespace=cluster.namespace, labels=chosen))).items:
            await self._client.patch(PODS, pod.metadata.name, note, namespace=cluster.namespace)
