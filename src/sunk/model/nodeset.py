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
    """The Slurm features of every node of the set."""

    static_features: Annotated[tuple[FeatureName, ...], Meta(max_length=64)] = ()
    """Features that all nodes have."""
    dynamic_features: Annotated[dict[str, DynamicFeature], Meta(max_length=32)] = field(default_factory=dict)
    """By the key of the Node's label whose value is the feature."""


class RollingUpdate(Struct, frozen=True, gc=False, rename="camel"):
    """How many nodes an update may take at once."""

    max_unavailable: Annotated[
        Budget,
        rule(
            "type(self) == int ? self > 0 : self.matches('^(100|[1-9]?[0-9])%$') && self != '0%'",
            "a number above 0 or a percentage from 1% to 100%",
        ),
    ] = "10%"
    """Missing, not ready and draining nodes count; a percentage of the nodes desired is rounded up."""


class UpdateStrategy(Struct, frozen=True, gc=False, rename="camel"):
    """What happens to Pods that were made from an older template."""

    type: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    """`OnDelete` leaves them until somebody deletes them."""
    rolling_update: RollingUpdate = RollingUpdate()


class NodeSetSpec(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Which Nodes take part, and what runs there."""

    template: Opaque
    """The Pod of a node. Its container `slurmd` runs jobs. Of its affinity only required node affinity is looked at."""
    replicas: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """At most so many nodes; every Node that fits, if it is not set."""
    cluster: Annotated[
        str,
        Meta(max_length=63, pattern=rf"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?{END}"),
        rule(
            "oldSelf == '' || self == oldSelf",
            "a NodeSet stays with its cluster: its Pods carry the label and the configuration of the old one. "
            "Make another NodeSet, and delete this one",
        ),
    ] = ""
    """The Slurm cluster that they are nodes of. Names of nodes are unique in it. Once it is set it stays."""
    pod_name_prefix: Prefix | None = None
    """What the names of Pods and Slurm nodes begin with; the name of the NodeSet if it is not set."""
    naming: Literal["address", "ordinal"] = "address"
    """`address` ends a name with the last two octets of the Node's internal IPv4 address: `gpu-012-002`. `ordinal`
    counts, where addresses are IPv6 only or Nodes are spread over more than 65,536 of them."""
    features: Features = Features()
    sharing: Literal["open", "slurmOnly"] = "open"
    """`open` leaves an idle Node to other work; `slurmOnly` keeps it for Slurm always."""
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: Annotated[int, Meta(ge=1, le=100)] = 10
    """How many old templates are kept to go back to."""


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """One thing that holds or not, and why."""

    type: Annotated[str, Meta(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    last_transition_time: datetime
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)] = ""
    observed_generation: int = 0


class NodeSetStatus(Struct, frozen=True, gc=False, rename="camel"):
    """What became of it."""

    observed_generation: int = 0
    replicas: int = 0
    """How many Pods there are."""
    selector: Annotated[str, Meta(max_length=1024)] = ""
    """Finds the Pods, for autoscalers."""
    desired_number_scheduled: int = 0
    number_feasible: int = 0
    """Nodes that fit and belong to no other NodeSet."""
    nodes_claimed_by: Annotated[tuple[Annotated[str, Meta(max_length=512)], ...], Meta(max_length=16)] = ()
    """If none does: NodeSets that have the Nodes which would fit, and how many."""
    current_number_scheduled: int = 0
    """Members of the set that have a Pod."""
    number_ready: int = 0
    number_drain: int = 0
    """Members that are drained in Slurm."""
    number_misscheduled: int = 0
    """Members whose Node no longer fits."""
    number_unavailable: int = 0
    updated_number_scheduled: int = 0
    """Pods made from the present template."""
    members: int = 0
    """Entries in all NodeSlices of the set: less than this in a reader's view means that the view is not whole."""
    slices: int = 0
    current_revision: Annotated[str, Meta(max_length=253)] = ""
    """The template that all Pods had last."""
    update_revision: Annotated[str, Meta(max_length=253)] = ""
    """The template that Pods are made from now."""
    conditions: Annotated[tuple[Condition, ...], keyed("type"), Meta(max_length=16)] = ()


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
            rule("self.metadata.name.size() <= 63", "the name is the value of a label too: at most 63 characters"),
            rule(
                "has(self.spec.podNamePrefix) || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,52}[a-z0-9])?$')",
                f"the name begins the names of Pods and Slurm nodes: a DNS label that begins with a letter and has at "
                f"most {LONGEST_PREFIX} characters, or set spec.podNamePrefix",
            ),
        ),
    ),
)
