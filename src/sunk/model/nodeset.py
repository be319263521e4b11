"""NodeSet: Slurm nodes as Pods, one on each Node that fits."""

from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from sunk.model.names import GROUP, VERSION
from sunk.model.schema.kind import AGE, Column, Kind, ScalePaths, Version
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import IntOrString, Opaque, keyed, rule

LONGEST_PREFIX: Final = 54
"""`-012-002` has to fit behind it in a name of 63."""

Prefix = Annotated[str, Meta(min_length=1, max_length=LONGEST_PREFIX, pattern=rf"^[a-z]([-a-z0-9]*[a-z0-9])?{END}")]
FeatureName = Annotated[str, Meta(min_length=1, max_length=64, pattern=rf"^[A-Za-z0-9_.:/=-]+{END}")]
FeaturePrefix = Annotated[str, Meta(max_length=64, pattern=rf"^[A-Za-z0-9_.:/=-]*{END}")]
Budget = IntOrString


class DynamicFeature(Struct, frozen=True, gc=False, rename="camel"):
    """A feature whose name is the value of a Node's label."""

    prefix: FeaturePrefix = ""
    """Put before the value: label `driver=550` with prefix `driver-` gives the feature `driver-550`."""


class Features(Struct, frozen=True, gc=False, rename="camel"):
    """Slurm features of the nodes."""

    static_features: Annotated[tuple[FeatureName, ...], Meta(max_length=64)] = ()
    """Features that all nodes have."""
    dynamic_features: Annotated[dict[str, DynamicFeature], Meta(max_length=32)] = field(default_factory=dict)
    """Features from Node labels, by label key: the label's value becomes the feature."""


class RollingUpdate(Struct, frozen=True, gc=False, rename="camel"):
    """How many nodes may be unavailable during an update."""

    max_unavailable: Annotated[
        Budget,
        rule(
            "type(self) == int ? self > 0 : self.matches('^(100|[1-9]?[0-9])%$') && self != '0%'",
            "must be a number above 0 or a percentage from 1% to 100%",
        ),
    ] = "10%"
    """Counts missing, not ready and draining nodes. A percentage refers to the desired nodes and is rounded up."""


class UpdateStrategy(Struct, frozen=True, gc=False, rename="camel"):
    """How Pods with an older template are updated."""

    type: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    """`OnDelete` keeps a Pod until someone deletes it."""
    rolling_update: RollingUpdate = RollingUpdate()


class NodeSetSpec(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Which Nodes are members, and what runs there."""

    template: Opaque
    """Pod template of the nodes. Its container `slurmd` runs jobs. Of its affinity, only required node affinity counts."""
    replicas: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """Maximum number of nodes. Unset: every Node that fits."""
    cluster: Annotated[
        str,
        Meta(max_length=63, pattern=rf"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?{END}"),
        rule(
            "oldSelf == '' || self == oldSelf",
            "the cluster of a NodeSet cannot change: its Pods have the label and the configuration of the old one. "
            "Create another NodeSet, and delete this one",
        ),
    ] = ""
    """The Slurm cluster of the nodes, in which their names are unique. Cannot be changed once set."""
    pod_name_prefix: Prefix | None = None
    """Prefix of the names of Pods and Slurm nodes. Unset: the name of the NodeSet."""
    naming: Literal["address", "ordinal"] = "address"
    """`address` appends the last two octets of the Node's internal IPv4 address: `gpu-012-002`. `ordinal` counts; use it
    if Nodes have only IPv6 addresses, or if the last two octets are not unique."""
    features: Features = Features()
    sharing: Literal["open", "slurmOnly"] = "open"
    """`open` leaves an idle Node to other work; `slurmOnly` always keeps it for Slurm."""
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: Annotated[int, Meta(ge=1, le=100)] = 10
    """Number of old templates to keep for rollbacks."""


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """A status condition."""

    type: Annotated[str, Meta(max_length=316)]
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Status of the condition."""
    last_transition_time: datetime
    """When the status last changed."""
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Reason in one word, for programs."""
    message: Annotated[str, Meta(max_length=32768)] = ""
    """Details for people."""
    observed_generation: int = 0
    """Generation of the spec that the condition is about."""


class NodeSetStatus(Struct, frozen=True, gc=False, rename="camel"):
    """Observed state."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    replicas: int = 0
    """Number of Pods."""
    selector: Annotated[str, Meta(max_length=1024)] = ""
    """Selector of the Pods, for autoscalers."""
    desired_number_scheduled: int = 0
    """Number of nodes that the set should have."""
    number_feasible: int = 0
    """Nodes that fit and belong to no other NodeSet."""
    nodes_claimed_by: Annotated[tuple[Annotated[str, Meta(max_length=512)], ...], Meta(max_length=16)] = ()
    """If there are none: NodeSets that claim the Nodes that would fit, and how many."""
    current_number_scheduled: int = 0
    """Members of the set that have a Pod."""
    number_ready: int = 0
    """Members that are ready."""
    number_drain: int = 0
    """Members that are drained in Slurm."""
    number_misscheduled: int = 0
    """Members whose Node no longer fits."""
    number_unavailable: int = 0
    """Number of nodes that are missing, not ready or about to be deleted."""
    updated_number_scheduled: int = 0
    """Pods made from the current template."""
    members: int = 0
    """Number of entries in all NodeSlices of the set. A reader that sees fewer has an incomplete view."""
    slices: int = 0
    """Number of NodeSlices."""
    current_revision: Annotated[str, Meta(max_length=253)] = ""
    """Last template that all Pods had."""
    update_revision: Annotated[str, Meta(max_length=253)] = ""
    """Template of new Pods."""
    conditions: Annotated[tuple[Condition, ...], keyed("type"), Meta(max_length=16)] = ()
    """Status conditions."""


NODESET: Final = Kind(
    "NodeSet",
    group=GROUP,
    plural="nodesets",
    description="Slurm nodes as Pods, one on each Node that fits.",
    short_names=("nset",),
    categories=("sunk",),
    stored=Version(
        VERSION,
        spec=NodeSetSpec,
        status=NodeSetStatus,
        scale=ScalePaths(selector=".status.selector"),
        columns=(
            Column("Desired", ".status.desiredNumberScheduled", type="integer"),
            Column("Feasible", ".status.numberFeasible", type="integer"),
            Column("Current", ".status.currentNumberScheduled", type="integer"),
            Column("Ready", ".status.numberReady", type="integer"),
            Column("Drain", ".status.numberDrain", type="integer"),
            Column("Updated", ".status.updatedNumberScheduled", type="integer", priority=1),
            Column("Misscheduled", ".status.numberMisscheduled", type="integer", priority=1),
            Column("Unavailable", ".status.numberUnavailable", type="integer", priority=1),
            AGE,
        ),
        rules=(
            rule("self.metadata.name.size() <= 63", "the name is also the value of a label: use at most 63 characters"),
            rule(
                "has(self.spec.podNamePrefix) || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,52}[a-z0-9])?$')",
                f"the name is the prefix of Pods and Slurm nodes: use a DNS label that begins with a letter and has at most "
                f"{LONGEST_PREFIX} characters, or set spec.podNamePrefix",
            ),
        ),
    ),
)
