"""What people see of a SlurmCluster: which of its parts are there."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from sunk.kube.resource import Metadata, Record
from sunk.model import names
from sunk.model.cluster.kind import SlurmClusterSpec, SlurmClusterStatus
from sunk.model.contract import conditions
from sunk.model.contract.conditions import CONFIG_APPLIED, HELD, IN_STEP, READY
from sunk.model.contract.report import Report
from sunk.model.nodeset import Condition
from sunk.objects.nodesets import NodeSet

NO_NODE_FITS: Final = "NoNodeFits"
UNREACHABLE: Final = "SlurmUnreachable"
STUCK: Final = "Stuck"
DELAYED: Final = "Delayed"
IN_PART: Final = (HELD, STUCK, DELAYED)
_LONGEST: Final = 1000
_NOWHERE: Final = (
    "no Node fits. Look at its affinity, tolerations and resources, and at the labels and taints of Nodes; disable it if "
    "its Nodes are still to come"
)
_CLAIMED: Final = "A Node serves one NodeSet: take it out there, or choose other Nodes here"
_OLD: Final = "nothing follows a cordon, and what is said about nodes may be old"
_RETURNS: Final = "it was taken out and is wanted again: it is made anew when its nodes have left"


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


class Configuration(Struct, frozen=True):
    """How far the configuration has come: hash wanted, hash in force, and what stands between them."""

    wanted: str = ""
    applied: str = ""
    reason: str = "Waiting"
    message: str = ""
    final: bool = False
    """Nothing will come of it before somebody changes something."""
    version: str = ""
    """Of the slurmctld that runs with it, if it was asked just now."""


class Sight(Struct, frozen=True):
    """Everything that a status is made of. With a `problem` nothing of the spec could be acted upon."""

    workloads: dict[str, Workload]
    """By what they are called behind the name of the cluster: controller, login, …"""
    node_sets: Sequence[NodeSet]
    configuration: Configuration
    problem: str = ""
    report: Report | None = None
    """What the syncer says; nothing, if it has not said anything yet."""

    @property
    def staying(self) -> list[NodeSet]:
        return [one for one in self.node_sets if one.metadata.deletion_timestamp is None]

    @property
    def leaving(self) -> list[NodeSet]:
        return [one for one in self.node_sets if one.metadata.deletion_timestamp is not None]


Said = tuple[str, bool, str, str]


def status(meta: Metadata, spec: SlurmClusterSpec, *, before: SlurmClusterStatus, sight: Sight) -> SlurmClusterStatus:
    said = list(_said(spec, sight))
    # What waits for a person or for better times on a few nodes keeps nobody from using the others.
    lacking = [f"{kind}: {message}" for kind, holds, reason, message in said if not holds and reason not in IN_PART]
    ready: Said = (
        (READY, False, "Refused", sight.problem)
        if sight.problem
        else (
            READY,
            not lacking,
            conditions.LACKING if lacking else "Available",
            "; ".join(lacking) or "all of it is there",
        )
    )
    return SlurmClusterStatus(
        observed_generation=meta.generation,
        slurm_version=sight.configuration.version or before.slurm_version,
        config_wanted=sight.configuration.wanted or before.config_wanted,
        config_applied=sight.configuration.applied or before.config_applied,
        node_sets=len(sight.staying),
        nodes_desired=sum(one.status.desired_number_scheduled for one in sight.staying),
        nodes_ready=sum(one.status.number_ready for one in sight.staying),
        conditions=tuple(_conditions(meta, before=before, said=[ready, *said])),
        syncer=before.syncer,
        suspicion_answered=before.suspicion_answered,
    )


def _said(spec: SlurmClusterSpec, sight: Sight) -> Iterable[Said]:
    yield _part(sight, conditions.CONTROLLER_AVAILABLE, ("controller",) if spec.controller.replicas else ())
    ours = spec.accounting.enabled and not spec.accounting.remote_host
    own = ours and not spec.accounting.external.host
    yield _part(
        sight, conditions.ACCOUNTING_AVAILABLE, (*(("mysql",) if own else ()), *(("accounting",) if ours else ()))
    )
    yield _part(sight, conditions.LOGIN_AVAILABLE, ("login",) if spec.login.enabled and spec.login.replicas else ())
    yield _node_sets(spec, sight)
    yield _configuration(sight.configuration)
    yield _in_step(spec, sight)


def _part(sight: Sight, kind: str, wanted: tuple[str, ...]) -> Said:
    if not wanted:
        return kind, True, "NotWanted", "it is switched off, or somebody else's"
    missing = [one for one in wanted if one not in sight.workloads]
    if missing:
        return kind, False, conditions.NOT_MADE, f"{', '.join(missing)} is still to be made"
    late = [_words(one, sight.workloads[one]) for one in wanted if not sight.workloads[one].there]
    return (
        (kind, False, conditions.NOT_READY, ", ".join(late))
        if late
        else (kind, True, "Ready", f"{', '.join(wanted)}: ready")
    )


def _words(name: str, workload: Workload) -> str:
    return f"{workload.status.ready_replicas} of {workload.spec.replicas} {name} are ready"


def _node_sets(spec: SlurmClusterSpec, sight: Sight) -> Said:
    kind = "NodeSetsAvailable"
    unfit = [one for one in sight.staying if _has_nowhere_to_go(one)]
    if unfit:
        return kind, False, NO_NODE_FITS, "; ".join(_nowhere(unfit))
    late = [f"{one.metadata.name}: {_nodes(one)}" for one in sight.staying if _lacks(one)]
    late += [f"{one.metadata.name}: {_RETURNS}" for one in sight.leaving if _is_wanted(spec, one)]
    if late:
        return kind, False, conditions.NODES_MISSING, ", ".join(late)
    told = f"{len(sight.staying)} NodeSets have their nodes"
    return kind, True, "Ready", f"{told}; {farewell(sight.leaving)}" if sight.leaving else told


def _nowhere(unfit: Iterable[NodeSet]) -> Iterator[str]:
    """Why they have no Nodes: those that would fit are another's, or there are none."""
    alone = []
    for one in unfit:
        if one.status.nodes_claimed_by:
            holders = ", ".join(one.status.nodes_claimed_by)
            yield f"compute.nodes.{_definition(one)}: all Nodes that would fit are claimed by NodeSet {holders}. {_CLAIMED}"
        else:
            alone.append(f"compute.nodes.{_definition(one)}")
    if alone:
        yield f"{', '.join(alone)}: {_NOWHERE}"


