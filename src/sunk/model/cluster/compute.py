"""Compute nodes: definitions, and what all of them share."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from sunk.model.cluster.daemons import Containers, Volumes
from sunk.model.cluster.parts import Digest, Environment, Image, Line, Mount, ObjectName, S6Service
from sunk.model.nodeset import DynamicFeature, FeatureName, Prefix
from sunk.model.schema.vocabulary import IntOrString, Opaque, Quantity, rule

MOST_DEFINITIONS: Final = 512
Anything = dict[str, Any]
"""An object that is passed on as it is."""
Amounts = Annotated[dict[str, Quantity | None], Meta(max_length=32)]
Layer = Annotated[str, Meta(min_length=1, max_length=63)]
Annotations = Annotated[dict[str, Line | None], Meta(max_length=64)]
# By a rule, which may say what is wanted, where a pattern is only shown.
GresGpu = Annotated[
    str,
    rule(
        "self.matches('^([A-Za-z0-9_.-]+:)?[0-9]+$')",
        "must be type and number of GPUs, such as h100:8, or a number, such as 8",
    ),
    Meta(max_length=128),
]


class LayerImage(Struct, frozen=True, gc=False, rename="camel"):
    """Image of slurmd; fields that are not set come from other layers."""

    repository: Annotated[str, Meta(max_length=512)] | UnsetType | None = UNSET
    """Image name without the tag."""
    name: Annotated[str, Meta(max_length=512)] | UnsetType | None = UNSET
    """Alias of repository."""
    tag: Annotated[str, Meta(max_length=128)] | UnsetType | None = UNSET
    """Image tag."""
    digest: Digest | UnsetType | None = UNSET
    """Takes precedence over the tag."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] | UnsetType = UNSET
    """When to pull the image, as in Kubernetes."""


class LayerResources(Struct, frozen=True, gc=False, rename="camel"):
    """Resources of the container slurmd, as in Kubernetes."""

    limits: Amounts | UnsetType | None = UNSET
    """Resource limits."""
    requests: Amounts | UnsetType | None = UNSET
    """Resource requests."""


