"""Members of groups, also those that are in by way of another group.

Groups may contain each other in circles, and a thousand groups may contain the same large one: the sum of all members is bounded
by what fits into a ConfigMap, long before it is a matter of memory.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sunk.directory.users.entries import Entries, RawGroup
from sunk.directory.users.records import Group, Skips

DEPTH: Final = 32
"""Groups within groups. Deeper ones are nobody's intention."""
LIMIT: Final = 4 << 20
"""Bytes of all members together. No ConfigMap has room for a quarter of it."""


class TooManyMembers(Exception):  # noqa: N818 - what was found
    """The groups have more members, all together, than anybody could publish."""


def resolve(found: Entries, *, members_are_names: bool) -> tuple[Group, ...]:
    """Give all groups that have a number, with the names of their members in order."""
    groups, left = list[Group](), LIMIT
    for raw in found.groups.values():
        if raw.gid is None:
            continue
        names = set(raw.members) if members_are_names else _names(raw, found.groups, found.keys, found.skips)
        left -= sum(map(len, names)) + len(names)
        if left < 0:
            raise TooManyMembers
        groups.append(Group(raw.name, raw.gid, tuple(sorted(names))))
    return tuple(groups)


def _names(raw: RawGroup, groups: Mapping[str, RawGroup], users: Mapping[str, str], skips: Skips) -> set[str]:
    """Walk through groups within groups, level by level, each once."""
    names, seen, level = set[str](), {raw.key}, [raw]
    for _ in range(DEPTH):
        members = [member for group in level for member in group.members]
        names.update(users[member] for member in members if member in users)
        level = [groups[key] for key in _new(members, groups, seen)]
        if not level:
            return names
    skips.add("group", raw.name, f"it contains groups more than {DEPTH} levels deep; those are left out")
    return names


def _new(members: Iterable[str], groups: Mapping[str, RawGroup], seen: set[str]) -> list[str]:
    found = [key for key in dict.fromkeys(members) if key in groups and key not in seen]
    seen.update(found)
    return found
