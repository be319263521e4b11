"""What goes into slurm.conf and its companions."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import Line, ObjectName, Seconds
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import rule

Plugin = Annotated[str, Meta(max_length=256, pattern=rf"^[a-z0-9_/,-]+{END}")]
"""Plugins of Slurm, by commas: `task/affinity,task/cgroup`."""
Words = Annotated[str, Meta(max_length=1024, pattern=rf"^[A-Za-z0-9_,:=/.+-]*{END}")]
"""A value of slurm.conf without blanks."""
ConfigMapName = ObjectName
Weight = Annotated[int, Meta(ge=0, le=4_294_967_294)]


class SlurmCtld(Struct, frozen=True, gc=False, rename="camel"):
    """The controller daemon."""

    RULES: ClassVar = (
        rule(
            "!has(self.prockTrackType) || !has(self.procTrackType) || self.prockTrackType == self.procTrackType",
            "prockTrackType is an old spelling of procTrackType: set one of them",
        ),
    )

    timeout: Seconds = 60
    """SlurmctldTimeout."""
    proc_track_type: Plugin | None = None
    """ProctrackType: proctrack/linuxproc, or proctrack/cgroup, which needs privileged compute Pods."""
    prock_track_type: Plugin | None = None
    """As procTrackType, in the spelling of older charts."""
    task_plugin: Plugin = "task/none"
    """TaskPlugin: task/none, task/affinity, task/cgroup, or several by commas."""
    etc_config_map: ConfigMapName = ""
    """A ConfigMap with further files of /etc/slurm, such as plugstack.conf or job_submit.lua. Edits are applied."""

    @property
    def tracking(self) -> str:
        return self.proc_track_type or self.prock_track_type or "proctrack/linuxproc"


class Slurmd(Struct, frozen=True, gc=False, rename="camel"):
    """The compute daemon."""

    timeout: Seconds = 30
    """SlurmdTimeout: seconds without an answer until a node is DOWN."""
    suspend_time: Annotated[str, Meta(max_length=16, pattern=rf"^(INFINITE|[0-9]+){END}")] = "INFINITE"
    """SuspendTime: nodes are powered down after this many idle seconds (power saving is not there yet)."""
    prolog_config_map: ConfigMapName | None = None
    """A ConfigMap with scripts that run before every job, in the order of their names."""
    prolog_configmap: ConfigMapName | None = None
    """As prologConfigMap, in the spelling of older charts."""
    epilog_config_map: ConfigMapName | None = None
    """A ConfigMap with scripts that run after every job, in the order of their names."""
    epilog_configmap: ConfigMapName | None = None
    """As epilogConfigMap, in the spelling of older charts."""

    @property
    def prolog(self) -> str:
        return self.prolog_config_map or self.prolog_configmap or ""

    @property
    def epilog(self) -> str:
        return self.epilog_config_map or self.epilog_configmap or ""


class PriorityWeights(Struct, frozen=True, gc=False, rename="camel"):
    """PriorityWeight…: what counts for the priority of a job. With all of them 0 it is first come, first served."""

    age: Weight = 0
    assoc: Weight = 0
    fairshare: Weight = 0
    job_size: Weight = 0
    partition: Weight = 0
    qos: Weight = 0


class SlurmConfig(Struct, frozen=True, gc=False, rename="camel"):
    """slurm.conf, cgroup.conf and gres.conf."""

    slurm_ctld: SlurmCtld = SlurmCtld()
    slurmd: Slurmd = Slurmd()
    inactive_limit: Seconds = 0
    """InactiveLimit."""
    kill_wait: Annotated[int, Meta(ge=1, le=65533)] = 30
    """KillWait: seconds between SIGTERM and SIGKILL."""
    wait_time: Seconds = 0
    """WaitTime."""
    select_type_parameters: Words = "CR_Core"
    """SelectTypeParameters. CR_Core ignores --mem. CR_Core_Memory counts memory, and a job that takes more than it asked
    for is killed; the Pod Scheduler needs it too."""
    job_acct_gather_frequency: Annotated[str, Meta(max_length=128, pattern=rf"^[a-z0-9=,]*{END}")] = "task=5"
    """JobAcctGatherFrequency: how often, in seconds, the memory of a job is measured, and its limit enforced."""
    mpi_default: Annotated[str, Meta(max_length=64, pattern=rf"^[a-z0-9_]*{END}")] = ""
    """MpiDefault: what `srun` without --mpi offers to MPI programs. Unset: PMIx where the login image has it."""
    def_mem_per_cpu: Annotated[int, Meta(ge=0)] = field(name="defMemPerCPU", default=4096)
    """DefMemPerCPU in megabytes; 0 leaves it out."""
    return_to_service: Literal[0, 1, 2] = 2
    """ReturnToService. With 0 or 1 a node that was DOWN needs a person to come back."""
    priority_type: Plugin = "priority/multifactor"
    priority_weights: PriorityWeights = PriorityWeights()
    scrontab: bool = False
    """Let users have jobs started by the clock (ScronParameters=enable)."""
    mail_prog: Annotated[str, Meta(max_length=1024, pattern=rf"^/[A-Za-z0-9/._+-]+{END}")] = "/bin/true"
    """MailProg: what sends the mails of --mail-type. There is no such program in our images, so none are sent."""
    scheduler_parameters: Words = ""
    """Added to the SchedulerParameters that make jobs start at once on an idle cluster."""
    cgroup_config: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Lines of cgroup.conf, by key."""
    gres_config: Annotated[str, Meta(max_length=65536)] = ""
    """gres.conf; written from the definitions if it is empty."""
    extra_config: Annotated[str, Meta(max_length=262144)] = ""
    """Lines put at the end of slurm.conf as they are. `Include` is refused."""
