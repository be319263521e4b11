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
from sunk.operator.slurmcluster.builders import secrets
from sunk.operator.slurmcluster.builders.metadata import CONFIG_HASH, CONTROLLER, selector
from sunk.operator.slurmcluster.daemons import slurmdbd
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.rollout.apply import apply
from sunk.operator.slurmcluster.rollout.probe import ProbePods, ProbeResult
from sunk.operator.slurmcluster.rollout.retirement import ConfigurationPlan
from sunk.operator.slurmcluster.rollout.status import ConfigurationProgress
from sunk.operator.slurmcluster.rollout.trial import Trial, slurm_trials, slurmdbd_trial

TRYING: Final = "Trying"
BAD: Final = "BadConfiguration"
READING: Final = "Reading"
NOT_READ: Final = "NotRead"
NOBODY: Final = "NobodyApplies"
_NOBODY: Final = "syncer.enabled is false, so nothing makes Slurm read its configuration. Set it to true"
_LONGEST_VERSION: Final = 64
_TRIED: Final = "testing the new configuration in a trial Pod before applying it"
NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class ConfigurationRollout:
    """Takes a configuration from a plan to what Slurm runs with."""

    def __init__(self, client: Client, probes: ProbePods) -> None:
        self._client = client
        self._probes = probes

    async def try_out(self, cluster: ResolvedCluster, plan: ConfigurationPlan) -> ConfigurationProgress | None:
        """Have new files tried. None means that they are good, or the ones that are there already."""
        wanted = plan.wanted
        trials = await self._trials(cluster, plan.files, wanted)
        results = [await self._run(trial) for trial in trials]
        refused = [
            f"{trial.at}: {result.message}"
            for trial, result in zip(trials, results, strict=True)
            if result.refused and not (trial.optional and result.mute)
        ]
        if refused:
            return ConfigurationProgress(
                wanted,
                reason=BAD,
                message=f"keeping the previous configuration: {'; '.join(refused)}",
                final=True,
            )
        if not all(result.done for result in results):
            keep = [*plan.probes, *(trial.pod["metadata"]["name"] for trial in trials)]
            await self._probes.clean_up(cluster.namespace, cluster=cluster.name, uid=cluster.uid, keep=keep)
            hindered = [result.message for result in results if not result.done and result.message]
            return ConfigurationProgress(wanted, reason=TRYING, message="; ".join((_TRIED, *hindered)))
        return None

    async def _trials(self, cluster: ResolvedCluster, files: Mapping[str, str], wanted: str) -> list[Trial]:
        trials = []
        if not await self._is_live(cluster, clusterobjects.SLURM_CONF, files):
            trials += slurm_trials(cluster, files, wanted)
        if secrets.serves_accounting(cluster):
            accounting, annotations = {slurmdbd.FILE: slurmdbd.slurmdbd_conf(cluster)}, slurmdbd.annotations(cluster)
            if not await self._is_live(cluster, clusterobjects.SLURMDBD_CONF, accounting, annotations=annotations):
                trials.append(slurmdbd_trial(cluster, accounting))
        return trials

    async def _run(self, trial: Trial) -> ProbeResult:
        await apply(self._client, [trial.candidate])
        return await self._probes.ask(trial.pod, retry_after=trial.retry_after)

    async def _is_live(
        self,
        cluster: ResolvedCluster,
        name: str,
        files: Mapping[str, str],
        *,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> bool:
        try:
            live = await self._client.get(CONFIG_MAPS, cluster.named(name), namespace=cluster.namespace)
        except NotFound:
            return False
        return files.items() <= live.data.items() and annotations.items() <= live.metadata.annotations.items()

    async def bring_into_force(
        self, cluster: ResolvedCluster, plan: ConfigurationPlan, *, report: Report | None, up: bool
    ) -> ConfigurationProgress:
        """Have Slurm read what lies there. The syncer sees to it, and `report` is what it says of Slurm."""
        await self._probes.clean_up(cluster.namespace, cluster=cluster.name, uid=cluster.uid, keep=plan.probes)
        wanted, running = plan.wanted, report.config if report else ""
        if not cluster.spec.controller.replicas:
            return ConfigurationProgress(wanted, applied=wanted, message=plan.waits)
        if not cluster.spec.syncer.enabled:
            return ConfigurationProgress(wanted, reason=NOBODY, message=_NOBODY, final=True)
        version = report.version[:_LONGEST_VERSION] if report else ""
        progress = ConfigurationProgress(wanted, applied=running, version=version)
        if running == wanted:
            return replace(progress, message=plan.waits)
        if not up:
            return replace(progress, reason=READING, message="slurmctld is not running yet")
        await self._hasten(cluster, wanted)
        if report and report.config_trouble:
            return replace(progress, reason=NOT_READ, message=report.config_trouble)
        return replace(progress, reason=READING, message=f"waiting for slurmctld to read {PARAMETER}={wanted}")

    async def _hasten(self, cluster: ResolvedCluster, wanted: str) -> None:
        """Write to slurmctld's Pod: its kubelet looks at it at once then, and brings its files up to date."""
        chosen = ",".join(f"{key}={value}" for key, value in selector(cluster, CONTROLLER).items())
        note = Merge({"metadata": {"annotations": {f"{CONFIG_HASH}-wanted": wanted}}})
        for pod in (await self._client.list(PODS, Scope(namespace=cluster.namespace, labels=chosen))).items:
            await self._client.patch(PODS, pod.metadata.name, note, namespace=cluster.namespace)
