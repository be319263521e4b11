"""The SlurmCluster controller: one object becomes a Slurm cluster, and is kept one.

A reconcile builds everything anew from the spec (`view` and the builders, which do no I/O), and applies it. What
differs from other operators is the configuration. A mistake in slurm.conf would cost the whole cluster at its next
start, so new files are first tried by the very daemon that would read them (`trial`). Until it has said yes nothing of
the new spec is applied; if it says no, its words are the condition, and the cluster stays as it was.

Then Slurm is to read them. The operator never talks to Slurm: the syncer does, and says what it finds in the status.

A SlurmCluster that is deleted goes after its NodeSets, whose nodes leave when their jobs have ended. Claims and Secrets
stay.
"""

import logging
from typing import Any, Final

from msgspec import to_builtins

from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself, owner
from sunk.kube.control.events import Recorder, Reference, about
from sunk.kube.core import PODS, Pod
from sunk.kube.resource import Key, Record
from sunk.model import names
from sunk.model.cluster.kind import LONGEST_WORD, OF_SYNCER, SLURMCLUSTER
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NODESETS, NodeSet
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster, report
from sunk.operator.slurmcluster.builders import keys
from sunk.operator.slurmcluster.builders.metadata import CONFIGURATION, labels
from sunk.operator.slurmcluster.builders.objects import objects
from sunk.operator.slurmcluster.builders.secrets import Missing, ensure
from sunk.operator.slurmcluster.rollout import references
from sunk.operator.slurmcluster.rollout.apply import DEPLOYMENTS, STATEFULSETS, Known, apply, check_owned, prune
from sunk.operator.slurmcluster.rollout.configuration import Enforcing
from sunk.operator.slurmcluster.rollout.probe import ERRAND, Errands, by_cluster
from sunk.operator.slurmcluster.rollout.removal import Removal
from sunk.operator.slurmcluster.rollout.retirement import AGAIN, Farewell, Plan
from sunk.operator.slurmcluster.rollout.status import NO_NODE_FITS, Configuration, Sight, Workload, farewell, status
from sunk.operator.slurmcluster.view import Cluster, view
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
    errands: Collection[Pod] = Collection(setting.client, PODS, Scope(labels=ERRAND), indexes={"cluster": by_cluster})
    keeper = Keeper(setting, clusters=clusters, workloads=(deployments, statefulsets), sets=sets, errands=errands)
    of_cluster = owner(SLURMCLUSTER.name)
    sources: list[Source[Any, Key]] = [Source(one.store, itself) for one in clusters.collections]
    for owned in (deployments, statefulsets, sets):
        sources += [Source(one.store, of_cluster) for one in owned.collections]
    sources.append(Source(errands.store, of_cluster))
    effort = Effort(workers=setting.workers, patience=120.0)
    controller: Controller[Key] = Controller("slurmclusters", keeper.reconcile, sources=sources, effort=effort)
    parts = (clusters, deployments, statefulsets, sets)
    follows: tuple[Collection[Any], ...] = (errands, *(each for one in parts for each in one.collections))
    return Part("slurmclusters", follows=follows, controllers=(controller,))


