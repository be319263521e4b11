"""What people see of a SlurmCluster: which of its parts are there."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from sunk.kube.resource import Metadata, Record
from sunk.model import names
from sunk.model.cluster.kind import SlurmClusterSpec, SlurmClusterStatus
from sunk.model.contract import conditions
from sunk.model.contract.report import Report
from sunk.model.wording import counted
from sunk.objects.nodesets import NodeSet
from sunk.operator.conditions import DraftCondition, dated
from sunk.operator.slurmcluster.builders.metadata import DIRECTORY
from sunk.operator.slurmcluster.rollout import people
from sunk.operator.slurmcluster.rollout.people import AgentObservation

READY: Final = "Ready"
NO_NODE_FITS: Final = "NoNodeFits"
UNREACHABLE: Final = "SlurmUnreachable"
STUCK: Final = "Stuck"
DELAYED: Final = "Delayed"
IN_PART: Final = (conditions.HELD, STUCK, DELAYED)
ASIDE: Final = (conditions.DIRECTORIES_AVAILABLE,)
"""Conditions that Ready does not ask for: users who are known work on while a directory is down, or its agent."""
_NOWHERE: Final = (
    "no Node fits. Check its affinity, tolerations and resources against the labels and taints of the Nodes; disable it "
    "if its Nodes do not exist yet"
)
_CLAIMED: Final = "A Node serves only one NodeSet: remove it there, or select other Nodes here"
_OLD: Final = "drains do not follow cordons, and the reported state of nodes may be outdated"
_RETURNS: Final = "being deleted; will be recreated when its nodes are gone"


class WorkloadStatus(Struct, frozen=True, gc=False, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class WorkloadSpec(Struct, frozen=True, gc=False):
    replicas: int = 1


class Workload(Record, frozen=True, gc=False):
    """A Deployment or a StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def there(self) -> bool:
        """All copies are ready, and made from what was last asked for."""
        now = self.status
        settled = now.observed_generation >= self.metadata.generation and now.updated_replicas >= self.spec.replicas
        return settled and now.ready_replicas >= self.spec.replicas


class ConfigurationProgress(Struct, frozen=True):
    """How far the configuration has come: hash wanted, hash in force, and what stands between them."""

    wanted: str = ""
    applied: str = ""
    reason: str = "Waiting"
    message: str = ""
    final: bool = False
    """Nothing will come of it before somebody changes something."""
    version: str = ""
    """Of the slurmctld that runs with it, if it was asked just now."""


class ClusterObservation(Struct, frozen=True):
    """Everything that a status is made of. With a `problem` nothing of the spec could be acted upon."""

    workloads: dict[str, Workload]
    """By what they are called behind the name of the cluster: controller, login, …"""
    node_sets: Sequence[NodeSet]
    configuration: ConfigurationProgress
    problem: str = ""
    report: Report | None = None
    """What the syncer says; nothing, if it has not said anything yet."""
    agent: AgentObservation = AgentObservation()

    @property
    def staying(self) -> list[NodeSet]:
        return [node_set for node_set in self.node_sets if node_set.metadata.deletion_timestamp is None]

    @property
    def leaving(self) -> list[NodeSet]:
        return [node_set for node_set in self.node_sets if node_set.metadata.deletion_timestamp is not None]


def status(
    meta: Metadata, spec: SlurmClusterSpec, *, before: SlurmClusterStatus, observed: ClusterObservation
) -> SlurmClusterStatus:
    drafts = list(_draft_conditions(spec, observed))
    # What waits for a person or for better times on a few nodes keeps nobody from using the others.
    lacking = [
        f"{kind}: {message}"
        for kind, holds, reason, message in drafts
        if not holds and reason not in IN_PART and kind not in ASIDE
    ]
    ready: DraftCondition = (
        (READY, False, "Refused", observed.problem)
        if observed.problem
        else (
            READY,
            not lacking,
            conditions.LACKING if lacking else "Available",
            "; ".join(lacking) or "All components are available",
        )
    )
    return SlurmClusterStatus(
        observed_generation=meta.generation,
        slurm_version=observed.configuration.version or before.slurm_version,
        config_wanted=observed.configuration.wanted or before.config_wanted,
        config_applied=observed.configuration.applied or before.config_applied,
        node_sets=len(observed.staying),
        nodes_desired=sum(node_set.status.desired_number_scheduled for node_set in observed.staying),
        nodes_ready=sum(node_set.status.number_ready for node_set in observed.staying),
        conditions=tuple(dated([ready, *drafts], before=before.conditions, generation=meta.generation)),
        syncer=before.syncer,
        suspicion_answered=before.suspicion_answered,
    )


def _draft_conditions(spec: SlurmClusterSpec, observed: ClusterObservation) -> Iterable[DraftCondition]:
    yield _part(observed, conditions.CONTROLLER_AVAILABLE, ("controller",) if spec.controller.replicas else ())
    ours = spec.accounting.enabled and not spec.accounting.remote_host
    own = ours and not spec.accounting.external.host
    yield _part(
        observed, conditions.ACCOUNTING_AVAILABLE, (*(("mysql",) if own else ()), *(("accounting",) if ours else ()))
    )
    yield _part(observed, conditions.LOGIN_AVAILABLE, ("login",) if spec.login.enabled and spec.login.replicas else ())
    agent = _part(observed, conditions.DIRECTORIES_AVAILABLE, (DIRECTORY.name,))
    yield people.condition(spec, agent=agent, observed=observed.agent)
    yield _node_sets(spec, observed)
    yield _configuration(observed.configuration)
    yield _in_step(spec, observed)


