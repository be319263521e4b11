"""Users and groups as the files that Pods mount, and back.

The agent has no memory of its own: whoever is published is what a directory that is down keeps. So all that is needed to take
them up again is in the ConfigMaps: the users of a directory by `names-<n>`, its groups by `origins`.
"""

import base64
import binascii
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import DecodeError, Struct, json

from sunk.directory.users.merge import Merged
from sunk.directory.users.records import Content, Group, User
from sunk.model.contract import people, posix

LIMIT: Final = 900_000
"""Bytes of one ConfigMap. It may have a mebibyte; the rest is for the report and its metadata."""
_EXPIRED: Final = "{}:*:1:::::1:\n"
"""shadow(5): the account has expired on the second day of 1970."""
_PASSWD, _GROUP, _NAMES = 7, 4, 3


class Files(Struct, frozen=True):
    """What the ConfigMaps hold, without the report."""

    people: dict[str, str]
    logins: tuple[dict[str, str], ...]

    def too_large(self) -> int:
        """How many bytes the largest ConfigMap has, if it is too large; else 0."""
        largest = max(_size(data) for data in (self.people, *self.logins))
        return largest if largest > LIMIT else 0


def _size(data: Mapping[str, str]) -> int:
    return sum(len(key) + len(text.encode()) for key, text in data.items())


def part(user: str) -> int:
    """Which of the ConfigMaps for logins has a user: the same one always, so that a change is a change of one."""
    return zlib.crc32(user.encode()) % people.PARTS


def write(merged: Merged) -> Files:
    users = sorted(merged.users, key=lambda each: each[1].uid)
    groups = sorted(merged.groups, key=lambda each: each[1].gid)
    origins = defaultdict[str, list[str]](list)
    for name, group in groups:
        origins[name].append(group.name)
    return Files(
        people={
            people.PASSWD: _text(
                (":".join(line) for line in merged.local.passwd), (_passwd(user) for _, user in users)
            ),
            people.GROUP: _text(
                (":".join(line) for line in merged.local.group), (_group(group) for _, group in groups)
            ),
            people.SHADOW: "".join(_EXPIRED.format(user.name) for _, user in users if user.locked),
            people.ORIGINS: json.encode(origins).decode(),
        },
        logins=tuple(_logins(number, users) for number in range(people.PARTS)),
    )


def _text(*parts: Iterable[str]) -> str:
    # libnss-extrausers waits for ever for the end of a line that has none.
    return "".join(f"{line}\n" for lines in parts for line in lines)


def _passwd(user: User) -> str:
    # Only with an x does PAM look into shadow, and then a user who is not there would not get in.
    return ":".join(
        (user.name, "x" if user.locked else "*", str(user.uid), str(user.gid), user.gecos, user.home, user.shell)
    )


def _group(group: Group) -> str:
    return f"{group.name}:*:{group.gid}:{','.join(group.members)}"


def _logins(number: int, users: Sequence[tuple[str, User]]) -> dict[str, str]:
    own = sorted(
        ((user.name, name, user) for name, user in users if part(user.name) == number), key=lambda each: each[0]
    )
    return {
        f"keys-{number}": "".join(f"{user} {key}\n" for user, _, record in own for key in record.keys),
        f"names-{number}": "".join(
            f"{user}\t{name}\t{base64.b64encode(record.dn).decode()}\n" for user, name, record in own
        ),
    }


def numbers(data: Mapping[str, str]) -> dict[str, int]:
    """The uids of all who are published, by name."""
    lines = (line.split(":") for line in data.get(people.PASSWD, "").splitlines())
    return {line[0]: int(line[2]) for line in lines if len(line) == _PASSWD and posix.number(line[2]) is not None}


def names(logins: Sequence[Mapping[str, str]]) -> dict[str, bytes]:
    """The DNs of all who are published, by name."""
    return {user: dn for user, (_, dn) in _names(logins).items()}


def read(data: Mapping[str, str], logins: Sequence[Mapping[str, str]]) -> dict[str, Content]:
    """Give what each directory has published. Whatever does not look like ours is left out: people may write there too."""
    owners = _names(logins)
    keys = _keys(logins)
    locked = {line.partition(":")[0] for line in data.get(people.SHADOW, "").splitlines()}
    users = defaultdict[str, list[User]](list)
    for line in data.get(people.PASSWD, "").splitlines():
        user = _user(line.split(":"), owners, keys, locked)
        if user is not None:
            users[owners[user.name][0]].append(user)
    groups = _groups(data)
    return {name: Content(tuple(users[name]), tuple(groups[name])) for name in {*users, *groups}}


def _names(logins: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    for number, data in enumerate(logins):
        for line in data.get(f"names-{number}", "").splitlines():
            fields = line.split("\t")
            try:
                if len(fields) == _NAMES:
                    found[fields[0]] = fields[1], base64.b64decode(fields[2], validate=True)
            except binascii.Error:
                continue
    return found


def _keys(logins: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    found = defaultdict[str, list[str]](list)
    for number, data in enumerate(logins):
        for line in data.get(f"keys-{number}", "").splitlines():
            user, _, key = line.partition(" ")
            found[user].append(key)
    return found


def _user(
    fields: list[str], names: Mapping[str, tuple[str, bytes]], keys: Mapping[str, list[str]], locked: set[str]
) -> User | None:
    if len(fields) != _PASSWD or fields[0] not in names or not posix.NAME.fullmatch(fields[0]):
        return None
    uid, gid = posix.number(fields[2]), posix.number(fields[3])
    if uid is None or gid is None or not posix.is_free(uid) or fields[0] in posix.USERS:
        return None
    if not posix.is_free(gid) and gid != posix.USERS_GROUP:
        return None
    name = fields[0]
    gecos, home, shell = fields[4:]
    return User(
        name=name,
        uid=uid,
        gid=gid,
        gecos=gecos,
        home=home,
        shell=shell,
        dn=names[name][1],
        keys=tuple(keys.get(name, ())),
        locked=name in locked,
    )


def _groups(data: Mapping[str, str]) -> dict[str, list[Group]]:
    found = defaultdict[str, list[Group]](list)
    try:
        origins = json.decode(data.get(people.ORIGINS, "") or "{}", type=dict[str, list[str]])
    except DecodeError:
        origins = {}
    by_group = {group: name for name, groups in origins.items() for group in groups}
    for line in data.get(people.GROUP, "").splitlines():
        fields = line.split(":")
        gid = posix.number(fields[2]) if len(fields) == _GROUP else None
        if gid is not None and posix.is_free(gid) and posix.NAME.fullmatch(fields[0]) and fields[0] in by_group:
            members = tuple(name for name in fields[3].split(",") if name)
            found[by_group[fields[0]]].append(Group(fields[0], gid, members))
    return found
