"""Users and groups out of entries of a directory, one at a time, so that the answer is never in memory as a whole."""

import re
from datetime import datetime
from typing import Final

from msgspec import Struct

from sunk.directory.domain.settings import Domain
from sunk.directory.ldap.ldif import Entry, decoded
from sunk.directory.ldap.names import first_value, normal
from sunk.directory.users import fields
from sunk.directory.users.locks import is_locked
from sunk.directory.users.records import Skips, User
from sunk.model.contract import posix

DN_LIMIT: Final = 4096
_RANGE: Final = re.compile(r";range=(\d{1,9})-(\d{1,9}|\*)$")


class Unfit(Exception):  # noqa: N818 - what the entry is
    """An entry that becomes no user or group, and why."""


class RawGroup(Struct, frozen=True):
    """A group with its members as the directory names them: by name, or by the normal form of their DN."""

    key: str
    name: str
    gid: int | None
    members: list[str]


class Range(Struct, frozen=True):
    """Members that the server has kept back: ask for those from `start` on. Active Directory sends 1500 at a time."""

    dn: bytes
    key: str
    start: int


class Entries:
    """Takes entries, and keeps what becomes of them."""

    def __init__(self, domain: Domain, *, now: datetime) -> None:
        self._domain = domain
        self._now = now
        self.skips: Final = Skips()
        self.users: Final[list[User]] = []
        self.keys: Final[dict[str, str]] = {}
        """Names of users by the normal form of their DN."""
        self.groups: Final[dict[str, RawGroup]] = {}
        self.ranges: Final[list[Range]] = []

    def take_user(self, entry: Entry) -> None:
        key = normal(entry.dn)
        if key in self.keys:  # search bases may overlap
            return
        name = self._name(entry, self._domain.attributes.user_name)
        try:
            user = self._user(entry, name)
        except Unfit as why:
            self.skips.add("user", name or entry.dn.decode(errors="replace"), str(why))
            return
        if user is not None:
            self.users.append(user)
            self.keys[key] = user.name

    def take_group(self, entry: Entry) -> None:
        names, key = self._domain.attributes, normal(entry.dn)
        if key in self.groups:
            return
        name = self._name(entry, names.group_name)
        gid = None
        # Without a number it is no group of Unix, but its members may be in one that is.
        if entry.values(names.group_gid):
            try:
                gid = self._gid(entry, name)
            except Unfit as why:
                self.skips.add("group", name or entry.dn.decode(errors="replace"), str(why))
        self.groups[key] = RawGroup(key, name, gid, [])
        self.take_members(entry)

    def take_members(self, entry: Entry) -> None:
        """Add the members of a group that is known already, and note where there are more."""
        key, wanted = normal(entry.dn), self._domain.attributes.member.lower()
        group = self.groups.get(key)
        if group is None:
            return
        for attribute, values in entry.attributes.items():
            found = _RANGE.search(attribute)
            if attribute != wanted and not (found and attribute[: found.start()] == wanted):
                continue
            group.members.extend(filter(None, map(self._member, values)))
            if found and found[2] != "*" and b"\0" not in entry.dn:
                self.ranges.append(Range(entry.dn, key, int(found[2]) + 1))

    def deny_all_but(self, allowed: set[str]) -> None:
        """Lock the users whose DN is not among these: the access filter does not let them in."""
        self.users[:] = [user if normal(user.dn) in allowed else _locked(user) for user in self.users]

    def _member(self, value: bytes) -> str:
        if not self._domain.members_are_names:
            return normal(value)
        name = decoded(value)
        return name.lower() if self._domain.lowers_names else name

    def _name(self, entry: Entry, attribute: str) -> str:
        """The name. Of several it is the one that the DN begins with, as in sssd: servers keep no order."""
        names = sorted(filter(None, map(decoded, entry.values(attribute))))
        if len(names) > 1:
            rdn = first_value(entry.dn, attribute)
            names.sort(key=lambda name: name.lower() != rdn)
        name = names[0] if names else ""
        return name.lower() if self._domain.lowers_names else name

    def _user(self, entry: Entry, name: str) -> User | None:
        names, domain = self._domain.attributes, self._domain
        _check_name(name, taken=posix.USERS)
        uid = _number(entry, names.uid, "uid")
        if not domain.has_in_range(uid):
            return None  # as asked for by min_id and max_id, so nothing to tell
        if not posix.is_free(uid):
            raise Unfit(f"uid {uid} is not possible: use {posix.LEAST} or more, and none that the images use")
        gid = _number(entry, names.gid, "gid")
        if not posix.is_free(gid) and gid != posix.USERS_GROUP:
            raise Unfit(f"gid {gid} is not possible: use {posix.LEAST} or more, and none that the images use")
        if not domain.has_in_range(gid):
            raise Unfit(f"gid {gid} is not between min_id and max_id")
        if len(entry.dn) > DN_LIMIT:
            raise Unfit(f"its DN has more than {DN_LIMIT} bytes")
        locked = is_locked(entry, now=self._now)
        return User(
            name=name,
            uid=uid,
            gid=gid,
            gecos=fields.gecos(entry.text(names.gecos) or entry.text(names.full_name)),
            home=fields.home(domain.homes, own=entry.text(names.home), name=name, uid=uid, domain=domain.name),
            shell=fields.shell(domain.homes, own=entry.text(names.shell)),
            dn=entry.dn,
            keys=() if locked else fields.keys(entry.values(names.ssh_key)),
            locked=locked,
        )

    def _gid(self, entry: Entry, name: str) -> int | None:
        _check_name(name, taken=posix.GROUPS)
        gid = _number(entry, self._domain.attributes.group_gid, "gid")
        if not self._domain.has_in_range(gid):
            return None
        if not posix.is_free(gid):
            raise Unfit(f"gid {gid} is not possible: use {posix.LEAST} or more, and none that the images use")
        return gid


def _check_name(name: str, *, taken: frozenset[str]) -> None:
    if not name:
        raise Unfit("it has no name that is text")
    if "@" in name:
        raise Unfit("it is an address and no name: name another attribute in userNameAttr")
    if not posix.NAME.fullmatch(name):
        raise Unfit("use lowercase letters, digits, dashes, dots and underscores, at most 32, for names")
    if name in taken:
        raise Unfit("the images have one of this name")


def _number(entry: Entry, attribute: str, what: str) -> int:
    text = entry.text(attribute)
    found = posix.number(text)
    if found is None:
        raise Unfit(
            f"its {what} ({attribute}) is no number that is possible" if text else f"it has no {what} ({attribute})"
        )
    return found


def _locked(user: User) -> User:
    return User(user.name, user.uid, user.gid, user.gecos, user.home, user.shell, user.dn, locked=True)
