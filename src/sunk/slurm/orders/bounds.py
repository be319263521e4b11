"""What is never sent to Slurm: values that it would take for something else, and texts on which it would choke.

Slurm looks at little of what it is told. Seen on 24.11 and 26.05 alike; sizes above a MiB and times were tried on 24.11:

- The two highest values of each number mean "not set" and "without limit", and the highest bit of a memory means "per
  CPU". So a job that asks for 2⁶³ MiB is one that asks for nothing and gets all memory of its node.
- A name, comment, extra, account or QOS of a job is refused from 1,025 bytes on, but not by its name: all it says is
  "pathname too long". An admin comment has no bound.
- A reason, comment or extra of a node has no bound either: 64 MiB are taken, kept, and sent to every reader ever after.
- The work for features of a node grows with the square of their number, under the lock for everything: 1,000 take a
  tenth of a second, 10,000 seven seconds, 100,000 longer than anybody waits.
- Long lists of nodes to use or to leave out are searched name by name: 100,000 take seven seconds.

A caller gets a ValueError that says which value it was; nothing has been sent.
"""

from collections.abc import Mapping
from typing import Final

from sunk.slurm.libslurm.description import JobDescription
from sunk.slurm.libslurm.wire import NodeChange

JOB_TEXT: Final = 1024
"""Bytes; Slurm's own bound."""
LONG_TEXT: Final = 65_536
"""Bytes; ours, where Slurm has none."""
FEATURES: Final = 1000
_UNSET: Final = 2
"""How many of the highest values are none."""
_TEXTS: Final = (
    *((name, JOB_TEXT) for name in ("name", "comment", "extra", "account", "qos")),
    *((name, LONG_TEXT) for name in ("admin_comment", "wanted_nodes", "refused_nodes", "features", "dependency")),
)
_NODE_TEXTS: Final = ("reason", "comment", "extra")
NUMBERS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("cpus_per_task", "tasks_per_node", "cpus_per_node"), 2**16 - 1 - _UNSET),
    **dict.fromkeys(("user_id", "group_id", "min_nodes", "max_nodes", "tasks"), 2**32 - 1 - _UNSET),
    **dict.fromkeys(("min_cpus", "time_limit", "priority"), 2**32 - 1 - _UNSET),
    "memory": 2**63 - 1,
}


def check_change(change: NodeChange) -> None:
    """Look at an order for nodes."""
    for name in _NODE_TEXTS:
        _check_text(f"the {name} of nodes", getattr(change, name), most=LONG_TEXT)
    count = change.features.count(",") + 1 if change.features else 0
    if count > FEATURES:
        raise ValueError(
            f"{count:,} features are too many for a node: at most {FEATURES:,}, otherwise slurmctld stalls"
        )
    _check_text("the features of nodes", change.features, most=LONG_TEXT)


def check_job(wanted: JobDescription) -> None:
    """Look at a job before it is submitted, allocated or changed."""
    for name, most in _TEXTS:
        if text := getattr(wanted, name):
            _check_text(f"the {name} of a job", text, most=most)
    for name, most in NUMBERS.items():
        value = getattr(wanted, name)
        if value is not None and not 0 <= value <= most:
            raise ValueError(f"the {name} of a job must be between 0 and {most:,}, found {value:,}")


def is_long(text: str) -> bool:
    """Whether a text of a node is longer than we send."""
    return len(text.encode(errors="replace")) > LONG_TEXT


def shortened(text: str) -> str:
    """A text of a node, cut to what we send."""
    return text.encode(errors="replace")[:LONG_TEXT].decode(errors="ignore") if is_long(text) else text


def _check_text(what: str, text: str | None, *, most: int) -> None:
    length = len(text.encode(errors="replace")) if text else 0
    if length > most:
        raise ValueError(f"{what} is {length:,} bytes long, but at most {most:,} are allowed: shorten it")
