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


class Network(Struct, frozen=True, gc=False, rename="camel"):
    """CoreWeave's networks; without effect elsewhere."""

    disable_k8s_networking: bool = field(name="disableK8sNetworking", default=False)
    vpcs: Annotated[tuple[Line, ...], Meta(max_length=16)] = ()


class Ingress(Struct, frozen=True, gc=False):
    """Rules as the `ingress` of a NetworkPolicy has them, for each part beside those that it needs."""

    controller: Rules = ()
    login: Rules = ()
    compute: Rules = ()
    accounting: Rules = ()
    mysql: Rules = ()
    rest: Rules = ()
    syncer: Rules = ()


class NetworkPolicy(Struct, frozen=True, gc=False):
    """Who may connect to the Pods of the cluster: its own parts, and whom `ingress` adds."""

    enabled: bool = True
    ingress: Ingress = Ingress()


class SlurmClusterSpec(Struct, frozen=True, gc=False, rename="camel"):
    """A Slurm cluster. The values of the chart `slurm` are the same, field by field."""

    image: Image = Image(repository="localhost/slurm", tag="24.11")
    """For everything of Slurm that has no image of its own."""
    sunk_image: Image = Image(repository="localhost/sunk", tag="24.11")
    """For the parts of SUNK that run beside it."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Meta(max_length=16)] = ()
    node_selector: Placement = Placement()
    """Where the control plane runs. Compute nodes have their own affinities."""
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
    """Users and groups, where there is no directory."""
    directory_service: DirectoryService = DirectoryService()
    network: Network = Network()
    network_policy: NetworkPolicy = NetworkPolicy()
    cluster_domain: Annotated[str, Meta(max_length=253, pattern=rf"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?{END}")] = (
        "cluster.local"
    )
    """The DNS domain of this Kubernetes. By it nodes and logins find each other under their short names."""


class SlurmClusterStatus(Struct, frozen=True, gc=False, rename="camel"):
    """What became of it."""

    observed_generation: int = 0
    slurm_version: Annotated[str, Meta(max_length=64)] = ""
    config_wanted: Annotated[str, Meta(max_length=64)] = ""
    """Hash of the configuration that should be in force."""
    config_applied: Annotated[str, Meta(max_length=64)] = ""
    """Hash of the configuration that Slurm runs with."""
    node_sets: int = 0
    nodes_desired: int = 0
    nodes_ready: int = 0
    conditions: Annotated[tuple[Condition, ...], keyed("type"), Meta(max_length=16)] = ()
    syncer: Report | None = None
    """What the syncer says of Slurm. Written by the syncer alone, as is what follows."""
    suspicion_answered: Annotated[str, Meta(max_length=LONGEST_WORD)] = ""
    """The word of the annotation accept-suspicion that the syncer has answered."""


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
                f"the name is the cluster's name in Slurm: a DNS label that begins with a letter, of at most {LONGEST_NAME} characters",
            ),
        ),
    ),
)
