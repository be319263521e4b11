"""Conditions of NodeSets and SlurmClusters, from what their controllers find."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

from sunk.model.contract.conditions import transition_time
from sunk.model.nodeset import Condition

DraftCondition = tuple[str, bool, str, str]
"""Type, whether it holds, reason and message."""
_LONGEST: Final = 1000


def dated(drafts: Iterable[DraftCondition], *, before: Iterable[Condition], generation: int) -> Iterable[Condition]:
    """Make conditions of drafts. One that has the same status as before keeps its transition time."""
    held, now = {condition.type: condition for condition in before}, datetime.now(UTC)
    for kind, holds, reason, message in drafts:
        status: Literal["True", "False"] = "True" if holds else "False"
        since = transition_time(held.get(kind), status, now=now)
        yield Condition(kind, status, since, reason, message[:_LONGEST], generation)
