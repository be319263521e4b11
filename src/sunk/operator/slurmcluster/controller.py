"""The SlurmCluster controller: one object becomes a Slurm cluster, and is kept one.

A reconcile builds everything from the spec (`resolve`, then `objects`, which do no I/O), and applies it. What
differs from other operators is the configuration. A mistake in slurm.conf would cost the whole cluster at its next
start, so new files are first tried by the very daemon that would read them (`trial`). Until it has said yes nothing of
the new spec is applied; if it says no, its words are the condition, and the cluster stays as it was.

Then Slurm is to read them. The operator never talks to Slurm: the syncer does, and says what it finds in the status.

A SlurmCluster that is deleted goes after its NodeSets, whose nodes leave when their jobs have ended. Claims and Secrets
stay.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself, owner
from sunk.kube.control.events import Recorder, Reference, about
from sunk.kube.core import PODS, Pod
from sunk.kube.resource import Key, Record
from sunk.model import names
from sunk.model.cluster.kind import LONGEST_WORD, OF_SYNCER, SLURMCLUSTER
from sunk.model.contract.clusterobjects import named
from sunk.model.contract.people import AGENT, fingerprint
from sunk.model.nodeset import Condition
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NODESETS, NodeSet
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster, report
from sunk.operator.slurmcluster.builders import directories, secrets
from sunk.operator.slurmcluster.builders.metadata import CONFIGURATION, SYNCER, labels
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import ResolvedCluster, resolve
from sunk.operator.slurmcluster.rollout import people, references
from sunk.operator.slurmcluster.rollout.apply import DEPLOYMENTS, STATEFULSETS, Known, apply, check_owned, prune
from sunk.operator.slurmcluster.rollout.certificates import NONE, CertificateProgress, CertificateRollout
from sunk.operator.slurmcluster.rollout.configuration import ConfigurationRollout
from sunk.operator.slurmcluster.rollout.people import PUBLISHED, AgentObservation, PublishedPeople
from sunk.operator.slurmcluster.rollout.probe import ProbePods, by_cluster
from sunk.operator.slurmcluster.rollout.removal import ClusterRemoval
from sunk.operator.slurmcluster.rollout.retirement import ASK_AGAIN, ConfigurationPlan, PartitionRetirement
from sunk.operator.slurmcluster.rollout.secrets import MissingSecret, ensure
from sunk.operator.slurmcluster.rollout.status import (
    NO_NODE_FITS,
    ClusterObservation,
    ConfigurationProgress,
    Workload,
    leaving_message,
    status,
)
from sunk.service.part import Part, Setting
from sunk.service.scoped import Scoped

log = logging.getLogger(__name__)

SOON: Final = 5.0
LATER: Final = 30.0
_OURS: Final = f"{names.MANAGED_BY}=sunk"


def slurmclusters(setting: Setting) -> Part:
    """Build the part of the operator that looks after SlurmClusters."""
    clusters = Scoped(setting, SLURMCLUSTERS)
    deployments = Scoped(setting, DEPLOYMENTS, labels=_OURS, indexes={"owner": _owner})
    statefulsets = Scoped(setting, STATEFULSETS, labels=_OURS, indexes={"owner": _owner})
    sets = Scoped(setting, NODESETS, indexes={"owner": _owner})
    probes: Collection[Pod] = Collection(
        setting.client, PODS, Scope(labels=names.PROBE), indexes={"cluster": by_cluster}
    )
    published = Scoped(setting, PUBLISHED, labels=people.SELECTOR)
    reconciler = SlurmClusterReconciler(
        setting,
        clusters=clusters,
        workloads=(deployments, statefulsets),
        sets=sets,
        probes=probes,
        published=published,
    )
    of_cluster = owner(SLURMCLUSTER.name)
    sources: list[Source[Any, Key]] = [Source(collection.store, itself) for collection in clusters.collections]
    for owned in (deployments, statefulsets, sets, published):
        sources += [Source(collection.store, of_cluster) for collection in owned.collections]
    sources.append(Source(probes.store, of_cluster))
    effort = Effort(workers=setting.workers, patience=120.0)
    controller: Controller[Key] = Controller("slurmclusters", reconciler.reconcile, sources=sources, effort=effort)
    scopes = (clusters, deployments, statefulsets, sets, published)
    follows: tuple[Collection[Any], ...] = (
        probes,
        *(collection for scope in scopes for collection in scope.collections),
    )
    return Part("slurmclusters", follows=follows, controllers=(controller,))


class SlurmClusterReconciler:
    """Brings one SlurmCluster at a time to what it should be."""

    def __init__(  # noqa: PLR0913 - one for each thing that it reads
        self,
        setting: Setting,
        *,
        clusters: Scoped[SlurmCluster],
        workloads: tuple[Scoped[Workload], ...],
        sets: Scoped[NodeSet],
        probes: Collection[Pod],
        published: Scoped[PublishedPeople],
    ) -> None:
        self._client = setting.client
        self._recorder: Recorder = setting.recorder
        self._clusters = clusters
        self._workloads = workloads
        self._sets = sets
        self._published = published
        self._rollout = ConfigurationRollout(setting.client, ProbePods(probes))
        self._retirement = PartitionRetirement(setting.client, ProbePods(probes))
        self._certificates = CertificateRollout(setting.client)
        self._removal = ClusterRemoval(setting, clusters=clusters, sets=sets)
        self._known: Known = {}

    async def reconcile(self, key: Key) -> Requeue | None:
        cluster = self._clusters.get(key)
        if cluster is None:
            self._known = {at: uid for at, uid in self._known.items() if at[:2] != (key.namespace, key.name)}
            return None
        if cluster.metadata.deletion_timestamp is not None:
            return await self._removal.proceed(cluster)
        cluster = await self._without_answered_acceptance(await self._removal.with_finalizer(cluster))
        certificates = NONE
        try:
            certificates = await self._certificates.proceed(_unresolved(cluster), known=self._known)
            resolved = replace(_resolved(cluster), certificate=certificates.active)
            etc = await references.etc_files(self._client, resolved)
            plan = await self._retirement.plan(resolved, known=cluster.status.config_applied, etc=etc)
            later = await self._build(cluster, resolved, plan=plan, certificates=certificates)
        except (Refusal, MissingSecret) as wrong:
            await self._switch(cluster, certificates)
            later = await self._report_refusal(cluster, str(wrong))
        return _sooner(later, certificates)

    async def _without_answered_acceptance(self, cluster: SlurmCluster) -> SlurmCluster:
        """Take off the word by which a person has accepted something, once the syncer has answered it."""
        word = cluster.metadata.annotations.get(names.ACCEPT_SUSPICION)
        if word is None or word.strip()[:LONGEST_WORD] != cluster.status.suspicion_answered:
            return cluster
        at = {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version}
        patch = Merge({"metadata": at | {"annotations": {names.ACCEPT_SUSPICION: None}}})
        return await self._clusters.of(cluster.key).patch(cluster.key, patch)

    async def _build(
        self,
        cluster: SlurmCluster,
        resolved: ResolvedCluster,
        *,
        plan: ConfigurationPlan,
        certificates: CertificateProgress,
    ) -> Requeue | None:
        everything = objects(resolved, files=plan.files)
        await references.check(self._client, resolved)
        await check_owned(self._client, everything, known=self._known)
        for secret in secrets.needed(resolved):
            await ensure(self._client, secret, namespace=resolved.namespace, labels=labels(resolved, CONFIGURATION))
        progress = await self._rollout.try_out(resolved, plan)
        if progress is None:
            await apply(self._client, everything, known=self._known)
            wanted = (*everything, *certificates.objects)
            await prune(self._client, wanted, namespace=resolved.namespace, cluster=resolved.name, uid=resolved.uid)
            progress = await self._rollout.bring_into_force(
                resolved, plan, report=report(cluster), up=self._is_up(cluster)
            )
        else:
            await self._switch(cluster, certificates)
        self._record_events(cluster, progress)
        await self._write_status(cluster, progress)
        if progress.wanted == progress.applied:
            return _recheck(resolved, plan)
        return Requeue(after=LATER if progress.final else SOON)

    async def _switch(self, cluster: SlurmCluster, certificates: CertificateProgress) -> None:
        deployment = self._parts(cluster).get(SYNCER.name)
        await self._certificates.switch(_unresolved(cluster), deployment, active=certificates.active)

    def _is_up(self, cluster: SlurmCluster) -> bool:
        """Whether slurmctld is there, and is the one that was last asked for."""
        controller = self._parts(cluster).get("controller")
        return controller is not None and controller.there

    def _parts(self, cluster: SlurmCluster) -> dict[str, Workload]:
        prefix = f"{cluster.metadata.name}-"
        owned = (workload for scoped in self._workloads for workload in scoped.by("owner", cluster.metadata.uid))
        return {workload.metadata.name.removeprefix(prefix): workload for workload in owned}

    async def _report_refusal(self, cluster: SlurmCluster, problem: str) -> Requeue:
        """Say what is wrong, and leave everything as it is."""
        self._warn(cluster, "Refused", problem)
        configuration = ConfigurationProgress(
            wanted="", applied=cluster.status.config_applied, reason="Refused", message=problem
        )
        await self._write_status(cluster, configuration, problem=problem)
        return Requeue(after=LATER)

    def _record_events(self, cluster: SlurmCluster, progress: ConfigurationProgress) -> None:
        if progress.final and progress.wanted != progress.applied:
            self._warn(cluster, progress.reason, progress.message)
        elif progress.applied == progress.wanted != cluster.status.config_applied:
            self._tell(cluster, "Configured", f"Slurm now runs configuration {progress.wanted}", action="Configure")

    def _tell(self, cluster: SlurmCluster, reason: str, text: str, *, action: str) -> None:
        self._recorder.tell(_about(cluster), reason, text, action=action)

    def _warn(self, cluster: SlurmCluster, reason: str, text: str) -> None:
        # As a note and not as a value in one: what is wrong now must not be counted to what was wrong a minute ago.
        self._recorder.warn(_about(cluster), reason, text, action="Build")

    async def _write_status(self, cluster: SlurmCluster, progress: ConfigurationProgress, *, problem: str = "") -> None:
        observed = ClusterObservation(
            workloads=self._parts(cluster),
            node_sets=self._sets.by("owner", cluster.metadata.uid),
            configuration=progress,
            problem=problem,
            report=report(cluster),
            agent=self._agent(cluster),
        )
        wanted = status(cluster.metadata, cluster.spec, before=cluster.status, observed=observed)
        for condition in wanted.conditions:
            if condition.reason == NO_NODE_FITS:
                self._warn(cluster, condition.reason, condition.message)
        self._tell_of_directories(cluster, wanted.conditions)
        if observed.leaving:
            self._tell(cluster, "Leaving", leaving_message(observed.leaving), action="Prune")
        if wanted != cluster.status:
            # What the syncer has written is left out, not repeated: it may have written again since we read.
            ours = {key: value for key, value in to_builtins(wanted).items() if key not in OF_SYNCER}
            await self._clusters.of(cluster.key).patch(cluster.key, Merge({"status": ours}), status=True)

    def _agent(self, cluster: SlurmCluster) -> AgentObservation:
        key = Key(cluster.key.namespace, named(cluster.key.name, AGENT))
        found = self._published.get(key)
        ours = found is not None and cluster.metadata.uid in _owner(found)
        return AgentObservation(
            report=found.data.report if found is not None and ours else "",
            settings=fingerprint(directories.settings(_unresolved(cluster))),
        )

    def _tell_of_directories(self, cluster: SlurmCluster, now: Iterable[Condition]) -> None:
        found = people.news(cluster.status.conditions, now)
        if found is None:
            return
        if found.status == "True":
            self._tell(cluster, f"Directories{found.reason}", found.message, action="ReadDirectories")
        else:
            self._warn(cluster, f"Directory{found.reason}", found.message)


def _resolved(cluster: SlurmCluster) -> ResolvedCluster:
    key = cluster.key
    return resolve(cluster.spec, name=key.name, namespace=key.namespace, uid=cluster.metadata.uid)


def _unresolved(cluster: SlurmCluster) -> ResolvedCluster:
    """For what has to go on though the spec may be refused: its names and its owner."""
    key = cluster.key
    return ResolvedCluster(name=key.name, namespace=key.namespace, uid=cluster.metadata.uid, spec=cluster.spec)


def _sooner(later: Requeue | None, certificates: CertificateProgress) -> Requeue | None:
    if certificates.again is None:
        return later
    return Requeue(after=certificates.again if later is None else min(later.after, certificates.again))


def _recheck(resolved: ResolvedCluster, plan: ConfigurationPlan) -> Requeue | None:
    """When all is well: for a queue to empty, or for an edit of people's own files, of which no watch tells."""
    if plan.waits:
        return Requeue(after=ASK_AGAIN)
    return Requeue(after=LATER) if resolved.spec.slurm_config.slurm_ctld.etc_config_map else None


def _about(cluster: SlurmCluster) -> Reference:
    return about(cluster, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)


def _owner(record: Record) -> tuple[str, ...]:
    for reference in record.metadata.owner_references:
        if reference.controller and reference.kind == SLURMCLUSTER.name:
            return (reference.uid,)
    return ()
