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
            "prockTrackType is an old spelling of procTrackType: set only one of them",
        ),
    )

    timeout: Seconds = 60
    """SlurmctldTimeout."""
    proc_track_type: Plugin | None = None
    """ProctrackType: proctrack/linuxproc, or proctrack/cgroup, which needs privileged compute Pods."""
    prock_track_type: Plugin | None = None
    """procTrackType in the spelling of older charts."""
    task_plugin: Plugin = "task/none"
    """TaskPlugin: task/none, task/affinity, task/cgroup, or several separated by commas."""
    etc_config_map: ConfigMapName = ""
    """A ConfigMap with additional files for /etc/slurm, such as plugstack.conf or job_submit.lua. Edits are
    applied automatically."""

    @property
    def tracking(self) -> str:
        return self.proc_track_type or self.prock_track_type or "proctrack/linuxproc"


class Slurmd(Struct, frozen=True, gc=False, rename="camel"):
    """The compute daemon."""

    timeout: Seconds = 30
    """SlurmdTimeout: seconds without an answer before a node is set DOWN."""
    suspend_time: Annotated[str, Meta(max_length=16, pattern=rf"^(INFINITE|[0-9]+){END}")] = "INFINITE"
    """SuspendTime: nodes are powered down after this many idle seconds (not implemented yet)."""
    prolog_config_map: ConfigMapName | None = None
    """A ConfigMap with scripts that run before every job, in order of their names."""
    prolog_configmap: ConfigMapName | None = None
    """prologConfigMap in the spelling of older charts."""
    epilog_config_map: ConfigMapName | None = None
    """A ConfigMap with scripts that run after every job, in order of their names."""
    epilog_configmap: ConfigMapName | None = None
    """epilogConfigMap in the spelling of older charts."""

    @property
    def prolog(self) -> str:
        return self.prolog_config_map or self.prolog_configmap or ""

    @property
    def epilog(self) -> str:
        return self.epilog_config_map or self.epilog_configmap or ""


class PriorityWeights(Struct, frozen=True, gc=False, rename="camel"):
    """Weights for job priority (PriorityWeight…). If all are 0: first come, first served."""

    age: Weight = 0
    """PriorityWeightAge."""
    assoc: Weight = 0
    """PriorityWeightAssoc."""
    fairshare: Weight = 0
    """PriorityWeightFairshare."""
    job_size: Weight = 0
    """PriorityWeightJobSize."""
    partition: Weight = 0
    """PriorityWeightPartition."""
    qos: Weight = 0
    """PriorityWeightQOS."""


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
    """SelectTypeParameters. CR_Core ignores --mem. CR_Core_Memory counts memory, and kills a job that uses more than it
    asked for; the Pod scheduler also needs it."""
    job_acct_gather_frequency: Annotated[str, Meta(max_length=128, pattern=rf"^[a-z0-9=,]*{END}")] = "task=5"
    """JobAcctGatherFrequency: how often the memory of jobs is measured and limited, in seconds."""
    mpi_default: Annotated[str, Meta(max_length=64, pattern=rf"^[a-z0-9_]*{END}")] = ""
    """MpiDefault: MPI type for `srun` without --mpi. Empty: PMIx if the login image has it."""
    def_mem_per_cpu: Annotated[int, Meta(ge=0)] = field(name="defMemPerCPU", default=4096)
    """DefMemPerCPU in megabytes; 0 leaves it out."""
    return_to_service: Literal[0, 1, 2] = 2
    """ReturnToService. With 0 or 1, an admin has to bring back a node that was DOWN."""
    priority_type: Plugin = "priority/multifactor"
    """PriorityType."""
    priority_weights: PriorityWeights = PriorityWeights()
    scrontab: bool = False
    """Let users schedule recurring jobs with scrontab (ScronParameters=enable)."""
    mail_prog: Annotated[str, Meta(max_length=1024, pattern=rf"^/[A-Za-z0-9/._+-]+{END}")] = "/bin/true"
    """MailProg: program that sends mail for --mail-type. Our images have none, so no mail is sent."""
    scheduler_parameters: Words = ""
    """Added to our own SchedulerParameters, which make jobs start at once on an idle cluster."""
    cgroup_config: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Lines of cgroup.conf, by key."""
    gres_config: Annotated[str, Meta(max_length=65536)] = ""
    """gres.conf. Empty: generated from the definitions."""
    extra_config: Annotated[str, Meta(max_length=262144)] = ""
    """Lines appended to slurm.conf. `Include` is refused."""
