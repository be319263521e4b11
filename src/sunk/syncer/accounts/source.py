"""Who the users of a cluster are, and which groups they are in: read from the ConfigMaps that its Pods mount.

The directory agent writes one with everybody in it; as long as there is none, the users of the values are all there are.
Both are files of lines that somebody else has checked. A line that makes no sense is left out all the same: a name that is
none would end up in SQL.

A directory that has not been read yet looks like one without users and groups. So what is read here says whether it is
complete, and nobody loses anything for not being in a list that is not.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from sunk.kube.resource import Metadata, Record, Resource
from sunk.model.contract import people, posix

_GROUP: Final = re.compile(r"[^\s:,]{1,256}")
_PASSWD_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4


class FieldsManager(Struct, frozen=True, gc=False):
    """Who has written fields of an object, and when last."""

    time: datetime | None = None


class WrittenMetadata(Metadata, frozen=True, gc=False, rename="camel"):
    managed_fields: tuple[FieldsManager, ...] = ()


class UserMap(Record, frozen=True, gc=False, rename="camel", kw_only=True):
    """A ConfigMap with users in it, and when it was last written."""

    metadata: WrittenMetadata
    data: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> datetime | None:
        """When it was last written; None if it has not been since it was made."""
        created = self.metadata.creation_timestamp
        times = [manager.time for manager in self.metadata.managed_fields if manager.time is not None]
        last = max(times, default=created)
        return None if last == created else last


USER_MAPS: Final = Resource(UserMap, version="v1", plural="configmaps")


class User(Struct, frozen=True, gc=False):
    uid: int
    gid: int


class Group(Struct, frozen=True, gc=False):
    gid: int
    members: frozenset[str]
    """Those that the group lists. Whose primary group it is, it need not list."""


class People(Struct, frozen=True):
    """All users and groups, by name."""

    users: Mapping[str, User] = {}
    groups: Mapping[str, Group] = {}
    complete: bool = True
    """Whether somebody who is missing here is really gone."""

    def members(self, group: str) -> frozenset[str] | None:
        """The users in a group, None if there is no such group; without a name, everybody."""
        if not group:
            return frozenset(self.users)
        found = self.groups.get(group)
        if found is None:
            return None
        primary = (name for name, user in self.users.items() if user.gid == found.gid)
        return (found.members & self.users.keys()) | frozenset(primary)


def read(*, directory: UserMap | None, users: UserMap | None, has_directories: bool) -> People:
    """Everybody. `directory` is what the agent has written, in which the users of the values are too."""
    published = directory is not None and people.PASSWD in directory.data
    chosen = directory if published else users
    if chosen is None:
        return People(complete=False)
    return People(
        users=dict(_users(chosen.data.get(people.PASSWD, ""))),
        groups=dict(_groups(chosen.data.get(people.GROUP, ""))),
        complete=published or not has_directories,
    )


def last_change(*, directory: UserMap | None, users: UserMap | None) -> datetime | None:
    """When what `read` reads was last written; None if it is as it was made, before slurmctld's Pod could start."""
    if directory is not None and people.PASSWD in directory.data:
        # It is made empty, and Pods do not wait for it.
        return directory.changed or directory.metadata.creation_timestamp
    return users.changed if users is not None else None


def _users(text: str) -> Iterator[tuple[str, User]]:
    for fields in _lines(text, count=_PASSWD_FIELDS):
        uid, gid = _number(fields[2]), _number(fields[3])
        # libnss-extrausers overlooks smaller numbers, so whoever has one is nobody.
        if posix.NAME.fullmatch(fields[0]) and uid is not None and gid is not None and uid >= posix.LEAST:
            yield fields[0], User(uid=uid, gid=gid)


def _groups(text: str) -> Iterator[tuple[str, Group]]:
    for fields in _lines(text, count=_GROUP_FIELDS):
        gid = _number(fields[2])
        if _GROUP.fullmatch(fields[0]) and gid is not None:
            listed = (name.strip() for name in fields[3].split(","))
            yield fields[0], Group(gid=gid, members=frozenset(filter(posix.NAME.fullmatch, listed)))


def _lines(text: str, *, count: int) -> Iterator[list[str]]:
    """The first line of each name, as the C library reads it."""
    seen: set[str] = set()
    for line in text.split("\n"):
        fields = line.strip().split(":")
        if len(fields) == count and fields[0] not in seen:
            seen.add(fields[0])
            yield fields


def _number(text: str) -> int | None:
    number = posix.number(text)
    return number if number is not None and number < posix.NOBODY else None
