"""What may stand in a field of passwd or in a line of keys, out of what a directory says.

One line with a colon too few or too many makes libnss-extrausers blind to all that follow, and one line break in a key would be
a key of somebody else. So nothing that comes from a directory reaches a file but through here.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final

from sunk.directory.domain.settings import Homes
from sunk.directory.ldap.ldif import decoded

GECOS_LIMIT: Final = 256
PATH_LIMIT: Final = 1024
KEY_LIMIT: Final = 16_384
KEYS_LIMIT: Final = 64
KEYS_ROOM: Final = 16_384
"""Characters of all keys of a user. Many directories let people write their own, and all have to fit into ConfigMaps."""
_KIND: Final = re.compile(r"(?:ssh|ecdsa-sha2|sk-ssh|sk-ecdsa-sha2)-[A-Za-z0-9@.-]{1,60}")
_SYSTEM: Final = frozenset(
    {*("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "usr", "var")}
)
_TEMPLATE: Final = re.compile(r"%(.)")


def gecos(text: str) -> str:
    plain = "".join(" " if each == ":" or not each.isprintable() else each for each in text)
    return " ".join(plain.split())[:GECOS_LIMIT].rstrip()


def path(text: str) -> str:
    """An absolute path that fits into a field; empty if it is none."""
    good = text.startswith("/") and ":" not in text and text.isprintable() and len(text.encode()) <= PATH_LIMIT
    return text if good else ""


def _allowed(home: str) -> str:
    """A home that may be made; empty for one among the files of the image.

    Root makes homes at the first login and gives them to their users, so whoever writes a homeDirectory in LDAP could become
    the owner of a folder from which everybody runs programs.
    """
    parts = [part for part in home.split("/") if part not in {"", "."}]
    is_system = bool(parts) and parts[0] in _SYSTEM and parts[:2] != ["var", "home"]
    return "" if is_system or ".." in parts else home


def home(homes: Homes, *, own: str, name: str, uid: int, domain: str) -> str:
    own = _allowed(path(own))
    template = homes.override_home or ("%o" if own else homes.fallback_home)
    known = {"u": name, "U": str(uid), "d": domain, "f": f"{name}@{domain}", "l": name[0], "o": own, "%": "%"}
    return path(_TEMPLATE.sub(lambda found: known.get(found[1], ""), template)) or "/"


def shell(homes: Homes, *, own: str) -> str:
    return homes.override_shell or path(own) or homes.default_shell


def keys(values: Iterable[bytes]) -> tuple[str, ...]:
    """Public keys, one a line. A value may hold several; options before the key are not taken over.

    Which ones are left out where there are too many does not depend on the order in which they come.
    """
    found, room = set[str](), KEYS_ROOM
    for value in sorted(values):
        if len(value) > KEY_LIMIT * 4:
            continue
        for key in filter(None, map(_key, decoded(value).splitlines())):
            if key not in found and len(key) <= room and len(found) < KEYS_LIMIT:
                found.add(key)
                room -= len(key)
    return tuple(sorted(found))


def _key(line: str) -> str:
    words = line.split(maxsplit=2)
    if len(words) < 2 or len(line) > KEY_LIMIT or not _KIND.fullmatch(words[0]):  # noqa: PLR2004 - kind and key
        return ""
    try:
        content = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        return ""
    kind = words[0].encode()
    # A key begins with its own kind. What does not is no key, and sshd would complain at every login.
    if content[:4] != len(kind).to_bytes(4) or content[4 : 4 + len(kind)] != kind:
        return ""
    comment = gecos(words[2]) if len(words) > 2 else ""  # noqa: PLR2004
    return f"{words[0]} {words[1]} {comment}".rstrip()
