"""What Slurm shows of Kubernetes at each node: one key of ours in its `Extra`, which users may add others to.

That the key is there also marks the record as ours: one without it was made anew since, and has lost the drain that a
person had put on before the machine left.
"""

from typing import Any, Final

from sunk.model import names
from sunk.model.contract import drains, keptdrains
from sunk.slurm.orders import extra
from sunk.slurm.records import Node
from sunk.syncer.drains.causes import Pair, standing
from sunk.syncer.pods import ComputePod

KEY: Final = drains.EXTRA_KEY
_READY: Final = "Ready"
_SLURMS: Final = frozenset({names.SLURM_DRAIN, names.SLURM_RUNNING, names.SLURM_NOT_RESPONDING})
_KUBERNETES: Final = frozenset(
    {
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "PodReadyToStartContainers",
        "PodResizePending",
        "PodResizeInProgress",
        "DisruptionTarget",
        "AllContainersRestarting",
    }
)
"""Conditions of Kubernetes' own that tell no more than Ready does."""


def marked(row: Node) -> bool:
    """Whether we have written to this record before."""
    return KEY in row.extra and KEY in extra.read(row.extra)


def wanted(pair: Pair) -> dict[str, Any]:
    """What our key should hold."""
    pod = pair.pod
    lock = "" if pod is None else pod.metadata.annotations.get(names.LOCK, "")
    found = {
        "node": pair.member.entry.node,
        "pod": "" if pod is None else pod.metadata.name,
        "nodeset": pair.member.node_set,
        "conditions": {} if pod is None else _conditions(pod),
    }
    return found | ({"lock": lock} if lock else {})


def differs(pair: Pair) -> bool:
    return bool(extra.read(pair.row.extra).get(KEY) != wanted(pair))


def kept_drain(pair: Pair) -> str | None:
    """The reason of a drain that was on this machine when it left, and that its new record has not got yet."""
    return None if drains.is_personal(standing(pair.row)) else owed_drain(pair)


def owed_drain(pair: Pair) -> str | None:
    """The same, also while somebody else's drain is on, which covers it."""
    said = "" if pair.pod is None else pair.pod.metadata.annotations.get(names.KEPT_DRAIN, "")
    if not said or marked(pair.row):
        return None
    words = keptdrains.one_line(said)  # whoever wrote it
    return None if not words or drains.is_ours(words) else words


def owes(pair: Pair) -> bool:
    """Whether a kept drain is still to be put on, now or when somebody else's is lifted."""
    owed = owed_drain(pair)
    return owed is not None and not (
        drains.is_personal(standing(pair.row)) and keptdrains.line(pair.row.reason) == owed
    )


def _conditions(pod: ComputePod) -> dict[str, str]:
    """Whether it is ready, and what people say of it."""
    hidden = _SLURMS | _KUBERNETES
    found = {each.type: each.status for each in pod.status.conditions if each.type not in hidden}
    return {_READY: "False"} | dict(sorted(found.items()))