def farewell(leaving: Iterable[NodeSet]) -> str:
    """What is to be said about NodeSets that nobody asks for any more, and that wait for their jobs."""
    told = ", ".join(sorted(one.metadata.name for one in leaving))
    return f"the nodes of {told} leave when their jobs have ended, or with them if {names.FORCE_DELETION}=true is on the NodeSet"


def _is_wanted(spec: SlurmClusterSpec, one: NodeSet) -> bool:
    found = spec.compute.nodes.get(_definition(one))
    return found is not None and found.enabled is True


def _definition(one: NodeSet) -> str:
    return one.metadata.name.removeprefix(f"{one.spec.cluster}-")


def _has_nowhere_to_go(one: NodeSet) -> bool:
    """Also where it asks for as many as there are, and gets what it asks for by having none."""
    seen = one.status.observed_generation >= one.metadata.generation
    return seen and one.spec.replicas != 0 and not one.status.number_feasible and not one.status.members


def _lacks(one: NodeSet) -> bool:
    seen = one.status.observed_generation >= one.metadata.generation
    return not seen or one.status.number_ready < one.status.desired_number_scheduled


def _nodes(one: NodeSet) -> str:
    told = next((each.message for each in one.status.conditions if each.type == READY and each.status != "True"), "")
    return told or f"{one.status.number_ready} of {one.status.desired_number_scheduled} nodes are ready"


def _configuration(found: Configuration) -> Said:
    if found.wanted and found.wanted == found.applied:
        return CONFIG_APPLIED, True, "Applied", found.message or "Slurm runs with it"
    return CONFIG_APPLIED, False, found.reason, found.message or "not in force yet"


def _in_step(spec: SlurmClusterSpec, sight: Sight) -> Said:
    """Whether Slurm and Kubernetes are kept in step, and what of it waits."""
    if not spec.syncer.enabled or not spec.syncer.replicas or not spec.controller.replicas:
        what = (
            "controller.replicas is 0" if spec.syncer.enabled and spec.syncer.replicas else "the syncer is switched off"
        )
        return IN_STEP, False, conditions.SWITCHED_OFF, f"{what}: nothing drains, removes or configures Slurm nodes"
    kind, there, reason, message = _part(sight, IN_STEP, ("syncer",))
    told = sight.report
    # First, since a syncer that cannot read Slurm is not ready either, and this is why.
    if told is not None and told.unseen:
        return kind, False, UNREACHABLE, f"{told.unseen}; {_OLD}"
    if not there:
        return kind, False, reason, f"{message}; {_OLD}"
    return _waits(told) if told is not None else (kind, False, "Waiting", "the syncer is yet to say")


def _waits(told: Report) -> Said:
    if told.held:
        return IN_STEP, False, HELD, f"nothing is deleted while this is hard to believe: {told.held}"
    if told.stuck:
        return IN_STEP, False, STUCK, "; ".join(told.stuck)
    if told.delayed:
        return IN_STEP, False, DELAYED, told.delayed
    return IN_STEP, True, IN_STEP, "Slurm's nodes and their Pods are kept in step"


def _conditions(meta: Metadata, *, before: SlurmClusterStatus, said: Sequence[Said]) -> Iterable[Condition]:
    now = datetime.now(UTC).replace(microsecond=0)
    for kind, holds, reason, message in said:
        told: Literal["True", "False"] = "True" if holds else "False"
        old = next((one for one in before.conditions if one.type == kind), None)
        since = old.last_transition_time if old is not None and old.status == told else now
        yield Condition(kind, told, since, reason, message[:_LONGEST], meta.generation)
