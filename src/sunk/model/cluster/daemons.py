"""The parts of the control plane: controller, login, accounting, database, REST, syncer, scheduler."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import Environment, Image, Line, ObjectName, Resources, S6Service, Seconds, Service
from sunk.model.contract import clusterobjects
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import DnsLabel, Opaque, Quantity, rule

Containers = Annotated[tuple[Opaque, ...], Meta(max_length=32)]
Volumes = Annotated[tuple[Opaque, ...], Meta(max_length=128)]
Port = Annotated[int, Meta(ge=1, le=65535)]
QosName = Annotated[str, Meta(min_length=1, max_length=128, pattern=rf"^[a-z0-9_.-]+{END}")]
Moment = Annotated[float, Meta(ge=0, le=86_400)]


class SecurityContext(Struct, frozen=True, gc=False, rename="camel"):
    """User of the Slurm daemons, called `slurm` in the images."""

    run_as_user: Annotated[int, Meta(ge=1)] = 64030
    """uid of the user `slurm`."""
    run_as_group: Annotated[int, Meta(ge=1)] = 64030
    """gid of the group `slurm`."""


class Claim(Struct, frozen=True, gc=False, rename="camel"):
    """A volume that is kept when the release is uninstalled."""

    size: Quantity = "10Gi"
    """Size of the volume."""
    storage_class_name: ObjectName | None = None
    """Unset: the default StorageClass."""
    existing_claim: ObjectName = ""
    """An existing volume claim to use."""


def _small() -> Resources:
    return Resources(requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "2Gi"})


class Controller(Struct, frozen=True, gc=False, rename="camel"):
    """slurmctld."""

    replicas: Annotated[
        int,
        rule("self <= 1", "0 or 1: Kubernetes replaces a slurmctld that dies, and two would fight over the state"),
        Meta(ge=0),
    ] = 1
    """0 or 1: Kubernetes replaces a slurmctld that dies, and two would fight over the state."""
    image: Image = Image()
    security_context: SecurityContext = SecurityContext()
    resources: Resources = field(
        default_factory=lambda: Resources(
            limits={"cpu": "4", "memory": "16Gi"}, requests={"cpu": "4", "memory": "16Gi"}
        )
    )
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    """Seconds to shut down before the Pod is killed."""
    hang_seconds: Annotated[int, Meta(ge=60, le=86400)] = 300
    """Restart slurmctld after this many seconds without an answer to a read. Startup does not count."""
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""
    state: Claim = Claim()
    """Volume for the state of slurmctld: jobs and nodes."""
    containers: Containers = ()
    """Additional containers of the Pod."""
    volumes: Volumes = ()
    """Additional volumes of the Pod."""
    volume_mounts: Volumes = ()
    """Additional volume mounts of slurmctld."""
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Additional annotations of the Pod."""


