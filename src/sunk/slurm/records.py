"""What Slurm says, as frozen records. Times are seconds since 1970 on slurmctld's clock, 0 if never; memory is in MiB.

The records arrive as arrays, packed in C; `binding.shapes` says which C value each field is. `None` is what Slurm
writes as NO_VAL or INFINITE: no number was set, or there is no limit. A text that is not set is empty.

Texts that users write and that nothing is decided upon are cut in C (`binding.shapes.CUT`) and then end in `...`.
"""

from typing import Generic, TypeVar

from msgspec import Struct

from sunk.slurm import gres, states

T = TypeVar("T")


class Table(Struct, Generic[T], frozen=True, array_like=True):
    """A whole table. `updated` is the server's own time, to be passed back as `since`; it is never ours to compute."""

    rows: tuple[T, ...]
    updated: int
    unreadable: tuple[str, ...] = ()
    """Rows that could not be read, each by its key and what was wrong with it. Everything else is as it should be."""


class Node(Struct, frozen=True, array_like=True, gc=False):
    """A Slurm node."""

    name: str
    state_bits: int
    reason: str
    """Stays after an undrain until the next job starts (24.11), so look at the flag first."""
    reason_time: int
    reason_uid: int | None
    features: tuple[str, ...]
    """Those that it can have."""
    features_active: tuple[str, ...]
    gres: str
    gres_used: str
    cpus: int
    cpus_allocated: int
    cpus_load: int | None
    """In hundredths."""
    memory: int
    memory_allocated: int
    memory_free: int | None
    tres: str
    tres_allocated: str
    address: str
    host: str
    port: int
    extra: str
    comment: str
    reservation: str
    boot_time: int
    slurmd_start_time: int
    last_busy: int
    version: str
    instance_id: str
    weight: int
    owner: int | None

    @property
    def state(self) -> states.NodeState:
        return states.node_state(self.state_bits)


class Job(Struct, frozen=True, array_like=True, gc=False):
    """A job; of an array or a heterogeneous job, one part."""

    id: int
    array_id: int
    """0 where it is not of an array."""
    array_task: int | None
    array_tasks: str
    """Tasks that are not split off yet, as `1-9%2`."""
    het_id: int
    het_offset: int
    name: str
    user_id: int
    group_id: int
    user: str
    """Empty unless Slurm was told to send names with jobs; the number is what counts."""
    account: str
    partition: str
    qos: str
    state_bits: int
    reason: str
    """Why it is pending or failed, in the words of `squeue`."""
    reason_text: str
    nodes: str
    """A hostlist. Shrinks while the job completes, to those whose epilog still runs, and is whole again at the end."""
    batch_host: str
    planned_nodes: str
    wanted_nodes: str
    refused_nodes: str
    features: str
    cpus: int
    node_count: int
    memory: int
    """Asked per node, or per CPU with the highest bit set."""
    tres_requested: str
    tres_allocated: str
    tres_per_node: str
    gres_total: str
    gres_per_node: tuple[str, ...]
    """One for every node that it holds, in the order of `nodes`, such as `gpu:h100:2(IDX:0-1)`."""
    submit_time: int
    eligible_time: int
    start_time: int
    end_time: int
    """Expected, while it runs."""
    suspend_time: int
    preempt_time: int
    time_limit: int | None
    """In minutes."""
    priority: int
    restarts: int
    requeue: bool
    batch: bool
    exit_status: int
    """As wait() gives it."""
    dependency: str
    reservation: str
    extra: str
    comment: str
    admin_comment: str
    system_comment: str
    failed_node: str

    @property
    def state(self) -> states.JobState:
        return states.job_state(self.state_bits)

    @property
    def gpus(self) -> tuple[tuple[int, ...], ...]:
        """The indices of its GPUs on each node, in the order of `nodes`."""
        return tuple(gres.indices(text) for text in self.gres_per_node)


class Allocation(Struct, frozen=True, array_like=True, gc=False):
    """How many CPUs a job has on each of its nodes. A read of its own: the job's row has them in a hidden form only."""

    job: int
    nodes: str
    """A hostlist."""
    cpus: tuple[int, ...]
    """In the order of `nodes`."""


class Partition(Struct, frozen=True, array_like=True, gc=False):
    """A partition."""

    name: str
    nodes: str
    nodesets: str
    state_bits: int
    flags: int
    node_count: int
    cpus: int
    tres: str
    priority_tier: int
    max_time: int | None
    """In minutes."""
    default_time: int | None
    max_nodes: int | None
    min_nodes: int
    grace_time: int
    preempt_mode: int
    allow_accounts: tuple[str, ...]
    allow_groups: tuple[str, ...]
    allow_qos: tuple[str, ...]
    deny_accounts: tuple[str, ...]
    deny_qos: tuple[str, ...]
    qos: str

    @property
    def takes_jobs(self) -> bool:
        """Whether jobs can be submitted."""
        return bool(self.state_bits & 1)

    @property
    def starts_jobs(self) -> bool:
        return bool(self.state_bits & 2)

    @property
    def is_default(self) -> bool:
        return bool(self.flags & 1)


