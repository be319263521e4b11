"""Types and reasons of the conditions by which the operator tells of NodeSets and SlurmClusters.

`sunk status` and `sunk explain` decide upon them, and so do people's alerts: none may change unnoticed. What Slurm says
of a node stands in conditions of Pods and Nodes, whose names are in `sunk.model.names`.
"""

from datetime import UTC, datetime
from typing import Final, Protocol

# Of both kinds.
READY: Final = "Ready"
NODES_MISSING: Final = "NodesMissing"
"""Reason: fewer nodes are ready than are wanted."""
HELD: Final = "Held"
"""Condition of a NodeSet, and reason of InStep: what destroys is not done, because what was read is hard to believe."""

# Of NodeSets.
PROGRESSING: Final = "Progressing"
TEMPLATE_VALID: Final = "TemplateValid"
NAMES_UNIQUE: Final = "NamesUnique"

# Of SlurmClusters.
CONTROLLER_AVAILABLE: Final = "ControllerAvailable"
ACCOUNTING_AVAILABLE: Final = "AccountingAvailable"
LOGIN_AVAILABLE: Final = "LoginAvailable"
DIRECTORIES_AVAILABLE: Final = "DirectoriesAvailable"
"""The directory agent reads all directories. Users who are known stay known while it does not, so Ready does not ask."""
CONFIG_APPLIED: Final = "ConfigApplied"
IN_STEP: Final = "InStep"
"""The syncer sees Slurm and acts upon what it sees."""
LACKING: Final = "Lacking"
"""Reason of Ready, which then only repeats what the other conditions say."""
NOT_MADE: Final = "NotMade"
NOT_READY: Final = "NotReady"
SWITCHED_OFF: Final = "SwitchedOff"
NO_SYNCER: Final = frozenset({NOT_MADE, NOT_READY, SWITCHED_OFF})
"""Reasons of InStep for which nobody keeps what Kubernetes shows of Slurm up to date."""


class HeldCondition(Protocol):
    """A condition of any object, as it was read."""

    @property
    def status(self) -> str: ...

    @property
    def last_transition_time(self) -> datetime | None: ...


def transition_time(held: HeldCondition | None, status: str, *, now: datetime) -> datetime:
    """When a condition came to this status: it keeps its time for as long as the status is the same, whatever else changes."""
    if held is not None and held.status == status and held.last_transition_time is not None:
        return held.last_transition_time
    return now.astimezone(UTC).replace(microsecond=0)
