"""Which C value each field of a record is. `r` is the C row; what is not named here has the same name there.

How a value is packed follows from the field's type. Where that is not enough, a whole statement that begins with
`put_` stands instead, with `b` as the buffer.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from sunk.slurm import records

SHORT: Final = 256
"""Bytes of a job's text that is only shown."""
JOB_TEXT: Final = 1024
"""Slurm's own bound for the texts that it has one for."""
NODE_TEXT: Final = 65_540
"""Just above the most that we send (`bounds.LONG_TEXT`), so that a text that was cut is still known to be too long."""
ASSOCIATION_TEXT: Final = 8200
"""Just above the longest comment that we write (`orders.accounts`): whether an association is ours is read from it."""
CUT: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        ("name", "account", "reason_text", "array_tasks", "features", "dependency", "tres_per_node"), SHORT
    ),
    **dict.fromkeys(("planned_nodes", "wanted_nodes", "refused_nodes"), SHORT),
    **dict.fromkeys(("comment", "admin_comment", "system_comment"), SHORT),
    "extra": JOB_TEXT,
}
"""By field of a job. Its `nodes` are whole: what may be deleted is decided upon them."""


class Shape(Struct, frozen=True):
    """How one C struct becomes one record. `before` and `after` are C, for values that are ours to free."""

    record: type[Struct]
    row: str
    values: Mapping[str, str]
    before: str = ""
    after: str = ""
    cut: Mapping[str, int] = {}
    """The most bytes of a text, by field."""


NODES: Final = Shape(
    record=records.Node,
    row="node_info_t",
    before="node_use use = sunk_use(r);",
    after="sunk_unuse(&use);",
    values={
        "state_bits": "r->node_state",
        # Slurm leaves it out where it is the same.
        "features_active": "r->features_act ? r->features_act : r->features",
        "cpus_allocated": "use.cpus",
        "cpus_load": "r->cpu_load",
        "memory": "r->real_memory",
        "memory_allocated": "use.memory",
        "memory_free": "r->free_mem",
        "tres": "r->tres_fmt_str",
        "tres_allocated": "use.tres",
        "address": "r->node_addr",
        "host": "r->node_hostname",
        "reservation": "r->resv_name",
    },
    cut=dict.fromkeys(("reason", "comment", "extra"), NODE_TEXT),
)

JOBS: Final = Shape(
    record=records.Job,
    row="slurm_job_info_t",
    cut=CUT,
    values={
        "id": "JOB_OF(r)",
        "array_id": "r->array_job_id",
        "array_task": "r->array_task_id",
        "array_tasks": "r->array_task_str",
        "het_id": "r->het_job_id",
        "het_offset": "r->het_job_offset == NO_VAL ? 0 : r->het_job_offset",
        "user": "r->user_name",
        "state_bits": "r->job_state",
        "reason": "slurm_job_state_reason_string(r->state_reason)",
        "reason_text": "r->state_desc",
        "planned_nodes": "r->sched_nodes",
        "wanted_nodes": "r->req_nodes",
        "refused_nodes": "r->exc_nodes",
        "cpus": "r->num_cpus",
        "node_count": "r->num_nodes",
        "memory": "r->pn_min_memory",
        "tres_requested": "r->tres_req_str",
        "tres_allocated": "r->tres_alloc_str",
        "gres_per_node": "put_texts(b, r->gres_detail_str, r->gres_detail_cnt)",
        "restarts": "r->restart_cnt",
        "batch": "r->batch_flag",
        "exit_status": "r->exit_code",
        "reservation": "r->resv_name",
    },
)

ALLOCATION: Final = Shape(
    record=records.Allocation,
    row="resource_allocation_response_msg_t",
    values={"job": "JOB_OF(r)", "nodes": "r->node_list", "cpus": "put_cpus(b, r)"},
)

PARTITIONS: Final = Shape(
    record=records.Partition,
    row="partition_info_t",
    values={
        "state_bits": "r->state_up",
        "node_count": "r->total_nodes",
        "cpus": "r->total_cpus",
        "tres": "r->tres_fmt_str",
        "qos": "r->qos_char",
    },
)

RESERVATIONS: Final = Shape(
    record=records.Reservation,
    row="reserve_info_t",
    values={
        "nodes": "r->node_list",
        "node_count": "r->node_cnt",
        "core_count": "r->core_cnt",
        "tres": "r->tres_str",
    },
)

