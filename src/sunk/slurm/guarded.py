"""Orders for nodes as they were seen, so that somebody else's drain is neither overwritten nor lifted.

The problem. Slurm has one reason for each node and no «only if». Who drains a node in the moment in which ours is lifted
loses that drain: between our last read and our order there is always some time. Neither Slurm's state nor its answer
tells afterwards: only 24.11 without accounting leaves the text of what was lifted, and an overwritten one is gone on
every release. A `ResumeAfter` is no way around it: a later drain of somebody else does not take it back.

The design. A few nodes are handled one by one in C (`binding/guarded.h`): read, compare, tell, read, with nothing of
ours in between, while two more threads read that node all the time. What somebody else puts on in the millisecond or
two between the read and the order is seen by one of these reads, and can be put on again with its text. Many nodes
would take as many calls; they are compared by one read of the table, told in one call, and read during it and after.
So are nodes whose reason C cannot compare (`is_altered`).

What was refused: to turn DRAIN into FAIL first, which keeps the text, and to look then. The step that brings the node
back into service is the same in the end, and has the same gap before it.
"""

import asyncio
from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.model import drains
from sunk.slurm import bounds
from sunk.slurm.errors import UnknownName
from sunk.slurm.library import Library
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.slurm.wire import Change, Expected

FEW: Final = 4
"""Nodes that are told one by one, at most."""
FLAGS: Final = NodeFlag.DRAIN | NodeFlag.FAIL | NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
_REPLACEMENT: Final = "\ufffd"
_UNSETTLED: Final = frozenset({NodeBase.DOWN, NodeBase.UNKNOWN, NodeBase.FUTURE})


class Covered(Struct, frozen=True):
    """What an order has overwritten or lifted: the node as somebody else had set it, and as it is since."""

    row: Node
    now: Node


class Told(Struct, frozen=True):
    """What became of an order for a few nodes."""

    done: tuple[str, ...]
    changed: tuple[str, ...]
    unknown: tuple[str, ...]
    covered: dict[str, Covered]


def same(seen: Node, now: Node) -> bool:
    """Whether all that an order about drains was decided upon is as it was."""
    settled = (seen.state.base in _UNSETTLED) == (now.state.base in _UNSETTLED)
    flags = seen.state_bits & FLAGS.value == now.state_bits & FLAGS.value
    return settled and flags and (seen.reason, seen.reason_time) == (now.reason, now.reason_time)


def is_altered(reason: str) -> bool:
    """Whether Slurm may hold this reason otherwise than we read it: with bytes that are no UTF-8, or longer.

    C compares bytes and would never find it equal; rows of the table are altered alike, and compare.
    """
    return _REPLACEMENT in reason or bounds.is_long(reason)


def covered(seen: Node, between: Iterable[Node | None], after: Node, *, change: Change) -> Covered | None:
    """What an order has taken from somebody else, by reads that were made during it and after it."""
    if after.state.out_of_service and _is_others(after, seen=seen, change=change):
        return None  # what somebody else said came last, and stands
    lost = [row for row in between if row is not None and _is_others(row, seen=seen, change=change)]
    if lost:
        return Covered(row=lost[-1], now=after)
    in_service = not after.state.out_of_service and after.state.base is not NodeBase.DOWN
    if change.reason is None and in_service and _is_foreign(after, seen=seen):
        # Lifted, and the text is left: this is how 24.11 shows it. Whether it was FAIL is not said any more. At a node
        # that is DOWN the text says why it is.
        return Covered(row=replace(after, state_bits=after.state_bits | NodeFlag.DRAIN.value), now=after)
    return None


def _is_others(row: Node, *, seen: Node, change: Change) -> bool:
    if row.state.failing and not seen.state.failing:
        return True
    new = not seen.state.out_of_service  # maybe with the very text that an earlier drain has left
    return row.state.draining and row.reason != change.reason and _is_foreign(row, seen=seen, new=new)


def _is_foreign(row: Node, *, seen: Node, new: bool = False) -> bool:
    if row.reason in {"", drains.NOT_RESPONDING} or drains.is_ours(row.reason):
        return False  # nobody's, Slurm's own at a node that it lost, or ours
    return new or (row.reason, row.reason_time) != (seen.reason, seen.reason_time)


async def one_by_one(library: Library, rows: Collection[Node], change: Change) -> Told:
    """Change each of these nodes if it is as it was seen."""
    views = await asyncio.gather(*(_change(library, row, change) for row in rows))
    found = [(row, view) for row, view in zip(rows, views, strict=True) if view is not None]
    sent = [(row, view) for row, view in found if len(view) > 1]
    lost = {
        row.name: one for row, view in sent if (one := covered(row, view[1:-1], view[-1], change=change)) is not None
    }
    return Told(
        done=tuple(row.name for row, _ in sent),
        changed=tuple(row.name for row, view in found if len(view) == 1),
        unknown=tuple(row.name for row, view in zip(rows, views, strict=True) if view is None),
        covered=lost,
    )


async def _change(library: Library, row: Node, change: Change) -> tuple[Node, ...] | None:
    """What was seen of a node before, during and after its change; only before, if it was not told; None: unknown."""
    seen = Expected(state=row.state_bits, flags=FLAGS.value, reason=row.reason, reason_time=row.reason_time)
    order = replace(change, names=row.name)
    try:
        return await library.call(partial(library.wire.update_if, order, seen), asked=f"update node {row.name}")
    except UnknownName:
        return None
