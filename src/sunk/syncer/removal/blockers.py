"""What speaks against the deletion of a Slurm node's record: a job on it, a reservation of it, or somebody's drain.

Slurm itself refuses to delete a node with a job, and does delete one out of a reservation (24.11.5, tried): whoever has
reserved it would be left with less, unsaid. So we refuse in its place, unless it takes whichever nodes there are.

A drain that is not ours goes with the record, and why somebody wanted it. Which drains count is for the caller to say.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sunk.model.contract import drains
from sunk.model.hostlist import expand
from sunk.slurm.records import Node, Reservation
from sunk.slurm.states import NodeFlag
from sunk.syncer.drains.causes import standing

DRAINED: Final = "somebody has drained it: "
_SHOWN: Final = 3
_PART_NODES: Final = 1 << 12
_REPLACE: Final = 1 << 18
_ALL_NODES: Final = 1 << 19
_REPLACE_DOWN: Final = 1 << 30
_INDIFFERENT: Final = _PART_NODES | _REPLACE | _ALL_NODES | _REPLACE_DOWN
"""Flags of slurm.h: its nodes are all there are, or are replaced by others."""
_INVALID: Final = ("Low ", "gres/")
"""How the reason begins that Slurm itself gives to a registration that promises less than the record has."""


def hindrance(node: Node, *, jobs: Iterable[int], reservations: Iterable[Reservation]) -> str:
    """Why its record has to stay; empty if it may go."""
    numbers = sorted(jobs)
    if numbers:
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (" and more" if len(numbers) > _SHOWN else "")
        return f"job {shown} is on it" if len(numbers) == 1 else f"jobs {shown} are on it"
    if node.state.busy:
        return f"something runs on it: {node.state}"
    taken = sorted(one.name for one in reservations if not one.flags & _INDIFFERENT and node.name in _nodes(one.nodes))
    return f"it is in the reservation {', '.join(taken[:_SHOWN])}" if taken else ""


def is_kept(node: Node) -> bool:
    """Whether somebody's drain would be lost with the record. Slurm's own, for the very difference, is nobody's."""
    own = NodeFlag.INVALID_REG in node.state and node.reason.startswith(_INVALID)
    return not own and drains.is_personal(standing(node))


def drained(node: Node) -> str:
    """Why a record would have to stay because somebody has drained it; empty if nobody has, or if it is only down."""
    return f"{DRAINED}{node.reason}" if node.state.out_of_service and is_kept(node) else ""


@lru_cache(maxsize=64)
def _nodes(text: str) -> frozenset[str]:
    return frozenset(expand(text))
