"""Orders for nodes as they were seen, so that somebody else's drain is neither overwritten nor lifted.

The problem. Slurm has one reason for each node and no "only if". Who drains a node in the moment in which ours is lifted
loses that drain: between our last read and our order there is always some time. Neither Slurm's state nor its answer
tells afterwards: only 24.11 without accounting leaves the text of what was lifted, and an overwritten one is gone on
every release. A `ResumeAfter` is no way around it: a later drain of somebody else does not take it back.

The design. A few nodes are handled one by one in C (`binding/guarded.h`): read, compare, tell, read, with nothing of
ours in between, while two more threads read that node all the time. What somebody else puts on in the millisecond or
two between the read and the order is seen by one of these reads, and can be put on again with its text. Many nodes
would take as many calls; they are compared by one read of the table, told in one call, and read during it and after.
So are nodes whose reason C cannot compare (`is_altered`).

If Slurm falls silent after the order was sent, what was seen until then is kept (`Attempt`), and judged by a read that
is made when Slurm answers again. So it is if Slurm refuses one in whose moment somebody else was seen: it writes the
reason before it looks whether there is a way to the state.

What was refused: to turn DRAIN into FAIL first, which keeps the text, and to look then. The step that brings the node
back into service is the same in the end, and has the same gap before it.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk.model.contract import drains
from sunk.slurm.errors import Denied, SlurmError, UnknownName, Unreachable
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import Expected, NodeChange, Watched
from sunk.slurm.orders import bounds
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag

FEW: Final = 4
"""Nodes that are told one by one, at most."""
FLAGS: Final = NodeFlag.DRAIN | NodeFlag.FAIL | NodeFlag.REBOOT_REQUESTED | NodeFlag.REBOOT_ISSUED
_REPLACEMENT: Final = "\ufffd"
_UNSETTLED: Final = frozenset({NodeBase.DOWN, NodeBase.UNKNOWN, NodeBase.FUTURE})


class Covered(Struct, frozen=True):
    """What an order has overwritten or lifted: the node as somebody else had set it, and as it is since."""

    row: Node
    now: Node


class Attempt(Struct):
    """An order for one node of which Slurm did not say what became: somebody's drain may be lost to it.

    The call cannot be recalled, and its thread may come back with what it saw after we have stopped waiting for it.
    """

    row: Node
    change: NodeChange
    seen: Watched | None = None
    """None if nothing was sent, or while its thread has not come back."""
    began: bool = False
    ended: bool = False
    """By its thread."""


class GuardedOutcome(Struct, frozen=True):
    """What became of an order for a few nodes."""

    done: tuple[str, ...]
    changed: tuple[str, ...]
    unknown: tuple[str, ...]
    covered: dict[str, Covered]
    unfinished: tuple[Attempt, ...] = ()
    troubles: Mapping[str, Exception] = {}
    """What kept some of them from it, by name; the others are done."""


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


def covered(seen: Node, between: Iterable[Node | None], after: Node, *, change: NodeChange) -> Covered | None:
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


def _is_others(row: Node, *, seen: Node, change: NodeChange) -> bool:
    if row.state.failing and not seen.state.failing:
        return True
    new = not seen.state.out_of_service  # maybe with the very text that an earlier drain has left
    return row.state.draining and row.reason != change.reason and _is_foreign(row, seen=seen, new=new)


def _is_foreign(row: Node, *, seen: Node, new: bool = False) -> bool:
    if row.reason in {"", drains.NOT_RESPONDING} or drains.is_ours(row.reason):
        return False  # nobody's, Slurm's own at a node that it lost, or ours
    return new or (row.reason, row.reason_time) != (seen.reason, seen.reason_time)


def judged(attempt: Attempt, now: Node) -> Covered | None:
    """What an order has taken from somebody else of which there was no answer, by a read that was made since."""
    if attempt.seen is None or not attempt.seen.sent:
        return None
    return covered(attempt.row, attempt.seen.between, now, change=attempt.change)


@contextmanager
def noted(attempts: Collection[Attempt]) -> Iterator[None]:
    """On a thread: note that the call for these nodes has begun, and that it has ended."""
    for attempt in attempts:
        attempt.began, attempt.ended = True, False
    try:
        yield
    finally:
        for attempt in attempts:
            attempt.ended = True


async def one_by_one(library: Library, rows: Collection[Node], change: NodeChange) -> GuardedOutcome:
    """Change each of these nodes if it is as it was seen. A trouble with one keeps nothing of the others back."""
    attempts = [Attempt(row=row, change=replace(change, names=row.name)) for row in rows]
    troubles = await asyncio.gather(*(_change(library, attempt) for attempt in attempts), return_exceptions=True)
    well = [attempt for attempt, trouble in zip(attempts, troubles, strict=True) if trouble is None]
    sent = [
        (attempt.row.name, attempt, attempt.seen.rows[-1])
        for attempt in well
        if attempt.seen is not None and attempt.seen.sent
    ]
    lost = {name: judged(attempt, after) for name, attempt, after in sent}
    wrong = [(attempt, trouble) for attempt, trouble in zip(attempts, troubles, strict=True) if trouble is not None]
    others = {attempt.row.name: trouble for attempt, trouble in wrong if not isinstance(trouble, UnknownName)}
    if fatal := next((trouble for trouble in others.values() if not isinstance(trouble, Exception)), None):
        raise fatal
    return GuardedOutcome(
        done=tuple(name for name, _, _ in sent),
        changed=tuple(attempt.row.name for attempt in well if attempt.seen is not None and not attempt.seen.sent),
        unknown=tuple(attempt.row.name for attempt, trouble in wrong if isinstance(trouble, UnknownName)),
        covered={name: drain for name, drain in lost.items() if drain is not None},
        unfinished=tuple(attempt for attempt, trouble in wrong if _may_have_taken(attempt, trouble)),
        troubles={name: trouble for name, trouble in others.items() if isinstance(trouble, Exception)},
    )


def _may_have_taken(attempt: Attempt, trouble: BaseException) -> bool:
    """Whether an order that went wrong may have overwritten or lifted something nonetheless."""
    if isinstance(trouble, UnknownName | Denied):
        return False  # Slurm says these before it changes anything
    if isinstance(trouble, Unreachable):
        return attempt.began  # its thread may not have come back
    seen = attempt.seen
    if seen is not None and isinstance(trouble, SlurmError) and trouble.final:
        return bool(seen.between)  # nothing was lifted, but a text may be overwritten
    return seen is not None and seen.sent


async def _change(library: Library, attempt: Attempt) -> None:
    row = attempt.row
    expected = Expected(state=row.state_bits, flags=FLAGS.value, reason=row.reason, reason_time=row.reason_time)

    def send() -> None:
        with noted([attempt]):
            attempt.seen = library.wire.update_if(attempt.change, expected)
        if attempt.seen.trouble is not None:
            raise attempt.seen.trouble

    await library.call(send, asked=f"update node {row.name}")
