"""The states of nodes and jobs: one base state each, and a set of flags beside it.

The numbers are those of slurm.h; a test compares them where the header is. They stand here too because a part that has
no libslurm still reads states, and because two releases give one bit two meanings.
"""

from enum import Flag, IntEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct


class NodeBase(IntEnum):
    """What a node does. ERROR is Slurm's own left-over; UNKNOWN is a node that never registered."""

    UNKNOWN = 0
    DOWN = 1
    IDLE = 2
    ALLOCATED = 3
    ERROR = 4
    MIXED = 5
    FUTURE = 6


class NodeFlag(Flag):
    """What else holds. The names are those that `scontrol` shows, where it shows them."""

    EXTERNAL = 1 << 4
    RESERVED = 1 << 5
    UNDRAIN = 1 << 6
    CLOUD = 1 << 7
    RESUME = 1 << 8
    DRAIN = 1 << 9
    COMPLETING = 1 << 10
    NOT_RESPONDING = 1 << 11
    POWERED_DOWN = 1 << 12
    FAIL = 1 << 13
    POWERING_UP = 1 << 14
    MAINTENANCE = 1 << 15
    REBOOT_REQUESTED = 1 << 16
    REBOOT_CANCEL = 1 << 17
    POWERING_DOWN = 1 << 18
    DYNAMIC_FUTURE = 1 << 19
    REBOOT_ISSUED = 1 << 20
    PLANNED = 1 << 21
    INVALID_REG = 1 << 22
    POWER_DOWN = 1 << 23
    POWER_UP = 1 << 24
    POWER_DRAIN = 1 << 25
    DYNAMIC_NORM = 1 << 26
    BLOCKED = 1 << 27


class JobBase(IntEnum):
    """Where a job is in its life. UNKNOWN is a state that a later release invented."""

    PENDING = 0
    RUNNING = 1
    SUSPENDED = 2
    COMPLETED = 3
    CANCELLED = 4
    FAILED = 5
    TIMEOUT = 6
    NODE_FAIL = 7
    PREEMPTED = 8
    BOOT_FAIL = 9
    DEADLINE = 10
    OUT_OF_MEMORY = 11
    UNKNOWN = 255


class JobFlag(Flag):
    """What else holds. COMPLETING: it ended, but an epilog still keeps a node."""

    LAUNCH_FAILED = 1 << 8
    REQUEUED = 1 << 10
    REQUEUE_HOLD = 1 << 11
    SPECIAL_EXIT = 1 << 12
    RESIZING = 1 << 13
    CONFIGURING = 1 << 14
    COMPLETING = 1 << 15
    STOPPED = 1 << 16
    RECONFIG_FAIL = 1 << 17
    POWER_UP_NODE = 1 << 18
    REVOKED = 1 << 19
    REQUEUE_FED = 1 << 20
    RESV_DEL_HOLD = 1 << 21
    SIGNALING = 1 << 22
    STAGE_OUT = 1 << 23


NODE_BASE: Final = 0x0000000F
JOB_BASE: Final = 0x000000FF
_POWER: Final = (
    NodeFlag.POWERED_DOWN
    | NodeFlag.POWERING_UP
    | NodeFlag.POWERING_DOWN
    | NodeFlag.POWER_DOWN
    | NodeFlag.POWER_UP
    | NodeFlag.POWER_DRAIN
)

_OUT: Final = NodeFlag.DRAIN | NodeFlag.FAIL
_REBOOT: Final = NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED


class NodeState(Struct, frozen=True):
    """The state of a node. A base that a later release invents reads as UNKNOWN, which never permits anything."""

    base: NodeBase
    flags: NodeFlag

    def __contains__(self, flag: NodeFlag) -> bool:
        return bool(self.flags & flag)

    def __str__(self) -> str:
        return "+".join([self.base.name, *(flag.name or "" for flag in NodeFlag if flag in self.flags)])

    @property
    def draining(self) -> bool:
        return NodeFlag.DRAIN in self

    @property
    def failing(self) -> bool:
        """Somebody has set it to FAIL: like a drain it takes no new jobs, but by a flag of its own."""
        return NodeFlag.FAIL in self

    @property
    def out_of_service(self) -> bool:
        """It gets no new jobs because somebody said so, by a drain or by FAIL."""
        return bool(self.flags & _OUT)

    @property
    def rebooting(self) -> bool:
        """A reboot was asked of Slurm and is not over: it waits for jobs to end, or for the machine."""
        return bool(self.flags & _REBOOT)

    @property
    def busy(self) -> bool:
        """A job is on it, or its epilog is."""
        return self.base in {NodeBase.ALLOCATED, NodeBase.MIXED} or NodeFlag.COMPLETING in self

    @property
    def drained(self) -> bool:
        """Out of service, and for certain without a job: the only state in which a node may be taken away."""
        return self.out_of_service and self.base in {NodeBase.IDLE, NodeBase.DOWN} and not self.busy

    @property
    def registered(self) -> bool:
        return self.base not in {NodeBase.UNKNOWN, NodeBase.FUTURE}

    @property
    def in_power_saving(self) -> bool:
        return bool(self.flags & _POWER)


class JobState(Struct, frozen=True):
    """The state of a job. One that is not known has not ended and holds its nodes: nothing is destroyed upon it."""

    base: JobBase
    flags: JobFlag

    def __contains__(self, flag: JobFlag) -> bool:
        return bool(self.flags & flag)

    def __str__(self) -> str:
        return "+".join([self.base.name, *(flag.name or "" for flag in JobFlag if flag in self.flags)])

    @property
    def completing(self) -> bool:
        return JobFlag.COMPLETING in self

    @property
    def ended(self) -> bool:
        """It will not run again under this state; its nodes may still be held while it is `completing`."""
        return self.base not in {JobBase.PENDING, JobBase.RUNNING, JobBase.SUSPENDED, JobBase.UNKNOWN}

    @property
    def holds_nodes(self) -> bool:
        return self.base in {JobBase.RUNNING, JobBase.SUSPENDED, JobBase.UNKNOWN} or self.completing


@lru_cache(maxsize=1024)
def node_state(bits: int) -> NodeState:
    base = bits & NODE_BASE
    known = NodeBase(base) if base in NodeBase.__members__.values() else NodeBase.UNKNOWN
    return NodeState(base=known, flags=NodeFlag(bits & _all(NodeFlag)))


@lru_cache(maxsize=1024)
def job_state(bits: int) -> JobState:
    base = bits & JOB_BASE
    known = JobBase(base) if base in JobBase.__members__.values() else JobBase.UNKNOWN
    return JobState(base=known, flags=JobFlag(bits & _all(JobFlag)))


def _all(flags: type[Flag]) -> int:
    return sum(flag.value for flag in flags)
