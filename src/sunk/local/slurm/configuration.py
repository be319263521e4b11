"""What the daemons of a Slurm on this machine read: slurm.conf and its kin, and how a node introduces itself."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from sunk.model.contract import clusterobjects
from sunk.model.refusal import Refusal

Settings = Mapping[str, str | int | None]

CONTROLLER: Final = "controller"
LOGIN: Final = "login"
TOOLS: Final = "sunk"
ACCOUNTING: Final = "accounting"
DATABASE: Final = "database"
BOXES: Final = (CONTROLLER, LOGIN, TOOLS, ACCOUNTING, DATABASE)
CONTROLLER_PORT: Final = clusterobjects.SLURMCTLD_PORT
NODE_PORT: Final = clusterobjects.SLURMD_PORT
ACCOUNTING_PORT: Final = clusterobjects.SLURMDBD_PORT
DATABASE_PORT: Final = 3306
GPUS: Final = 8
GPU_FOLDER: Final = "/opt/gpus"

DEFAULTS: Final[Settings] = MappingProxyType(
    {
        "SlurmUser": "slurm",
        "AuthType": "auth/slurm",
        "CredType": "auth/slurm",
        # Launch messages are signed before the prolog runs, for 60 s unless told; a requeue waits for cred_expire.
        "AuthInfo": "ttl=600,cred_expire=5",
        "SlurmctldParameters": "enable_configless",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "ReturnToService": 2,
        "SlurmdTimeout": 30,
        "KillWait": 5,
        "MaxNodeCount": 6000,
        "TreeWidth": 65533,
        "StateSaveLocation": "/var/spool/slurmctld",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        # A node may be larger than this machine; without it Slurm believes the CPUs, but not the memory.
        "SlurmdParameters": "config_overrides",
        "SlurmctldPidFile": "/run/slurmctld/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        # Without it a job that names no memory takes all of its node.
        "DefMemPerCPU": 100,
        "GresTypes": "gpu",
        # Otherwise a batch job waits for three seconds, and a pending one for up to a minute.
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
        "PrologFlags": "Alloc",
        "DebugFlags": "GLOB_SILENCE",
        # The default is not in the image, and every start would complain.
        "MailProg": "/bin/true",
    }
)
PARTITIONS: Final = ("PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP",)


class Node(msgspec.Struct, frozen=True):
    """A Slurm node as its slurmd introduces it. Slurm believes the numbers, whatever this machine has."""

    name: str
    cpus: int = 2
    memory: int = 1000
    """In MiB."""
    features: tuple[str, ...] = ()
    gres: str = ""
    """For example `gpu:h100:8`; the type has to be among the cluster's `gpus`."""
    more: str = ""
    """Further words of a node line."""
    dynamic: bool = True
    """Whether it brings its line along, as in production; else slurm.conf has to have one for it."""
    options: tuple[str, ...] = ()
    """Further words for slurmd itself."""

    @property
    def line(self) -> str:
        words = [f"CPUs={self.cpus}", f"RealMemory={self.memory}"]
        words += [f"Feature={','.join(self.features)}"] if self.features else []
        words += [f"Gres={self.gres}"] if self.gres else []
        return " ".join([*words, *self.more.split()])


def nodes(wanted: int | Sequence[Node | str]) -> tuple[Node, ...]:
    """Spell out the nodes of a cluster. A number means n1, n2 and so on."""
    if isinstance(wanted, int):
        return tuple(Node(name=f"n{index}") for index in range(1, wanted + 1))
    found = tuple(Node(name=each) if isinstance(each, str) else each for each in wanted)
    for node in found:
        check(node.name, taken={other.name for other in found if other is not node})
    return found


def check(name: str, *, taken: set[str]) -> None:
    if name in BOXES:
        raise Refusal(f"a Slurm node cannot be named {name}: the cluster has its own machine with that name.")
    if name in taken:
        raise Refusal(f"a Slurm node {name} already exists. Choose another name.")


def slurm_conf(cluster: str, *, address: str, settings: Settings, lines: Sequence[str]) -> str:
    """Our defaults with `settings` laid over them (None takes one out), then `lines` as they are."""
    first = {"ClusterName": cluster, "SlurmctldHost": f"{CONTROLLER}({address})"}
    merged = merge(merge(first, DEFAULTS), settings)
    written = (f"{name}={value}" for name, value in merged.items() if value is not None)
    return "".join(f"{line}\n" for line in (*written, *lines))


def merge(below: Settings, above: Settings) -> dict[str, str | int | None]:
    """Lay one over the other. Slurm reads names without regard to case, and refuses to read one twice.

    None stays: it may take out what lies further below.
    """
    spelled = {name.lower(): name for name in below}
    return {**below, **{spelled.get(name.lower(), name): value for name, value in above.items()}}


def files(*, gpus: Sequence[str]) -> dict[str, str]:
    """What lies beside slurm.conf and is sent to every node with it."""
    lines = (f"Name=gpu Type={model} File={GPU_FOLDER}/{model}-[0-{GPUS - 1}]\n" for model in gpus)
    return {"cgroup.conf": "CgroupPlugin=disabled\n", "gres.conf": "".join(lines)}


def gpu_devices(gpus: Sequence[str]) -> list[str]:
    """Slurm asks of a GPU only that some device is there, and that on every node which reads gres.conf."""
    return [f"{GPU_FOLDER}/{model}-{index}" for model in gpus for index in range(GPUS)]