def _part(observed: ClusterObservation, kind: str, wanted: tuple[str, ...]) -> DraftCondition:
    if not wanted:
        return kind, True, "NotWanted", "disabled, or not managed by SUNK"
    missing = [name for name in wanted if name not in observed.workloads]
    if missing:
        return kind, False, conditions.NOT_MADE, f"{', '.join(missing)} not created yet"
    late = [_words(name, observed.workloads[name]) for name in wanted if not observed.workloads[name].there]
    return (
        (kind, False, conditions.NOT_READY, ", ".join(late))
        if late
        else (kind, True, "Ready", f"{', '.join(wanted)}: ready")
    )


def _words(name: str, workload: Workload) -> str:
    return f"{name}: {workload.status.ready_replicas} of {workload.spec.replicas} ready"


def _node_sets(spec: SlurmClusterSpec, observed: ClusterObservation) -> DraftCondition:
    kind = "NodeSetsAvailable"
    unfit = [node_set for node_set in observed.staying if _has_nowhere_to_go(node_set)]
    if unfit:
        return kind, False, NO_NODE_FITS, "; ".join(_nowhere(unfit))
    late = [f"{node_set.metadata.name}: {_nodes(node_set)}" for node_set in observed.staying if _lacks(node_set)]
    late += [f"{node_set.metadata.name}: {_RETURNS}" for node_set in observed.leaving if _is_wanted(spec, node_set)]
    if late:
        return kind, False, conditions.NODES_MISSING, ", ".join(late)
    told = f"all nodes ready in {counted(len(observed.staying), 'NodeSet')}" if observed.staying else "no NodeSets"
    return kind, True, "Ready", f"{told}; {leaving_message(observed.leaving)}" if observed.leaving else told


def _nowhere(unfit: Iterable[NodeSet]) -> Iterator[str]:
    """Why they have no Nodes: those that would fit are another's, or there are none."""
    alone = []
    for node_set in unfit:
        if node_set.status.nodes_claimed_by:
            holders = ", ".join(node_set.status.nodes_claimed_by)
            yield f"compute.nodes.{_definition(node_set)}: all Nodes that would fit are claimed by NodeSet {holders}. {_CLAIMED}"
        else:
            alone.append(f"compute.nodes.{_definition(node_set)}")
    if alone:
        yield f"{', '.join(alone)}: {_NOWHERE}"


def leaving_message(leaving: Iterable[NodeSet]) -> str:
    """What is to be said about NodeSets that nobody asks for any more, and that wait for their jobs."""
    told = ", ".join(sorted(node_set.metadata.name for node_set in leaving))
    return f"the nodes of {told} leave when their jobs have ended, or at once if the NodeSet has {names.FORCE_DELETION}=true"


def _is_wanted(spec: SlurmClusterSpec, node_set: NodeSet) -> bool:
    definition = spec.compute.nodes.get(_definition(node_set))
    return definition is not None and definition.enabled is True


def _definition(node_set: NodeSet) -> str:
    return node_set.metadata.name.removeprefix(f"{node_set.spec.cluster}-")


def _has_nowhere_to_go(node_set: NodeSet) -> bool:
    """Also where it asks for as many as there are, and gets what it asks for by having none."""
    seen = node_set.status.observed_generation >= node_set.metadata.generation
    return seen and node_set.spec.replicas != 0 and not node_set.status.number_feasible and not node_set.status.members


def _lacks(node_set: NodeSet) -> bool:
    seen = node_set.status.observed_generation >= node_set.metadata.generation
    return not seen or node_set.status.number_ready < node_set.status.desired_number_scheduled


def _nodes(node_set: NodeSet) -> str:
    told = next(
        (
            condition.message
            for condition in node_set.status.conditions
            if condition.type == READY and condition.status != "True"
        ),
        "",
    )
    return told or f"{node_set.status.number_ready} of {node_set.status.desired_number_scheduled} nodes ready"


def _configuration(progress: ConfigurationProgress) -> DraftCondition:
    if progress.wanted and progress.wanted == progress.applied:
        return conditions.CONFIG_APPLIED, True, "Applied", progress.message or "Slurm runs this configuration"
    return conditions.CONFIG_APPLIED, False, progress.reason, progress.message or "not applied yet"


def _in_step(spec: SlurmClusterSpec, observed: ClusterObservation) -> DraftCondition:
    """Whether Slurm and Kubernetes are kept in step, and what of it waits."""
    if not spec.syncer.enabled or not spec.syncer.replicas or not spec.controller.replicas:
        cause = "controller.replicas is 0" if spec.syncer.enabled and spec.syncer.replicas else "the syncer is disabled"
        return (
            conditions.IN_STEP,
            False,
            conditions.SWITCHED_OFF,
            f"{cause}: nothing drains, removes or configures Slurm nodes",
        )
    kind, there, reason, message = _part(observed, conditions.IN_STEP, ("syncer",))
    report = observed.report
    # First, since a syncer that cannot read Slurm is not ready either, and this is why.
    if report is not None and report.unseen:
        return kind, False, UNREACHABLE, f"{report.unseen}; {_OLD}"
    if not there:
        return kind, False, reason, f"{message}; {_OLD}"
    return _waits(report) if report is not None else (kind, False, "Waiting", "the syncer has not reported yet")


def _waits(report: Report) -> DraftCondition:
    if report.held:
        return (
            conditions.IN_STEP,
            False,
            conditions.HELD,
            f"deletions are held until this is confirmed: {report.held}",
        )
    if report.stuck:
        return conditions.IN_STEP, False, STUCK, "; ".join(report.stuck)
    if report.delayed:
        return conditions.IN_STEP, False, DELAYED, report.delayed
    return conditions.IN_STEP, True, conditions.IN_STEP, "Slurm nodes and their Pods are in sync"
