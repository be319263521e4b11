"""Who somebody is: by the files that the Pods of a cluster have, read out of the ConfigMaps that they come from.

What a Pod sees is a projected volume: of two ConfigMaps with the same key the later wins, so the `passwd` of the directory
agent, which has the users of the values in it, takes the place of theirs.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

from msgspec import DecodeError, Struct, json

from sunk.model.contract import people, posix
from sunk.model.contract.people import PeopleReport
from sunk.model.refusal import Refusal

VALUES: Final = "values"
"""Where users come from that no directory has."""
_KEYS: Final = "authorized_keys"
_PASSWD_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4
_SHADOW_EXPIRY: Final = 7
_DAY: Final = 86_400
_PUBLIC_KEY: Final = re.compile(r"(?:^|[\s])((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+)\s+([A-Za-z0-9+/]+={0,2})(?:\s+(.*))?$")
_SUDOER: Final = re.compile(r'^(?:"%([^"]+)"|%"([^"]+)"|%((?:\\.|[^\\\s"])+))\s')


class Group(Struct, frozen=True):
    name: str
    """Empty if no file has a group of that number."""
    gid: int
    primary: bool = False


class SshKey(Struct, frozen=True):
    type: str
    fingerprint: str
    """As ssh-keygen -l shows it."""
    comment: str = ""
    source: str = VALUES


class Person(Struct, frozen=True):
    """A user that the Pods of the cluster know, or will as soon as their kubelets have brought the files."""

    name: str
    uid: int
    gid: int
    gecos: str
    home: str
    shell: str
    source: str
    """`values`, or the name of a directory; empty if it is not known which."""
    dn: str = ""
    groups: tuple[Group, ...] = ()
    keys: tuple[SshKey, ...] = ()
    """Those that administrators see. Keys in the home of the user are not among them."""
    expired: bool = False
    sudo: tuple[str, ...] = ()
    """Groups by which the user may use sudo."""

    @property
    def from_directory(self) -> bool:
        return self.source not in {VALUES, ""}

    def is_in(self, group: str) -> bool:
        return any(one.name == group for one in self.groups)


class Published(Struct, frozen=True):
    """The data of the ConfigMaps. None stands for one that does not exist or could not be read."""

    users: Mapping[str, str] | None = None
    directory: Mapping[str, str] | None = None
    settings: Mapping[str, str] | None = None
    logins: tuple[Mapping[str, str] | None, ...] = ()

    def file(self, name: str) -> str:
        """As a Pod would find it in its folder of users."""
        for source in (self.directory, self.users):
            if source is not None and name in source:
                return source[name]
        return ""

    def login_lines(self, kind: str) -> Iterator[str]:
        for part in self.logins:
            for key, text in (part or {}).items():
                if key.startswith(f"{kind}-"):
                    yield from text.splitlines()


def checked(name: str) -> str:
    """The name, which can now be an argument of any program. Refuses what no user can be called."""
    if posix.NAME.fullmatch(name):
        return name
    if posix.NAME.fullmatch(name.lower()):
        raise Refusal(f"{name!r} is not a valid user name: use lowercase letters, as in {name.lower()}")
    shown = name if len(name) <= 64 else f"{name[:64]}…"  # noqa: PLR2004 - enough to recognize it
    raise Refusal(
        f"{shown!r} is not a valid user name: up to 32 lowercase letters, digits, dashes, dots and underscores, of which "
        "the first is a letter or an underscore"
    )


def find(name: str, published: Published, *, today: int) -> Person | None:
    """The person of this name; None if the files do not have it. `today` is in days since 1970."""
    fields = next(_lines(published.file(people.PASSWD), name, count=_PASSWD_FIELDS), None)
    uid, gid = (None, None) if fields is None else (posix.number(fields[2]), posix.number(fields[3]))
    if fields is None or uid is None or gid is None:
        return None
    source, dn = _origin(name, published)
    groups = tuple(_groups(name, gid, published.file(people.GROUP)))
    return Person(
        name,
        uid=uid,
        gid=gid,
        gecos=fields[4],
        home=fields[5],
        shell=fields[6],
        source=source,
        dn=dn,
        groups=groups,
        keys=tuple(_keys(name, published, directory=source)),
        expired=is_expired(name, published.file(people.SHADOW), today=today),
        sudo=tuple(one for one in sudo_groups(published) if any(_is_called(each, one) for each in groups)),
    )


def report_of(published: Published) -> PeopleReport | None:
    """What the agent last said; None if it has said nothing that can be read."""
    try:
        return json.decode((published.directory or {}).get(people.REPORT, ""), type=PeopleReport)
    except DecodeError:
        return None


def _lines(text: str, name: str, *, count: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            fields = line.split(":")
            if len(fields) >= count:
                yield fields


def _origin(name: str, published: Published) -> tuple[str, str]:
    """Where a user comes from, and the DN there. The users of the values win over all."""
    if any(_lines((published.users or {}).get(people.PASSWD, ""), name, count=_PASSWD_FIELDS)):
        return VALUES, ""
    for line in published.login_lines("names"):
        fields = line.split("\t")
        if len(fields) == 3 and fields[0] == name:  # noqa: PLR2004 - user, directory, DN
            return fields[1], _decoded(fields[2])
    return "", ""


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""


def _groups(name: str, gid: int, text: str) -> Iterator[Group]:
    """The primary group first, then those that name the user as a member."""
    known = [fields for line in text.splitlines() if len(fields := line.split(":")) >= _GROUP_FIELDS]
    primary = next((fields[0] for fields in known if fields[2] == str(gid)), "")
    yield Group(primary, gid, primary=True)
    for fields in known:
        number = posix.number(fields[2])
        if fields[0] != primary and number is not None and name in fields[3].split(","):
            yield Group(fields[0], number)


def _is_called(group: Group, name: str) -> bool:
    """As sudo compares groups: without regard to case, or by number."""
    return name.lower() in {group.name.lower(), f"#{group.gid}"}


def is_expired(name: str, shadow: str, *, today: int) -> bool:
    """By the eighth field of a line of shadow, as PAM reads it: from that day on nobody gets in."""
    for fields in _lines(shadow, name, count=_SHADOW_EXPIRY + 1):
        day = posix.number(fields[_SHADOW_EXPIRY])
        return day is not None and day <= today
    return False


def day_of(seconds: float) -> int:
    return int(seconds // _DAY)


def _keys(name: str, published: Published, *, directory: str) -> Iterator[SshKey]:
    for line in (published.users or {}).get(f"{_KEYS}.{name}", "").splitlines():
        if key := public_key(line, source=VALUES):
            yield key
    for line in published.login_lines("keys"):
        user, _, rest = line.partition(" ")
        if user == name and (key := public_key(rest, source=directory)):
            yield key


def public_key(line: str, *, source: str) -> SshKey | None:
    """Read a line of authorized_keys, which may begin with options. None if sshd would not take it for a key either."""
    found = None if line.lstrip().startswith("#") else _PUBLIC_KEY.search(line.strip())
    if found is None:
        return None
    try:
        blob = base64.b64decode(found[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    digest = base64.b64encode(sha256(blob).digest()).decode().rstrip("=")
    return SshKey(found[1], f"SHA256:{digest}", comment=found[3] or "", source=source)


def password_ways(published: Published) -> dict[str, str] | None:
    """By directory: how logins reach it for a password. None if that could not be read."""
    if published.settings is None:
        return None
    lines = (line.split("\t") for line in published.settings.get(people.PASSWORDS, "").splitlines())
    return {fields[0]: fields[1] for fields in lines if len(fields) >= 3}  # noqa: PLR2004 - directory, way, address


def sudo_groups(published: Published) -> Iterator[str]:
    """Groups that sudoers names, without the backslashes that it needs."""
    for line in ((published.settings or {}).get(people.SUDOERS, "")).splitlines():
        if found := _SUDOER.match(line):
            yield found[1] or found[2] or re.sub(r"\\(.)", r"\1", found[3])
