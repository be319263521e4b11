"""What Slurm says about a person: the commands that are asked, and how their answers are read.

Answers come in columns parted by bars. No column is asked for that users fill in themselves, such as the name of a job: it
could look like another row.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

LIMITS: Final = (
    "GrpJobs",
    "GrpSubmit",
    "GrpTRES",
    "GrpTRESMins",
    "GrpWall",
    "MaxJobs",
    "MaxSubmit",
    "MaxTRES",
    "MaxTRESMins",
    "MaxWall",
)
QOS_LIMITS: Final = (
    "GrpJobs",
    "GrpSubmit",
    "GrpTRES",
    "GrpTRESMins",
    "GrpWall",
    "MaxJobsPU",
    "MaxSubmitPU",
    "MaxTRES",
    "MaxTRESPU",
    "MaxWall",
)
UNKNOWN_UID: Final = 0xFFFFFFFE
"""What slurmctld writes for the uid of a user whose name it could not resolve (NO_VAL)."""
_JOB: Final = ("%i", "%T", "%P", "%a", "%q", "%D", "%M", "%l", "%r")
_ASSOCIATION: Final = ("Account", "Partition", "QOS", "DefaultQOS", *LIMITS)
_UID: Final = re.compile(r"\buid=(\d+)\b")
_GROUPS: Final = re.compile(r"\bgroups=(\S+)")
_LIST: Final = ("sacctmgr", "--noheader", "--parsable2", "list")


class Association(Struct, frozen=True):
    account: str
    partition: str = ""
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    limits: dict[str, str] = {}
    """Those that are set."""


class Qos(Struct, frozen=True):
    name: str
    limits: dict[str, str] = {}


class Job(Struct, frozen=True):
    id: str
    state: str
    partition: str
    account: str
    qos: str
    nodes: str
    elapsed: str
    limit: str
    reason: str

    @property
    def pending(self) -> bool:
        return self.state == "PENDING"


class Partition(Struct, frozen=True):
    """A partition, with those of its settings that decide who may use it."""

    name: str
    state: str = "UP"
    groups: tuple[str, ...] | None = None
    """None: all."""
    accounts: tuple[str, ...] | None = None
    denied_accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] | None = None
    denied_qos: tuple[str, ...] = ()


class SlurmView(Struct, frozen=True):
    """What was answered. None stands for what was not asked, or not answered."""

    associations: tuple[Association, ...] | None = None
    default_account: str | None = None
    """Empty: slurmdbd has none."""
    admin_level: str = ""
    qos: tuple[Qos, ...] = ()
    jobs: tuple[Job, ...] | None = None
    partitions: tuple[Partition, ...] | None = None
    parents: dict[str, str] | None = None
    """By account: the one above it. Asked only where a partition is for some accounts."""
    uid: int | None = None
    """The uid that slurmctld has for the user of its associations."""
    in_slurmctld: bool | None = None
    """Whether slurmctld has that user; None if it was not asked."""


class PodView(Struct, frozen=True):
    """What a Pod of the cluster knows about the user."""

    pod: str
    component: str
    known: bool | None = None
    """None if the Pod could not be asked."""
    uid: int | None = None
    gids: tuple[int, ...] = ()
    has_shell: bool | None = None
    """Whether the image has the user's shell; asked in login Pods."""
    trouble: str = ""


# What is asked


def associations_command(name: str, *, cluster: str) -> tuple[str, ...]:
    return (*_LIST, "associations", f"user={name}", f"cluster={cluster}", f"format={','.join(_ASSOCIATION)}")


def parents_command(*, cluster: str) -> tuple[str, ...]:
    return (*_LIST, "associations", f"cluster={cluster}", "format=User,Account,ParentName")


def user_command(name: str) -> tuple[str, ...]:
    return (*_LIST, "user", f"name={name}", "format=DefaultAccount,AdminLevel")


def qos_command() -> tuple[str, ...]:
    return (*_LIST, "qos", f"format={','.join(('Name', *QOS_LIMITS))}")


def jobs_command(uid: int) -> tuple[str, ...]:
    """By number: squeue refuses a name that its own container does not know."""
    return ("squeue", "--noheader", f"--user={uid}", f"--format={'|'.join(_JOB)}")


def partitions_command() -> tuple[str, ...]:
    return ("scontrol", "--oneliner", "show", "partition")


def cached_user_command(name: str) -> tuple[str, ...]:
    return ("scontrol", "--oneliner", "show", "assoc_mgr", f"users={name}", "flags=users")


def id_command(name: str) -> tuple[str, ...]:
    return ("id", name)


# How it is read


def associations(text: str) -> tuple[Association, ...]:
    return tuple(
        Association(account, partition, qos=_split(qos), default_qos=default, limits=_set(LIMITS, limits))
        for account, partition, qos, default, *limits in _rows(text, columns=len(_ASSOCIATION))
    )


def parents(text: str) -> dict[str, str]:
    return {account: parent for name, account, parent in _rows(text, columns=3) if not name}


def qos(text: str) -> tuple[Qos, ...]:
    rows = _rows(text, columns=1 + len(QOS_LIMITS))
    return tuple(Qos(name, limits=_set(QOS_LIMITS, limits)) for name, *limits in rows)


def user(text: str) -> tuple[str, str]:
    """Default account and admin level."""
    return next(((account, level) for account, level in _rows(text, columns=2)), ("", ""))


def jobs(text: str) -> tuple[Job, ...]:
    return tuple(Job(*fields) for fields in _rows(text, columns=len(_JOB)))


def partitions(text: str) -> tuple[Partition, ...]:
    return tuple(_partition(line) for line in text.splitlines() if line.startswith("PartitionName="))


def cached_uid(text: str, name: str) -> int | None:
    found = re.search(rf"\bUserName={re.escape(name)}\((\d+)\)", text)
    return int(found[1]) if found else None


def identity(text: str) -> tuple[int | None, tuple[int, ...]]:
    """Uid and gids out of what `id` says."""
    uid, groups = _UID.search(text), _GROUPS.search(text)
    numbers = re.findall(r"(?:^|,)(\d+)", groups[1]) if groups else []
    return (int(uid[1]) if uid else None), tuple(map(int, numbers))


def _rows(text: str, *, columns: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == columns:
            yield fields


def _set(names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in zip(names, values, strict=True) if value}


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _partition(line: str) -> Partition:
    told = dict(word.split("=", 1) for word in line.split() if "=" in word)
    return Partition(
        told["PartitionName"],
        state=told.get("State", ""),
        groups=_some(told.get("AllowGroups")),
        accounts=_some(told.get("AllowAccounts")),
        denied_accounts=_some(told.get("DenyAccounts")) or (),
        qos=_some(told.get("AllowQos")),
        denied_qos=_some(told.get("DenyQos")) or (),
    )


def _some(text: str | None) -> tuple[str, ...] | None:
    return None if text in {None, "ALL", "N/A", "(null)", ""} else _split(text or "")
