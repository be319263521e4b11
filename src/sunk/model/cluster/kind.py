"""The SlurmCluster itself."""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from sunk.model.cluster.compute import Compute
from sunk.model.cluster.configuration import SlurmConfig
from sunk.model.cluster.daemons import Accounting, Controller, Login, Mysql, Rest, Scheduler, Syncer
from sunk.model.cluster.directory import DirectoryService
from sunk.model.cluster.parts import Image, Line, ObjectName, Placement
from sunk.model.cluster.users import Users
from sunk.model.contract.report import Report
from sunk.model.names import GROUP, VERSION
from sunk.model.nodeset import Condition
from sunk.model.schema.kind import AGE, Column, Kind, Version
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import Opaque, keyed, rule

Rules = Annotated[tuple[Opaque, ...], Meta(max_length=32)]
LONGEST_NAME: Final = 40
"""`<name>-controller`, a hash and an ordinal have to fit into a label of 63."""


LONGEST_WORD: Final = 64
"""Of the word by which a person accepts what is hard to believe."""


class PullSecret(Struct, frozen=True, gc=False):
    name: ObjectName
    """Name of the Secret."""


class Network(Struct, frozen=True, gc=False, rename="camel"):
    """CoreWeave's networks. No effect yet."""

    disable_k8s_networking: bool = field(name="disableK8sNetworking", default=False)
    """Do not use the network of Kubernetes (not implemented yet)."""
    vpcs: Annotated[tuple[Line, ...], Meta(max_length=16)] = ()
    """VPCs of the Pods (not implemented yet)."""


class Ingress(Struct, frozen=True, gc=False):
    """Additional rules for each component, in the form of NetworkPolicy `ingress`."""

    controller: Rules = ()
    """Rules for slurmctld."""
    login: Rules = ()
    """Rules for login Pods."""
    compute: Rules = ()
    """Rules for compute Pods."""
    accounting: Rules = ()
    """Rules for slurmdbd."""
    mysql: Rules = ()
    """Rules for the database."""
    rest: Rules = ()
    """Rules for slurmrestd."""
    syncer: Rules = ()
    """Rules for the syncer."""


class NetworkPolicy(Struct, frozen=True, gc=False):
    """Who can connect to the Pods of the cluster: its own components, and what `ingress` adds."""

    enabled: bool = True
    """Create the NetworkPolicies."""
    ingress: Ingress = Ingress()


class SlurmClusterSpec(Struct, frozen=True, gc=False, rename="camel"):
    """A Slurm cluster. The values of the chart `slurm` are the same, field by field."""

    image: Image = Image(repository="localhost/slurm", tag="24.11")
    """Default image of all Slurm components."""
    sunk_image: Image = Image(repository="localhost/sunk", tag="24.11")
    """Image of the SUNK components that run next to Slurm."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Meta(max_length=16)] = ()
    """Secrets in this namespace that are used to pull images."""
    node_selector: Placement = Placement()
    """Where the control plane runs. Compute nodes have their own affinity."""
    slurm_config: SlurmConfig = SlurmConfig()
    controller: Controller = Controller()
    login: Login = Login()
    compute: Compute = Compute()
    accounting: Accounting = Accounting()
    mysql: Mysql = Mysql()
    rest: Rest = Rest()
    syncer: Syncer = Syncer()
    scheduler: Scheduler = Scheduler()
    users: Users = Users()
    """Users and groups, if you use no directory."""
    directory_service: DirectoryService = DirectoryService()
    network: Network = Network()
    network_policy: NetworkPolicy = NetworkPolicy()
    cluster_domain: Annotated[str, Meta(max_length=253, pattern=rf"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?{END}")] = (
        "cluster.local"
    )
    """DNS domain of this Kubernetes cluster. Nodes and logins use it to resolve Slurm's node names."""


class SlurmClusterStatus(Struct, frozen=True, gc=False, rename="camel"):
    """Observed state."""

    observed_generation: int = 0
    """Generation of the spec that this status describes."""
    slurm_version: Annotated[str, Meta(max_length=64)] = ""
    """Version of slurmctld, such as 24.11.5."""
    config_wanted: Annotated[str, Meta(max_length=64)] = ""
    """Hash of the configuration that Slurm should run."""
    config_applied: Annotated[str, Meta(max_length=64)] = ""
    """Hash of the configuration that Slurm runs."""
    node_sets: int = 0
    """Number of NodeSets."""
    nodes_desired: int = 0
    """Number of nodes that the cluster should have."""
    nodes_ready: int = 0
    """Number of nodes that are ready."""
    conditions: Annotated[tuple[Condition, ...], keyed("type"), Meta(max_length=16)] = ()
    """Status conditions."""
    syncer: Report | None = None
    """What the syncer reports about Slurm. Written only by the syncer, like the next field."""
    suspicion_answered: Annotated[str, Meta(max_length=LONGEST_WORD)] = ""
    """Value of the annotation accept-suspicion that the syncer has answered."""


OF_SYNCER: Final = ("syncer", "suspicionAnswered")
"""Fields of the status that the syncer writes, and nobody else."""


SLURMCLUSTER: Final = Kind(
    "SlurmCluster",
    group=GROUP,
    plural="slurmclusters",
    description="A Slurm cluster: controller, accounting, login and compute nodes.",
    short_names=("slurm",),
    categories=("sunk",),
    stored=Version(
        VERSION,
        spec=SlurmClusterSpec,
        status=SlurmClusterStatus,
        columns=(
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            Column("Nodes", ".status.nodesReady", type="integer"),
            Column("Desired", ".status.nodesDesired", type="integer"),
            Column("Config", ".status.conditions[?(@.type=='ConfigApplied')].status", priority=1),
            Column("Message", ".status.conditions[?(@.type=='Ready')].message", priority=1),
            AGE,
        ),
        rules=(
            rule(
                f"self.metadata.name.size() <= {LONGEST_NAME} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                f"the name is also the cluster's name in Slurm: use a DNS label that begins with a letter and has at most {LONGEST_NAME} characters",
            ),
        ),
    ),
)