class Keeper:
    """Brings one SlurmCluster at a time to what it should be."""

    def __init__(
        self,
        setting: Setting,
        *,
        clusters: Scoped[SlurmCluster],
        workloads: tuple[Scoped[Workload], ...],
        sets: Scoped[NodeSet],
        errands: Collection[Pod],
    ) -> None:
        self._client = setting.client
        self._recorder: Recorder = setting.recorder
        self._clusters = clusters
        self._workloads = workloads
        self._sets = sets
        self._enforcing = Enforcing(setting.client, Errands(errands))
        self._farewell = Farewell(setting.client, Errands(errands))
        self._removal = Removal(setting, clusters=clusters, sets=sets)
        self._known: Known = {}

    async def reconcile(self, key: Key) -> Requeue | None:
        found = self._clusters.get(key)
        if found is None:
            self._known = {at: uid for at, uid in self._known.items() if at[:2] != (key.namespace, key.name)}
            return None
        if found.metadata.deletion_timestamp is not None:
            return await self._removal.go_on(found)
        found = await self._taken_off(await self._removal.guarded(found))
        try:
            cluster = view(found.spec, name=key.name, namespace=key.namespace, uid=found.metadata.uid)
            etc = await references.etc_files(self._client, cluster)
            plan = await self._farewell.plan(cluster, known=found.status.config_applied, etc=etc)
            everything = objects(cluster, files=plan.files)
            return await self._built(found, cluster, plan=plan, everything=everything)
        except (Refusal, Missing) as wrong:
            return await self._refused(found, str(wrong))

    async def _taken_off(self, found: SlurmCluster) -> SlurmCluster:
        """Take off the word by which a person has accepted something, once the syncer has answered it."""
        word = found.metadata.annotations.get(names.ACCEPT_SUSPICION)
        if word is None or word.strip()[:LONGEST_WORD] != found.status.suspicion_answered:
            return found
        at = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        patch = Merge({"metadata": at | {"annotations": {names.ACCEPT_SUSPICION: None}}})
        return await self._clusters.of(found.key).patch(found.key, patch)

    async def _built(
        self, found: SlurmCluster, cluster: Cluster, *, plan: Plan, everything: tuple[dict[str, Any], ...]
    ) -> Requeue | None:
        await references.check(self._client, cluster)
        await check_owned(self._client, everything, known=self._known)
        for one in keys.needed(cluster):
            await ensure(self._client, one, namespace=cluster.namespace, labels=labels(cluster, CONFIGURATION))
        judged = await self._enforcing.judged(cluster, plan)
        if judged is None:
            await apply(self._client, everything, known=self._known)
            await prune(self._client, everything, namespace=cluster.namespace, cluster=cluster.name, uid=cluster.uid)
            judged = await self._enforcing.enforced(cluster, plan, said=report(found), up=self._is_up(found))
        self._told(found, judged)
        await self._seen(found, judged)
        if judged.wanted == judged.applied:
            return _look_again(cluster, plan)
        return Requeue(after=LATER if judged.final else SOON)

    def _is_up(self, found: SlurmCluster) -> bool:
        """Whether slurmctld is there, and is the one that was last asked for."""
        controller = self._parts(found).get("controller")
        return controller is not None and controller.there

    def _parts(self, found: SlurmCluster) -> dict[str, Workload]:
        prefix = f"{found.metadata.name}-"
        owned = (one for scoped in self._workloads for one in scoped.by("owner", found.metadata.uid))
        return {one.metadata.name.removeprefix(prefix): one for one in owned}

    async def _refused(self, found: SlurmCluster, problem: str) -> Requeue:
        """Say what is wrong, and leave everything as it is."""
        self._warn(found, "Refused", problem)
        configuration = Configuration(wanted="", applied=found.status.config_applied, reason="Refused", message=problem)
        await self._seen(found, configuration, problem=problem)
        return Requeue(after=LATER)

    def _told(self, found: SlurmCluster, judged: Configuration) -> None:
        if judged.final and judged.wanted != judged.applied:
            self._warn(found, judged.reason, judged.message)
        elif judged.applied == judged.wanted != found.status.config_applied:
            self._tell(found, "Configured", f"Slurm runs with configuration {judged.wanted}", action="Configure")

    def _tell(self, found: SlurmCluster, reason: str, text: str, *, action: str) -> None:
        self._recorder.tell(_about(found), reason, text, action=action)

    def _warn(self, found: SlurmCluster, reason: str, text: str) -> None:
        # As a note and not as a value in one: what is wrong now must not be counted to what was wrong a minute ago.
        self._recorder.warn(_about(found), reason, text, action="Build")

    async def _seen(self, found: SlurmCluster, judged: Configuration, *, problem: str = "") -> None:
        sight = Sight(
            workloads=self._parts(found),
            node_sets=self._sets.by("owner", found.metadata.uid),
            configuration=judged,
            problem=problem,
            report=report(found),
        )
        wanted = status(found.metadata, found.spec, before=found.status, sight=sight)
        for one in wanted.conditions:
            if one.reason == NO_NODE_FITS:
                self._warn(found, one.reason, one.message)
        if sight.leaving:
            self._tell(found, "Leaving", farewell(sight.leaving), action="Prune")
        if wanted != found.status:
            # What the syncer has written is left out, not repeated: it may have written anew since we read.
            ours = {key: value for key, value in to_builtins(wanted).items() if key not in OF_SYNCER}
            await self._clusters.of(found.key).patch(found.key, Merge({"status": ours}), status=True)


def _look_again(cluster: Cluster, plan: Plan) -> Requeue | None:
    """When all is well: for a queue to empty, or for an edit of people's own files, of which no watch tells."""
    if plan.waits:
        return Requeue(after=AGAIN)
    return Requeue(after=LATER) if cluster.spec.slurm_config.slurm_ctld.etc_config_map else None


def _about(found: SlurmCluster) -> Reference:
    return about(found, kind=SLURMCLUSTER.name, api_version=SLURMCLUSTER.api_version)


def _owner(record: Record) -> tuple[str, ...]:
    for reference in record.metadata.owner_references:
        if reference.controller and reference.kind == SLURMCLUSTER.name:
            return (reference.uid,)
    return ()
