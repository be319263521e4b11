"""All directories and the users of the values together: who wins where two have the same name or number.

The values come first, then the directories in their order. Within a directory, those who are published already stay: a new entry
with the uid of somebody else must not take it away. What loses is left out and counted.

Directories do not trust each other. A group's members are users of its own directory, or of the values. A group that one directory
alone may use for sudo comes from that directory only, and no other directory can give a user its number as the primary group.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from sunk.directory.users.records import EXAMPLES, Content, Group, Skips, User
from sunk.model.contract import posix

VALUES: Final = ""
"""Where the users of the values come from."""
_PASSWD, _GROUP = 7, 4


class Local(Struct, frozen=True):
    """Users and groups of the values: lines of files, checked."""

    passwd: tuple[tuple[str, ...], ...] = ()
    group: tuple[tuple[str, ...], ...] = ()
    wrong: int = 0
    """Lines that cannot be used. The operator refuses them, but users.configMap is written by anybody."""


class Source(Struct, frozen=True):
    """A directory, and which groups it alone may make sudoers of."""

    name: str
    content: Content
    sudo_groups: tuple[str, ...] = ()


class Tally(Struct, frozen=True):
    """What became of a directory."""

    users: int = 0
    groups: int = 0
    skipped: int = 0
    examples: tuple[str, ...] = ()


class Merged(Struct, frozen=True):
    """Everybody, with where they come from."""

    local: Local
    users: tuple[tuple[str, User], ...] = ()
    groups: tuple[tuple[str, Group], ...] = ()
    tallies: Mapping[str, Tally] = field(default_factory=dict)


def local(passwd: str, group: str) -> Local:
    """Read the users of the values."""
    users, bad_users = _lines(passwd, fields=_PASSWD, numbers=2, taken=posix.USERS)
    groups, bad_groups = _lines(group, fields=_GROUP, numbers=1, taken=posix.GROUPS)
    return Local(users, groups, wrong=bad_users + bad_groups)


def _lines(text: str, *, fields: int, numbers: int, taken: frozenset[str]) -> tuple[tuple[tuple[str, ...], ...], int]:
    found, wrong = dict[str, tuple[str, ...]](), 0
    for line in filter(None, map(str.strip, text.split("\n"))):
        parts = line.split(":")
        is_new = parts[0] not in found and parts[0] not in taken
        if len(parts) == fields and line.isprintable() and is_new and _is_possible(parts, numbers):
            # With an x, PAM would look for a line in shadow.
            found[parts[0]] = (parts[0], "*", *parts[2:])
        else:
            wrong += 1
    return tuple(found.values()), wrong


def _is_possible(parts: list[str], numbers: int) -> bool:
    read = [posix.number(each) for each in parts[2 : 2 + numbers]]
    return bool(posix.NAME.fullmatch(parts[0])) and all(each is not None and posix.is_free(each) for each in read)


def merge(
    values: Local,
    sources: Sequence[Source],
    *,
    sudo_groups: Iterable[str] = (),
    published: Mapping[str, int] | None = None,
    names: Mapping[str, bytes] | None = None,
) -> Merged:
    """Decide who is published. `published` has the numbers of those who are now, by name, and `names` their DNs."""
    skips = {source.name: Skips() for source in sources}
    owners = _sudo_owners(sources, everywhere=frozenset(map(str.lower, sudo_groups)))
    groups = _groups(values, sources, owners=owners, skips=skips)
    numbers = {line[0]: int(line[2]) for line in values.group} | {group.name: group.gid for _, group in groups}
    guarded = {gid: owners[name] for name, gid in numbers.items() if name in owners}
    rank = _Rank(published or {}, names or {})
    users = _users(values, sources, guarded=guarded, rank=rank, skips=skips)
    by_owner = {user.name: name for name, user in users} | {line[0]: VALUES for line in values.passwd}
    groups = [(name, _own_members(group, name, by_owner)) for name, group in groups]
    return Merged(
        local=values,
        users=tuple(users),
        groups=tuple(groups),
        tallies=_tallies(sources, users, groups, skips),
    )


def _sudo_owners(sources: Iterable[Source], *, everywhere: frozenset[str]) -> dict[str, frozenset[str]]:
    """Groups of which only some directories may say who is in them. Sudo takes `Admins` for `admins`, and so must we."""
    found: dict[str, frozenset[str]] = {}
    for source in sources:
        for group in map(str.lower, source.sudo_groups):
            if group not in everywhere:
                found[group] = found.get(group, frozenset()) | {source.name}
    return found


def _groups(
    values: Local, sources: Iterable[Source], *, owners: Mapping[str, frozenset[str]], skips: Mapping[str, Skips]
) -> list[tuple[str, Group]]:
    names = {line[0]: VALUES for line in values.group}
    numbers = {int(line[2]): line[0] for line in values.group}
    found = list[tuple[str, Group]]()
    for source in sources:
        for group in sorted(source.content.groups, key=lambda group: (group.name, group.gid)):
            if source.name not in owners.get(group.name, {source.name}):
                why = f"only {' and '.join(sorted(owners[group.name]))} may have this group, which can use sudo"
            elif group.name in names:
                why = f"{_owner(names[group.name])} has a group of this name"
            elif group.gid in numbers:
                why = f"gid {group.gid} is that of group {numbers[group.gid]}"
            else:
                names[group.name], numbers[group.gid] = source.name, group.name
                found.append((source.name, group))
                continue
            skips[source.name].add("group", group.name, why)
    return found


class _Rank(Struct, frozen=True):
    """Who comes first in a directory: first of all, the entries that are published now."""

    numbers: Mapping[str, int]
    names: Mapping[str, bytes]

    def of(self, user: User) -> tuple[bool, bool, str, int, bytes]:
        # Also of two entries with the same name and number one has to win, whatever the order in which a server sends them:
        # the password is that of its DN.
        is_other = self.names.get(user.name) != user.dn
        return self.numbers.get(user.name) != user.uid, is_other, user.name, user.uid, user.dn


def _users(
    values: Local,
    sources: Iterable[Source],
    *,
    guarded: Mapping[int, frozenset[str]],
    rank: _Rank,
    skips: Mapping[str, Skips],
) -> list[tuple[str, User]]:
    names = {line[0]: VALUES for line in values.passwd}
    numbers = {int(line[2]): line[0] for line in values.passwd}
    found = list[tuple[str, User]]()
    for source in sources:
        for user in sorted(source.content.users, key=rank.of):
            if user.name in names:
                why = f"{_owner(names[user.name])} has a user of this name"
            elif user.uid in numbers:
                why = f"uid {user.uid} is that of {numbers[user.uid]}"
            elif source.name not in guarded.get(user.gid, {source.name}):
                why = f"gid {user.gid} is that of a group of another directory, which can use sudo"
            else:
                names[user.name], numbers[user.uid] = source.name, user.name
                found.append((source.name, user))
                continue
            skips[source.name].add("user", user.name, why)
    return found


def _own_members(group: Group, owner: str, by_owner: Mapping[str, str]) -> Group:
    members = tuple(name for name in group.members if by_owner.get(name, None) in {owner, VALUES})
    return group if len(members) == len(group.members) else Group(group.name, group.gid, members)


def _owner(name: str) -> str:
    return f"directory {name}" if name else "users in the values"


def _tallies(
    sources: Iterable[Source],
    users: Iterable[tuple[str, User]],
    groups: Iterable[tuple[str, Group]],
    skips: Mapping[str, Skips],
) -> dict[str, Tally]:
    of_users, of_groups = Counter(name for name, _ in users), Counter(name for name, _ in groups)
    return {
        source.name: Tally(
            users=of_users[source.name],
            groups=of_groups[source.name],
            skipped=source.content.skipped + skips[source.name].count,
            examples=(*source.content.examples, *skips[source.name].examples)[:EXAMPLES],
        )
        for source in sources
    }