class Login(Struct, frozen=True, gc=False, rename="camel"):
    """Login nodes."""

    enabled: bool = True
    """Create login Pods."""
    replicas: Annotated[int, Meta(ge=0, le=100)] = 1
    """Number of login Pods."""
    image: Image = Image()
    resources: Resources = field(
        default_factory=lambda: Resources(limits={"cpu": "4", "memory": "8Gi"}, requests={"cpu": "4", "memory": "8Gi"})
    )
    service: Service = Service()
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    """Seconds to shut down before the Pod is killed."""
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""
    session_wait_seconds: Annotated[int, Meta(ge=0, le=604_800)] = 0
    """How long a Pod that is to end waits for the people who are logged in there, in seconds. New logins go to other
    Pods meanwhile."""
    create_homes: bool = True
    """Create the home of a user at the first login, if root may write there."""
    update_strategy: Literal["RollingUpdate", "OnDelete"] = "RollingUpdate"
    """`OnDelete` keeps a Pod until someone deletes it."""
    s6: Annotated[dict[str, S6Service], Meta(max_length=64)] = field(default_factory=dict)
    """Scripts that run on every login node, by name."""
    env: Environment = ()
    """Environment of the container sshd."""
    security_context: dict[str, Any] | None = None
    """securityContext of the container sshd. Capabilities that it needs are added. The seccomp profile is RuntimeDefault
    unless you set one here."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which counts as memory of the Pod. Unset: half of the memory limit, or without a limit the
    memory of the Node."""
    containers: Containers = ()
    """Additional containers of the Pod."""
    volumes: Volumes = ()
    """Additional volumes of the Pod."""
    volume_mounts: Volumes = ()
    """Additional volume mounts of sshd."""
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Additional annotations of the Pod."""


class AccountRule(Struct, frozen=True, gc=False, rename="camel"):
    """Who gets which account in Slurm."""

    account: Annotated[str, Meta(min_length=1, max_length=128, pattern=rf"^[a-z0-9_.-]+{END}")]
    """The account. It is created if it does not exist."""
    group: Line = ""
    """Members of this group. Empty: every user."""
    qos: Annotated[tuple[QosName, ...], Meta(max_length=32)] = ()
    """QOS that these users may use in this account. Empty: what the account has."""
    default_qos: QosName | None = None
    """QOS of jobs that name none. Unset: that of the account."""


class UserAccounts(Struct, frozen=True, gc=False, rename="camel"):
    """Accounts in Slurm for users of the values and of directories, so that their first job is not refused.

    Only what was created by these rules is changed or removed by them: what an administrator has set stays.
    """

    rules: Annotated[tuple[AccountRule, ...], Meta(max_length=256)] = ()
    """All rules that apply to a user count; the first one is the default account. Empty: administrators add users."""


class ExternalDatabase(Struct, frozen=True, gc=False, rename="camel"):
    """An external MySQL or MariaDB."""

    host: Line = ""
    """Host of the database. Empty: a database is created (`mysql`)."""
    port: Port = 3306
    """Port of the database."""
    database: Annotated[str, Meta(max_length=64)] = "slurm_acct_db"
    """Name of the database."""
    user: Annotated[str, Meta(max_length=64)] = "slurm"
    """User of the database."""
    existing_secret: ObjectName = ""
    """A Secret with the key `password`."""


class Accounting(Struct, frozen=True, gc=False, rename="camel"):
    """slurmdbd: job records, and who is allowed to run jobs."""

    RULES: ClassVar = (
        rule(
            "!(has(self.remoteHost) && self.remoteHost != '' && has(self.external) && self.external.host != '')",
            "remoteHost is an existing slurmdbd, external a database for a slurmdbd of this cluster: set only one of them",
        ),
    )

    enabled: bool = True
    """Turn off to run without accounting."""
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30
    """Seconds to shut down before the Pod is killed."""
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""
    remote_host: Line = ""
    """A slurmdbd that runs elsewhere. If set, neither slurmdbd nor a database is created."""
    remote_port: Port = clusterobjects.SLURMDBD_PORT
    """Port of that slurmdbd."""
    external: ExternalDatabase = ExternalDatabase()
    enforce: Annotated[str, Meta(max_length=256, pattern=rf"^[a-z,]*{END}")] = "associations,limits,qos"
    """AccountingStorageEnforce."""
    user_accounts: UserAccounts = UserAccounts()
    extra_config: Annotated[str, Meta(max_length=65536)] = ""
    """Lines appended to slurmdbd.conf."""
    volumes: Volumes = ()
    """Additional volumes of the Pod."""
    volume_mounts: Volumes = ()
    """Additional volume mounts of slurmdbd."""


class Mysql(Struct, frozen=True, gc=False, rename="camel"):
    """The database of slurmdbd, unless you use an external one."""

    image: Image = Image(repository="localhost/mariadb", tag="24.11")
    resources: Resources = field(default_factory=_small)
    storage: Claim = Claim(size="20Gi")
    termination_grace_period_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    """Seconds to shut down before the Pod is killed."""
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""


class Rest(Struct, frozen=True, gc=False, rename="camel"):
    """slurmrestd, for programs that need it. SUNK itself does not."""

    enabled: bool = False
    """Run slurmrestd."""
    max_token_lifespan: Annotated[int, Meta(ge=60, le=31_536_000)] = 86_400
    """Maximum lifetime of tokens that slurmctld issues, in seconds; root and SlurmUser may request more."""
    replicas: Annotated[int, Meta(ge=0, le=100)] = 1
    """Number of Pods."""
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""
    volumes: Volumes = ()
    """Additional volumes of the Pod."""
    volume_mounts: Volumes = ()
    """Additional volume mounts of slurmrestd."""


class NodePermissions(Struct, frozen=True, gc=False):
    """Let the syncer write to Nodes. Only needed for reboots."""

    enabled: bool = False
    """Let compute Pods request a reboot of their Nodes. The operator's chart must also list this cluster in
    `nodePermissions`."""


class HooksApi(Struct, frozen=True, gc=False, rename="camel"):
    """API for prologs, epilogs and programs of slurmctld."""

    node_reboot_condition: Line = "PhaseState"
    """Type of the Node condition that requests a reboot."""
    node_reboot_reason: Line = "production-powerreset"
    """Reason of that condition."""
    timeout: Seconds = 300
    """How long a prolog may wait for other work to leave a Node, in seconds; at least 15. The time limits of Slurm that
    concern prologs follow from it."""


class SyncerSettings(Struct, frozen=True, gc=False, rename="camel"):
    """Behaviour of the syncer. Times are in seconds."""

    slurm_node_clean_up: bool = True
    """Delete Slurm nodes that have left their NodeSet."""
    not_ready_after: Moment = 5.0
    """Drain a node after its Pod has not been ready for this many seconds."""
    wave_share: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """If more than this share of the Pods become not ready together, wait for the wave delay before draining their nodes."""
    wave_delay: Moment = 60.0
    """Drain the nodes of such a wave after this many seconds, if their Pods are still not ready."""
    clock_skew: Moment = 5.0
    """Maximum clock skew between Slurm and Kubernetes, in seconds."""
    calm: Moment = 5.0
    """Ignore NOT_RESPONDING for this many seconds after an undrain, to give slurmd time to reconnect."""
    gather: Moment = 0.2
    """Minimum seconds between batches of updates to Slurm."""
    restart_unknown_after: Moment = 60.0
    """Replace a ready Pod that is not registered in Slurm after this many seconds."""
    forget_after: Moment = 60.0
    """Delete a Slurm node created by SUNK after it has been missing from all NodeSlices for this many seconds."""


class SyncerConfig(Struct, frozen=True, gc=False):
    syncer: SyncerSettings = SyncerSettings()


class Syncer(Struct, frozen=True, gc=False, rename="camel"):
    """Keeps Slurm and Kubernetes in sync. Without it, no drain, removal or configuration change goes through."""

    enabled: bool = True
    """Run the syncer."""
    replicas: Annotated[int, Meta(ge=0, le=10)] = 1
    """One replica leads, the others stand by."""
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    config: SyncerConfig = SyncerConfig()
    hooks_api: HooksApi = field(name="hooksAPI", default=HooksApi())
    node_permissions: NodePermissions = NodePermissions()
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""


class Scheduler(Struct, frozen=True, gc=False, rename="camel"):
    """Lets Slurm schedule Pods (not implemented yet)."""

    enabled: bool = False
    """Run the scheduler (not implemented yet)."""
    image: Image = Image()
    resources: Resources = field(default_factory=_small)
    name: DnsLabel | None = None
    """schedulerName of Pods. Unset: derived from the names of namespace and cluster."""
    priority_class_name: ObjectName = ""
    """PriorityClass of the Pod."""
