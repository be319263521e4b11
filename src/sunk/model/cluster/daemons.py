"""The parts of the control plane: controller, login, accounting, database, REST, syncer, scheduler."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import Environment, Image, Line, ObjectName, Resources, Seconds, Service
from sunk.model.contract import clusterobjects
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import DnsLabel, Opaque, Quantity, rule

Containers = Annotated[tuple[Opaque, ...], Meta(max_length=32)]
Volumes = Annotated[tuple[Opaque, ...], Meta(max_length=128)]
Port = Annotated[int, Meta(ge=1, le=65535)]
Moment = Annotated[float, Meta(ge=0, le=86_400)]


class SecurityContext(Struct, frozen=True, gc=False, rename="camel"):
    """As whom a daemon of Slurm runs. The images know this user as `slurm`."""

    run_as_user: Annotated[int, Meta(ge=1)] = 64030
    run_as_group: Annotated[int, Meta(ge=1)] = 64030


class Claim(Struct, frozen=True, gc=False, rename="camel"):
    """A volume that outlives its Pods, and the release."""

    size: Quantity = "10Gi"
    storage_class_name: ObjectName | None = None
    """The default class of Kubernetes if it is not set."""
    existing_claim: ObjectName = ""
    """A volume claim that is there already."""


def _small() -> Resources:
    return Resources(requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "2Gi"})


class Controller(Struct, frozen=True, gc=False, rename="camel"):
    """slurmctld."""

    replicas: Annotated[
        int,
        rule("self <= 1", "0 or 1: Kubernetes starts another when one dies, and two would fight over the state"),
        Meta(ge=0),
    ] = 1
    """0 or 1: Kubernetes starts another when one dies, and two would fight over the state."""
    image: Image = Image()
    security_context: SecurityContext = SecurityContext()
    resources: Resources = field(
        default_factory=lambda: Resources(
            limits={"cpu": "4", "memory": "16Gi"}, requests={"cpu": "4", "memory": "16Gi"}
        )
    )
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    hang_seconds: Annotated[int, Meta(ge=60, le=86400)] = 300
    """slurmctld is restarted after this long without an answer to a read. Its start does not count."""
    priority_class_name: ObjectName = ""
    state: Claim = Claim()
    """Where slurmctld keeps jobs and nodes."""
    containers: Containers = ()
    """Further containers of the Pod."""
    volumes: Volumes = ()
    volume_mounts: Volumes = ()
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)


class Login(Struct, frozen=True, gc=False, rename="camel"):
    """Where people log in."""

    enabled: bool = True
    replicas: Annotated[int, Meta(ge=0, le=100)] = 1
    image: Image = Image()
    resources: Resources = field(
        default_factory=lambda: Resources(limits={"cpu": "4", "memory": "8Gi"}, requests={"cpu": "4", "memory": "8Gi"})
    )
    service: Service = Service()
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    priority_class_name: ObjectName = ""
    update_strategy: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    env: Environment = ()
    security_context: dict[str, Any] | None = None
    """Of the container sshd. Its seccomp profile is RuntimeDefault unless one is named here."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which counts as memory of the Pod. Unset: half of the memory limit, or without a limit the
    memory of the Node."""
    containers: Containers = ()
    volumes: Volumes = ()
    volume_mounts: Volumes = ()
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)


class ExternalDatabase(Struct, frozen=True, gc=False, rename="camel"):
    """A MySQL or MariaDB that somebody else runs."""

    host: Line = ""
    port: Port = 3306
    database: Annotated[str, Meta(max_length=64)] = "slurm_acct_db"
    user: Annotated[str, Meta(max_length=64)] = "slurm"
    existing_secret: ObjectName = ""
    """A Secret with the key `password`."""


class Accounting(Struct, frozen=True, gc=False, rename="camel"):
    """slurmdbd: who ran what, and who may."""

    RULES: ClassVar = (
        rule(
            "!(has(self.remoteHost) && self.remoteHost != '' && has(self.external) && self.external.host != '')",
            "remoteHost is a slurmdbd of somebody else and external a database for one of ours: set one of them",
        ),
    )

    enabled: bool = True
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30
    priority_class_name: ObjectName = ""
    remote_host: Line = ""
    """A slurmdbd that runs elsewhere: none is made then, nor a database."""
    remote_port: Port = clusterobjects.SLURMDBD_PORT
    external: ExternalDatabase = ExternalDatabase()
    enforce: Annotated[str, Meta(max_length=256, pattern=rf"^[a-z,]*{END}")] = "associations,limits,qos"
    """AccountingStorageEnforce."""
    extra_config: Annotated[str, Meta(max_length=65536)] = ""
    """Lines put at the end of slurmdbd.conf."""
    volumes: Volumes = ()
    volume_mounts: Volumes = ()


class Mysql(Struct, frozen=True, gc=False, rename="camel"):
    """The database of slurmdbd, where there is no external one."""

    image: Image = Image(repository="localhost/mariadb", tag="24.11")
    resources: Resources = field(default_factory=_small)
    storage: Claim = Claim(size="20Gi")
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    priority_class_name: ObjectName = ""


class Rest(Struct, frozen=True, gc=False, rename="camel"):
    """slurmrestd, for programs that want it. SUNK itself does not."""

    enabled: bool = False
    max_token_lifespan: Annotated[int, Meta(ge=60, le=31_536_000)] = 86_400
    """The longest life of a token that slurmctld gives out, in seconds; root and SlurmUser may ask for more."""
    replicas: Annotated[int, Meta(ge=0, le=100)] = 1
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    priority_class_name: ObjectName = ""
    volumes: Volumes = ()
    volume_mounts: Volumes = ()


class NodePermissions(Struct, frozen=True, gc=False):
    """Whether the syncer may write to Nodes, which only a reboot needs."""

    enabled: bool = False


class HooksApi(Struct, frozen=True, gc=False, rename="camel"):
    """What prologs, epilogs and programs of slurmctld call."""

    node_reboot_condition: Line = "PhaseState"
    node_reboot_reason: Line = "production-powerreset"
    timeout: Seconds = 300
    """How long a prolog may wait for a Node to be free of other work."""


class SyncerSettings(Struct, frozen=True, gc=False, rename="camel"):
    """How it behaves. Times are in seconds."""

    slurm_node_clean_up: bool = True
    """Delete Slurm's record of nodes that have left."""
    not_ready_after: Moment = 5.0
    """Drain a node after its Pod has not been ready for this many seconds."""
    wave_share: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """If more than this share of the Pods become not ready together, wait for the wave delay before draining their nodes."""
    wave_delay: Moment = 60.0
    """Drain the nodes of such a wave after this many seconds, if their Pods are still not ready."""
    clock_skew: Moment = 5.0
    """How many seconds the clocks of Slurm and Kubernetes may differ."""
    calm: Moment = 5.0
    """Ignore NOT_RESPONDING for this many seconds after an undrain: slurmd needs a moment."""
    gather: Moment = 0.2
    """Minimum number of seconds between two rounds of orders, so that many changes share a call."""
    restart_unknown_after: Moment = 60.0
    """Replace a Pod that is ready but that Slurm has not known for this many seconds."""
    forget_after: Moment = 60.0
    """Delete a record that was ours after it has been in no NodeSlice for this many seconds."""


class SyncerConfig(Struct, frozen=True, gc=False):
    syncer: SyncerSettings = SyncerSettings()


class Syncer(Struct, frozen=True, gc=False, rename="camel"):
    """Keeps Slurm and Kubernetes in step. Without it no drain, no removal and no change of configuration goes through."""

    enabled: bool = True
    replicas: Annotated[int, Meta(ge=0, le=10)] = 1
    """One leads, the others stand by."""
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    config: SyncerConfig = SyncerConfig()
    hooks_api: HooksApi = field(name="hooksAPI", default=HooksApi())
    node_permissions: NodePermissions = NodePermissions()
    priority_class_name: ObjectName = ""


class Scheduler(Struct, frozen=True, gc=False, rename="camel"):
    """Lets Slurm schedule Pods (not there yet)."""

    enabled: bool = False
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    name: DnsLabel | None = None
    """The schedulerName of Pods; made from the names of namespace and cluster if it is not set."""
    priority_class_name: ObjectName = ""
