"""A job as we describe it to Slurm, to submit, allocate or change it. What is None is left to Slurm, or as it is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import astuple

if TYPE_CHECKING:
    from sunk.slurm.binding._libslurm import _FFI


class JobDescription(Struct, frozen=True, kw_only=True):
    """Only root and SlurmUser may name another user than their own."""

    name: str | None = None
    user_id: int | None = None
    group_id: int | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    script: str | None = None
    environment: Mapping[str, str] | None = None
    work_dir: str | None = None
    std_in: str | None = None
    std_out: str | None = None
    std_err: str | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    wanted_nodes: str | None = None
    refused_nodes: str | None = None
    features: str | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    min_cpus: int | None = None
    cpus_per_task: int | None = None
    cpus_per_node: int | None = None
    memory: int | None = None
    """MiB per node. Without it, and without a default in slurm.conf, a job takes all memory of its node."""
    tres_per_node: str | None = None
    """Such as `gres/gpu:h100:2`."""
    tres_per_job: str | None = None
    whole_nodes: bool = False
    time_limit: int | None = None
    """In minutes."""
    priority: int | None = None
    """0 holds it."""
    dependency: str | None = None
    requeue: bool | None = None
    kill_on_node_fail: bool | None = None
    extra: str | None = None
    comment: str | None = None
    admin_comment: str | None = None


_C_NAMES: Final[Mapping[str, str]] = {
    "wanted_nodes": "req_nodes",
    "refused_nodes": "exc_nodes",
    "tasks": "num_tasks",
    "tasks_per_node": "ntasks_per_node",
    "cpus_per_node": "pn_min_cpus",
    "memory": "pn_min_memory",
}
_APART: Final = frozenset({"environment", "whole_nodes"})
_PLACES: Final = tuple("" if name in _APART else _C_NAMES.get(name, name) for name in JobDescription.__struct_fields__)
"""Where each field goes, in their order; empty for those that take more than that."""


def filled(wanted: JobDescription, *, blank: Any, ffi: "_FFI") -> tuple[Any, list[Any]]:
    """Give the message for libslurm, and what has to be held as long as it: C has pointers into Python's memory."""
    message = ffi.new("job_desc_msg_t *", blank[0])
    held: list[Any] = []
    for place, value in zip(_PLACES, astuple(wanted), strict=True):
        if value is None or not place:
            continue
        if isinstance(value, str):
            held.append(c_text(value, ffi=ffi))
            value = held[-1]  # noqa: PLW2901 - the same value in C
        setattr(message, place, value)
    if wanted.whole_nodes:
        message.shared = 0
    if wanted.environment is not None:
        held += (lines := [c_text(f"{name}={value}", ffi=ffi) for name, value in wanted.environment.items()])
        held.append(ffi.new("char *[]", lines))
        message.environment, message.env_size = held[-1], len(lines)
    return message, held


def c_text(text: str, *, ffi: "_FFI") -> Any:
    """C ends a text at the first NUL, and silently: half a reason would be worse than none."""
    if "\0" in text:
        raise ValueError(f"Slurm texts cannot contain a NUL character: {text[:80]!r}")
    return ffi.new("char[]", text.encode(errors="replace"))
