"""Compute nodes: definitions, and what all of them share."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from sunk.model.cluster.daemons import Containers, Volumes
from sunk.model.cluster.parts import Digest, Environment, Image, Line, Mount, ObjectName
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
        "self.matches('^([A-Za-z0-9_.-]+:)?[0-9]+$')", "wanted: type and number of GPUs, as h100:8, or a number, as 8"
    ),
    Meta(max_length=128),
]


class LayerImage(Struct, frozen=True, gc=False, rename="camel"):
    """Which image slurmd runs in, or a part of that."""

    repository: Annotated[str, Meta(max_length=512)] | UnsetType | None = UNSET
    name: Annotated[str, Meta(max_length=512)] | UnsetType | None = UNSET
    """Another word for repository."""
    tag: Annotated[str, Meta(max_length=128)] | UnsetType | None = UNSET
    digest: Digest | UnsetType | None = UNSET
    """Goes before the tag."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] | UnsetType = UNSET


class LayerResources(Struct, frozen=True, gc=False, rename="camel"):
    """What the container slurmd gets, as Kubernetes has it, or a part of that."""

    limits: Amounts | UnsetType | None = UNSET
    requests: Amounts | UnsetType | None = UNSET


class Definition(Struct, frozen=True, gc=False, rename="camel"):
    """A kind of compute node, or a layer for other definitions. Null takes back what a layer below has set."""

    enabled: bool | UnsetType | None = UNSET
    """Whether nodes are made of it; off unless it is set. A definition that is off is of use as a layer."""
    definitions: Annotated[tuple[Layer, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """Layers it is composed of, applied in this order; what stands beside comes last."""
    replicas: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType | None = UNSET
    """Maximum number of nodes. Unset: every Node that fits."""
    features: Annotated[tuple[FeatureName, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """Features of the Slurm nodes."""
    static_features: Annotated[tuple[FeatureName, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    """As features."""
    dynamic_features: Annotated[dict[str, DynamicFeature | None], Meta(max_length=32)] | UnsetType | None = UNSET
    """Features out of labels of the Node, by the key of the label."""
    image: LayerImage | UnsetType | None = UNSET
    env: Environment | UnsetType | None = UNSET
    """The environment of slurmd, and of the jobs it runs."""
    gres_gpu: GresGpu | UnsetType | None = UNSET
    """GPUs as Slurm counts them: type and number, as `h100:8`, or a number alone."""
    sku_cpu: Annotated[int, Meta(ge=1)] | UnsetType | None = UNSET
    """CPUs of the Slurm node; those of the limits, the requests or the Node if it is not set."""
    resources: LayerResources | UnsetType | None = UNSET
    node_selector: Annotations | UnsetType | None = UNSET
    """Labels that its Nodes must have: short for required node affinity, with which it is joined. Null drops one."""
    affinity: Anything | UnsetType | None = UNSET
    """Of this only required node affinity chooses Nodes."""
    tolerations: Annotated[tuple[Opaque, ...], Meta(max_length=64)] | UnsetType | None = UNSET
    sharing: Literal["open", "slurmOnly"] | UnsetType = UNSET
    """`open` (the default) leaves idle Nodes to other work; `slurmOnly` claims what the resources say."""
    partition_config: Annotated[dict[str, IntOrString | None], Meta(max_length=64)] | UnsetType | None = UNSET
    """Settings of the partition made for this definition, by the words of slurm.conf."""
    pod_name_prefix: Prefix | UnsetType | None = UNSET
    naming: Literal["address", "ordinal"] | UnsetType = UNSET
    priority_class_name: ObjectName | UnsetType | None = UNSET
    security_context: Anything | UnsetType | None = UNSET
    shared_memory: Quantity | UnsetType | None = UNSET
    """Size of /dev/shm; that of `compute` if it is not set."""
    containers: Containers | UnsetType | None = UNSET
    """Further containers of the Pod."""
    volumes: Volumes | UnsetType | None = UNSET
    volume_mounts: Volumes | UnsetType | None = UNSET
    labels: Annotations | UnsetType | None = UNSET
    annotations: Annotations | UnsetType | None = UNSET
    update_strategy: Literal["RollingUpdate", "OnDelete"] | UnsetType = UNSET
    max_unavailable: IntOrString | UnsetType | None = UNSET
    """How many nodes an update may take at once; that of `compute` if it is not set."""
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=86400)] | UnsetType | None = UNSET
    host_network: bool | UnsetType | None = UNSET


class Ssh(Struct, frozen=True, gc=False):
    """Whether people may log in to compute nodes on which they have a job (not there yet)."""

    enabled: bool = False


class AutoPartition(Struct, frozen=True, gc=False):
    """One partition for each enabled definition, of the same name."""

    enabled: bool = True


class S6Service(Struct, frozen=True, gc=False, rename="camel"):
    """A script of one's own beside slurmd."""

    type: Literal["oneshot", "longrun"]
    script: Annotated[str, Meta(max_length=262144)]
    timeout_up: Annotated[int, Meta(ge=0)] = 0
    """Milliseconds until a oneshot counts as failed; 0 means never."""
    timeout_down: Annotated[int, Meta(ge=0)] = 0
    """Milliseconds that a longrun gets to end."""


class Pyxis(Struct, frozen=True, gc=False, rename="camel"):
    """Jobs in containers (not there yet).

    So far `enabled` only gives slurmd the capability SYS_ADMIN, which enroot needs. The image has to bring pyxis, enroot and
    the line in plugstack.conf.
    """

    enabled: bool = False
    mount_home: bool = False
    remap_root: bool = True
    plugstack_options: Annotated[tuple[Line, ...], Meta(max_length=32)] = ()
    enroot_config: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)


class Compute(Struct, frozen=True, gc=False, rename="camel"):
    """The nodes of the cluster."""

    nodes: Annotated[dict[str, Definition], Meta(max_length=MOST_DEFINITIONS)] = field(default_factory=dict)
    """Definitions, by name."""
    layers: Annotated[dict[str, Definition], Meta(max_length=MOST_DEFINITIONS)] = field(default_factory=dict)
    """Layers that come with the chart (compute-defs). A definition of the same name goes before."""
    partitions: Annotated[str, Meta(max_length=65536)] = (
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    )
    """Partitions in the words of slurm.conf, one on each line."""
    auto_partition: AutoPartition = AutoPartition()
    image: Image = Image()
    """For definitions without an image of their own."""
    ssh: Ssh = Ssh()
    mounts: Annotated[tuple[Mount, ...], Meta(max_length=64)] = ()
    """Volume claims that all compute and login Pods mount."""
    s6: Annotated[dict[str, S6Service], Meta(max_length=64)] = field(default_factory=dict)
    """Scripts that run on every compute node, by name."""
    pyxis: Pyxis = Pyxis()
    security_context: Anything | None = None
    """Of the container slurmd. The capabilities that the values need are added to its own, and its seccomp profile is
    RuntimeDefault unless one is named here."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which counts as memory of the Pod. Unset: half of the memory limit, or without a limit the
    memory of the Node."""
    tmp_disk: Annotated[int, Meta(ge=0)] = 0
    """TmpDisk of the nodes in megabytes, for jobs with --tmp; 0 if there is none to ask for."""
    reserved_memory: Quantity = "4Gi"
    """Left to slurmd itself: Slurm gets less than the Pod by this."""
    max_unavailable: IntOrString = "10%"
    """How many nodes of a definition an update may take at once."""
    priority_class_name: ObjectName = "sunk-compute"
    volumes: Volumes = ()
    volume_mounts: Volumes = ()
    generate_topology: bool = True
    """Write topology from labels of Nodes (not there yet)."""
    max_node_count: Annotated[int, Meta(ge=1, le=65533)] = 4096
    """Room in slurmctld for nodes that join later."""
