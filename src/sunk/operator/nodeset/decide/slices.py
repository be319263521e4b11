"""The entries of a NodeSet, spread over slices of a bounded size.

Whoever reads slices while they are written must never see a member missing: that would look like one that has left.
So an entry that moves is added to its new slice before it is taken from the old one; a reader may see it twice. Moves
go to earlier slices only, and writes are made in the order of slices, which is all that takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from math import ceil
from typing import Final

from msgspec import Struct

from sunk.model.nodeslice import MOST_ENTRIES, Entry
from sunk.objects.nodesets import NodeSlice, number_of

SLACK: Final = 0.75
"""The last slice is given up when the others would be no fuller than this: less, and it would come and go."""


class Shard(Struct, frozen=True):
    """One slice: its place in the order, and what it holds."""

    number: int
    entries: tuple[Entry, ...] = ()


class SliceWrites(Struct, frozen=True):
    """What to write, in this order, and which slices to delete afterwards."""

    shards: tuple[Shard, ...] = ()
    empty: tuple[int, ...] = ()


def shards(slices: Iterable[NodeSlice]) -> list[Shard]:
    """The slices in their order."""
    found = (Shard(number, one.spec.entries) for one in slices if (number := number_of(one)) is not None)
    return sorted(found, key=lambda shard: shard.number)


def spread(shards: Sequence[Shard], entries: Iterable[Entry], *, size: int = MOST_ENTRIES) -> SliceWrites:
    """Say how to get from these slices to these entries."""
    wanted = {entry.name: entry for entry in entries}
    present = sorted(shards, key=lambda shard: shard.number)
    placed = _kept(present, wanted)
    settled = {entry.name for kept in placed.values() for entry in kept}
    return _written(present, placed, [entry for name, entry in wanted.items() if name not in settled], size=size)


def added(shards: Sequence[Shard], entries: Iterable[Entry], *, size: int = MOST_ENTRIES) -> SliceWrites:
    """The same where all stay and these come in addition, without a look at those that stay."""
    placed: dict[int, list[Entry]] = {0: []} | {shard.number: list(shard.entries) for shard in shards}
    return _written(shards, placed, entries, size=size)


def _written(
    shards: Sequence[Shard], placed: dict[int, list[Entry]], homeless: Iterable[Entry], *, size: int
) -> SliceWrites:
    _place(homeless, placed, size=size)
    _give_up_last(placed, size=size)
    before = {shard.number: shard.entries for shard in shards}
    changed = (Shard(number, tuple(new)) for number, new in sorted(placed.items()) if before.get(number) != tuple(new))
    empty = tuple(number for number, new in sorted(placed.items()) if not new and number)
    return SliceWrites(tuple(one for one in changed if one.number not in empty), empty)


def _kept(shards: Iterable[Shard], wanted: Mapping[str, Entry]) -> dict[int, list[Entry]]:
    """What stays where it is: an entry found twice stays in the earlier slice. The first slice is always there."""
    placed: dict[int, list[Entry]] = {0: []}
    seen: set[str] = set()
    for shard in shards:
        names = [entry.name for entry in shard.entries if entry.name in wanted and entry.name not in seen]
        seen.update(names)
        placed[shard.number] = [wanted[name] for name in names]
    return placed


def _place(homeless: Iterable[Entry], placed: dict[int, list[Entry]], *, size: int) -> None:
    numbers = chain(sorted(placed), count(max(placed) + 1))
    room: list[Entry] | None = None
    for entry in homeless:
        while room is None or len(room) >= size:
            room = placed.setdefault(next(numbers), [])
        room.append(entry)


def _give_up_last(placed: dict[int, list[Entry]], *, size: int) -> None:
    last = max(placed)
    total = sum(map(len, placed.values()))
    if last and placed[last] and ceil(total / (size * SLACK)) < len(placed):
        moving = placed.pop(last)
        _place(moving, placed, size=size)
        placed[last] = []