STATISTICS: Final = Shape(
    record=records.Statistics,
    row="stats_info_response_msg_t",
    values={
        "now": "r->req_time",
        "since": "r->req_time_start",
        "server_threads": "r->server_thread_count",
        "agents": "r->agent_count",
        "agent_threads": "r->agent_thread_count",
        "agent_queue": "r->agent_queue_size",
        "dbd_queue": "r->dbd_agent_queue_size",
        "clock_latency": "r->gettimeofday_latency",
        "jobs_counted_at": "r->job_states_ts",
        "cycles": "r->schedule_cycle_counter",
        "cycle_last": "r->schedule_cycle_last",
        "cycle_max": "r->schedule_cycle_max",
        "cycle_sum": "r->schedule_cycle_sum",
        "cycle_depth_sum": "r->schedule_cycle_depth",
        "queue": "r->schedule_queue_len",
        "backfill_active": "r->bf_active",
        "backfill_cycles": "r->bf_cycle_counter",
        "backfill_cycle_last": "r->bf_cycle_last",
        "backfill_cycle_max": "r->bf_cycle_max",
        "backfill_cycle_sum": "r->bf_cycle_sum",
        "backfill_when": "r->bf_when_last_cycle",
        "backfill_depth_last": "r->bf_last_depth",
        "backfill_depth_sum": "r->bf_depth_sum",
        "backfill_depth_tried_last": "r->bf_last_depth_try",
        "backfill_depth_tried_sum": "r->bf_depth_try_sum",
        "backfill_queue": "r->bf_queue_len",
        "backfill_queue_sum": "r->bf_queue_len_sum",
        "backfill_table": "r->bf_table_size",
        "backfill_table_sum": "r->bf_table_size_sum",
        "backfilled": "r->bf_backfilled_jobs",
        "backfilled_last": "r->bf_last_backfilled_jobs",
        "backfilled_het": "r->bf_backfilled_het_jobs",
        "rpcs": "put_rpcs(b, r)",
        "callers": "put_callers(b, r)",
        "cycle_exits": "put_numbers(b, r->schedule_exit, r->schedule_exit_cnt)",
        "backfill_exits": "put_numbers(b, r->bf_exit, r->bf_exit_cnt)",
        "unsent": "put_unsent(b, r)",
    },
)

ACCOUNTED: Final = Shape(
    record=records.Accounted,
    row="slurmdb_job_rec_t",
    values={
        "id": "r->jobid",
        "array_id": "r->array_job_id",
        "user_id": "r->uid",
        "submit_time": "r->submit",
        "start_time": "r->start",
        "end_time": "r->end",
        "state_bits": "r->state",
        "ended_by": "r->requid",
    },
)

ASSOCIATIONS: Final = Shape(
    record=records.Association,
    row="slurmdb_assoc_rec_t",
    values={
        "account": "r->acct",
        "qos": "put_list(b, r->qos_list)",
        "default_qos": "IS_SET(r->def_qos_id) ? r->def_qos_id : 0",
        "is_default": "r->is_def == 1",
        "is_limited": "sunk_is_limited(r)",
    },
    cut={"comment": ASSOCIATION_TEXT},
)

QOS: Final = Shape(record=records.Qos, row="slurmdb_qos_rec_t", values={})

KNOWN: Final = Shape(
    record=records.KnownUser,
    row="slurmdb_user_rec_t",
    values={"default_account": "r->default_acct"},
)

CONFIGURATION: Final = Shape(
    record=records.Configuration,
    row="slurm_conf_t",
    values={
        "cluster": "r->cluster_name",
        "accounting": "r->accounting_storage_type",
        "parameters": "r->slurmctld_params",
        "return_to_service": "r->ret2service",
        "unkillable_step_timeout": "r->unkillable_timeout",
    },
)

SHAPES: Final[Mapping[str, Shape]] = {
    "nodes": NODES,
    "jobs": JOBS,
    "allocation": ALLOCATION,
    "partitions": PARTITIONS,
    "reservations": RESERVATIONS,
    "statistics": STATISTICS,
    "configuration": CONFIGURATION,
    "accounted": ACCOUNTED,
    "associations": ASSOCIATIONS,
    "qos": QOS,
    "known": KNOWN,
}