class Reservation(Struct, frozen=True, array_like=True, gc=False):
    """A reservation."""

    name: str
    nodes: str
    node_count: int
    core_count: int
    partition: str
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    groups: tuple[str, ...]
    features: str
    flags: int
    start_time: int
    end_time: int
    tres: str
    licenses: str
    comment: str


class Tables(Struct, frozen=True):
    """All tables of one read. None: unchanged, or not asked for. The time of each is slurmctld's clock."""

    nodes: Table[Node] | None
    jobs: Table[Job] | None
    partitions: Table[Partition] | None
    reservations: Table[Reservation] | None


class Configuration(Struct, frozen=True, array_like=True, gc=False):
    """What slurmctld runs with, as far as something is decided upon it. Durations are in seconds."""

    boot_time: int
    version: str
    cluster: str
    accounting: str
    """AccountingStorageType; empty if there is none."""
    parameters: tuple[str, ...]
    """SlurmctldParameters, word by word."""
    kill_wait: int
    min_job_age: int
    """So long after its end a job is still known; 0 means for ever."""
    return_to_service: int
    slurmd_timeout: int
    unkillable_step_timeout: int

    def parameter(self, name: str) -> str:
        """The value of a parameter that is written `name=value`; empty if there is none of that name."""
        begin = f"{name}="
        return next((word.removeprefix(begin) for word in self.parameters if word.startswith(begin)), "")


class Association(Struct, frozen=True, array_like=True, gc=False):
    """A user in an account, or an account itself (`user` is empty), as slurmdbd has it for one cluster.

    What it has from the account above it is not in here.
    """

    id: int
    user: str
    account: str
    partition: str
    """Empty: all of them."""
    comment: str
    qos: tuple[str, ...]
    """Numbers; with `+` or `-` before them if they are added to those of the account. None: those of the account."""
    default_qos: int
    """Its number; 0 if it has none of its own."""
    is_default: bool
    """It is what jobs of the user run in that name no account."""
    is_limited: bool
    """It has a limit, a share or a priority of its own."""


class Qos(Struct, frozen=True, array_like=True, gc=False):
    id: int
    name: str


class KnownUser(Struct, frozen=True, array_like=True, gc=False):
    """A user of slurmdbd as slurmctld knows it."""

    name: str
    uid: int | None
    """None: slurmctld knows no user of this name, and refuses the jobs of whoever has it."""
    default_account: str


class Accounted(Struct, frozen=True, array_like=True, gc=False):
    """A job as accounting has it. One that was requeued, or whose number was given out again, has several rows."""

    id: int
    array_id: int
    user_id: int
    submit_time: int
    start_time: int
    """0 if it has not started."""
    end_time: int
    """Says nothing by itself: of a job that still runs slurmdbd gives the time of the question."""
    state_bits: int
    ended_by: int | None
    """The user whose request ended it, where it was one."""

    @property
    def state(self) -> states.JobState:
        return states.job_state(self.state_bits)


class Calls(Struct, frozen=True, array_like=True, gc=False):
    """How often one kind of request, or one user, called, and how many microseconds that took in all."""

    key: int
    """The number of the request (see `rpcs`) or of the user."""
    count: int
    microseconds: int


class Statistics(Struct, frozen=True, array_like=True):
    """What `sdiag` shows. Counters start from zero at every restart and reconfigure, which `since` shows. Microseconds."""

    now: int
    since: int
    server_threads: int
    agents: int
    agent_threads: int
    agent_queue: int
    dbd_queue: int
    clock_latency: int
    jobs_submitted: int
    jobs_started: int
    jobs_completed: int
    jobs_canceled: int
    jobs_failed: int
    jobs_pending: int
    jobs_running: int
    jobs_counted_at: int
    cycles: int
    cycle_last: int
    cycle_max: int
    cycle_sum: int
    cycle_depth_sum: int
    queue: int
    backfill_active: bool
    backfill_cycles: int
    backfill_cycle_last: int
    backfill_cycle_max: int
    backfill_cycle_sum: int
    backfill_when: int
    backfill_depth_last: int
    backfill_depth_sum: int
    backfill_depth_tried_last: int
    backfill_depth_tried_sum: int
    backfill_queue: int
    backfill_queue_sum: int
    backfill_table: int
    backfill_table_sum: int
    backfilled: int
    backfilled_last: int
    backfilled_het: int
    rpcs: tuple[Calls, ...]
    callers: tuple[Calls, ...]
    cycle_exits: tuple[int, ...]
    """How often a cycle of the main scheduler ended for each reason of `rpcs.MAIN_EXITS`."""
    backfill_exits: tuple[int, ...]
    """The same for `rpcs.BACKFILL_EXITS`."""
    unsent: tuple[tuple[int, int], ...]
    """Messages that wait to be sent to nodes: the number of the request, and how many."""
