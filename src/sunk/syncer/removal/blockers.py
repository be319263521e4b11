"""What speaks against deleting a Slurm node's record: a job on it, a reservation of it, or somebody's drain.

Slurm itself refuses to delete a node with a job, and does delete one out of a reservation (24.11.5, tried): whoever has
reserved it would be left with less, without a word. So we refuse in Slurm's place, unless the reservation takes whichever
nodes there are.

A drain that is not ours goes with the record, and why somebody wanted it. The caller says which drains count.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sunk.model.contract import drains
from sunk.model.hostlist import expand
from sunk.slurm.records import Node, Reservation
from sunk.slurm.states import NodeFlag
from sunk.syncer.drains.snapshot import standing

DRAINED: Final = "drained by a user or by Slurm: "
FORMER_DRAINED: Final = "somebody has drained it: "
"""What an earlier version said instead. The status of a slice may still have it."""
_SHOWN: Final = 3
_PART_NODES: Final = 1 << 12
_REPLACE: Final = 1 << 18
_ALL_NODES: Final = 1 << 19
_REPLACE_DOWN: Final = 1 << 30
_INDIFFERENT: Final = _PART_NODES | _REPLACE | _ALL_NODES | _REPLACE_DOWN
"""Flags of slurm.h: its nodes are all there are, or are replaced by others."""
_INVALID: Final = ("Low ", "gres/")
"""How the reason begins that Slurm itself gives to a registration that promises less than the record has."""


def blocker(node: Node, *, jobs: Iterable[int], reservations: Iterable[Reservation]) -> str:
    """Why its record has to stay; empty if it may go."""
    ids = sorted(jobs)
    if ids:
        shown = ", ".join(map(str, ids[:_SHOWN])) + (" and more" if len(ids) > _SHOWN else "")
        return f"job {shown} is on it" if len(ids) == 1 else f"jobs {shown} are on it"
    if node.state.busy:
        return f"something runs on it: {node.state}"
    reserved, odd = [], []
    for reservation in reservations:
        if not reservation.flags & _INDIFFERENT:
            nodes = _nodes(reservation.nodes)
            if nodes is None:
                odd.append(reservation.name)
            elif node.name in nodes:
                reserved.append(reservation.name)
    if reserved:
        return f"it is in the reservation {', '.join(sorted(reserved)[:_SHOWN])}"
    return f"it may be in the reservation {', '.join(sorted(odd)[:_SHOWN])}, whose nodes cannot be read" if odd else ""


def has_personal_drain(node: Node) -> bool:
    """Whether somebody's drain would be lost with the record. Slurm's own, for the very difference, is nobody's."""
    own = NodeFlag.INVALID_REG in node.state and node.reason.startswith(_INVALID)
    return not own and drains.is_personal(standing(node))


def drain_blocker(node: Node) -> str:
    """Why a record would have to stay because somebody has drained it; empty if nobody has, or if it is only down."""
    return down_blocker(node) if node.state.out_of_service else ""


def down_blocker(node: Node) -> str:
    """The same, also if somebody has only set it down."""
    return f"{DRAINED}{node.reason}" if has_personal_drain(node) else ""


@lru_cache(maxsize=64)
def _nodes(text: str) -> frozenset[str] | None:
    """None if they cannot be read."""
    try:
        return frozenset(expand(text))
    except ValueError:
        return None