class Definition(Struct, frozen=True, gc=False, rename="camel"):
    """A kind of compute node, or a layer for other definitions. Null removes what a lower layer has set."""

    enabled: bool | UnsetType | None = UNSET
    """Create nodes from this definition. Default: false. A disabled definition can still be a layer."""
    definitions: Annotated[tuple[Layer, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """Layers of this definition, applied in this order. Its own values come last."""
    replicas: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType | None = UNSET
    """Maximum number of nodes. Unset: every Node that fits."""
    features: Annotated[tuple[FeatureName, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """Features of the Slurm nodes."""
    static_features: Annotated[tuple[FeatureName, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """Alias of features."""
    dynamic_features: Annotated[dict[str, DynamicFeature | None], Meta(max_length=32)] | UnsetType | None = UNSET
    """Features from Node labels, by label key."""
    image: LayerImage | UnsetType | None = UNSET
    env: Environment | UnsetType | None = UNSET
    """Environment of slurmd and of its jobs."""
    gres_gpu: GresGpu | UnsetType | None = UNSET
    """GPUs in Slurm: type and number, such as `h100:8`, or just a number."""
    sku_cpu: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    """CPUs of the Slurm node. Unset: from limits, else requests, else the Node."""
    resources: LayerResources | UnsetType | None = UNSET
    node_selector: Annotations | UnsetType | None = UNSET
    """Labels that its Nodes must have. Short for required node affinity, and combined with it. Null removes a label."""
    affinity: Anything | UnsetType | None = UNSET
    """Only required node affinity selects Nodes."""
    tolerations: Annotated[tuple[Opaque, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """Tolerations of the Pods. Nodes with taints that these do not cover do not fit."""
    sharing: Literal["open", "slurmOnly"] | UnsetType = UNSET
    """`open` (the default) leaves idle Nodes to other work; `slurmOnly` always reserves its resources."""
    partition_config: Annotated[dict[str, IntOrString | None], Meta(max_length=64)] | UnsetType | None = UNSET
    """Settings of the partition for this definition, in slurm.conf terms."""
    pod_name_prefix: Prefix | UnsetType | None = UNSET
    """Prefix of the names of Pods and Slurm nodes. Unset: the names of the cluster and the definition."""
    naming: Literal["address", "ordinal"] | UnsetType = UNSET
    """`address` (the default) appends the last two octets of the Node's internal IPv4 address; `ordinal` counts."""
    priority_class_name: ObjectName | UnsetType | None = UNSET
    """PriorityClass of the Pods. Unset: that of `compute`."""
    security_context: Anything | UnsetType | None = UNSET
    """securityContext of the container slurmd. Unset: that of `compute`."""
    shared_memory: Quantity | UnsetType | None = UNSET
    """Size of /dev/shm. Unset: that of `compute`."""
    containers: Containers | UnsetType | None = UNSET
    """Additional containers of the Pod."""
    volumes: Volumes | UnsetType | None = UNSET
    """Additional volumes of the Pod."""
    volume_mounts: Volumes | UnsetType | None = UNSET
    """Additional volume mounts of slurmd."""
    labels: Annotations | UnsetType | None = UNSET
    """Additional labels of the Pods."""
    annotations: Annotations | UnsetType | None = UNSET
    """Additional annotations of the Pods."""
    update_strategy: Literal["RollingUpdate", "OnDelete"] | UnsetType = UNSET
    """`RollingUpdate` (the default) replaces Pods as their jobs end. `OnDelete` keeps them until someone deletes them."""
    max_unavailable: IntOrString | UnsetType | None = UNSET
    """How many nodes may be unavailable during an update. Unset: that of `compute`."""
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=86400)] | UnsetType | None = UNSET
    """Seconds to shut down before the Pod is killed. Default: 30."""
    host_network: bool | UnsetType | None = UNSET
    """Use the network and the address of the Node. Default: false."""


class Ssh(Struct, frozen=True, gc=False):
    """Let users log in to compute nodes on which they have a job."""

    enabled: bool = False
    """Run sshd in compute Pods. Only users with a job on the node get in, and their processes end with it."""


class AutoPartition(Struct, frozen=True, gc=False):
    """One partition for each enabled definition, with the same name."""

    enabled: bool = True
    """Create them."""


class Pyxis(Struct, frozen=True, gc=False, rename="camel"):
    """Jobs in containers (not implemented yet).

    For now `enabled` only gives slurmd the capability SYS_ADMIN, which enroot needs. The image must provide pyxis, enroot
    and the line in plugstack.conf.
    """

    enabled: bool = False
    """Give slurmd the capability SYS_ADMIN."""
    mount_home: bool = False
    """Mount homes into containers (not implemented yet)."""
    remap_root: bool = True
    """Map users to root inside containers (not implemented yet)."""
    plugstack_options: Annotated[tuple[Line, ...], Meta(max_length=32)] = ()
    """Options of pyxis in plugstack.conf (not implemented yet)."""
    enroot_config: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Lines of enroot.conf, by key (not implemented yet)."""


class Compute(Struct, frozen=True, gc=False, rename="camel"):
    """The nodes of the cluster."""

    nodes: Annotated[dict[str, Definition], Meta(max_length=MOST_DEFINITIONS)] = field(default_factory=dict)
    """Definitions, by name."""
    layers: Annotated[dict[str, Definition], Meta(max_length=MOST_DEFINITIONS)] = field(default_factory=dict)
    """Layers of the chart (compute-defs). A definition of the same name takes precedence."""
    partitions: Annotated[str, Meta(max_length=65536)] = (
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    )
    """Partitions in slurm.conf syntax, one per line."""
    auto_partition: AutoPartition = AutoPartition()
    image: Image = Image()
    """Default image of definitions."""
    ssh: Ssh = Ssh()
    mounts: Annotated[tuple[Mount, ...], Meta(max_length=64)] = ()
    """Volume claims that all compute and login Pods mount."""
    s6: Annotated[dict[str, S6Service], Meta(max_length=64)] = field(default_factory=dict)
    """Scripts that run on every compute node, by name."""
    pyxis: Pyxis = Pyxis()
    security_context: Anything | None = None
    """securityContext of the container slurmd. Capabilities that the values need are added. The seccomp profile is
    RuntimeDefault unless you set one here."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which counts as memory of the Pod. Unset: half of the memory limit, or without a limit the
    memory of the Node."""
    tmp_disk: Annotated[int, Meta(ge=0)] = 0
    """TmpDisk of the nodes in megabytes, for jobs with --tmp."""
    reserved_memory: Quantity = "4Gi"
    """Reserved for slurmd itself: Slurm offers this much less than the Pod has."""
    max_unavailable: IntOrString = "10%"
    """How many nodes of a definition may be unavailable during an update."""
    priority_class_name: ObjectName = "sunk-compute"
    """PriorityClass of compute Pods. The chart sunk creates the default one."""
    volumes: Volumes = ()
    """Additional volumes of all compute Pods."""
    volume_mounts: Volumes = ()
    """Additional volume mounts of slurmd in all compute Pods."""
    generate_topology: bool = True
    """Generate the topology from Node labels (not implemented yet)."""
    max_node_count: Annotated[int, Meta(ge=1, le=65533)] = 4096
    """Room in slurmctld for nodes that join later."""
