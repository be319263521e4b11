"""What is known about people: the records that all else here is about."""

from bisect import insort
from typing import Final

from msgspec import Struct

EXAMPLES: Final = 10


class User(Struct, frozen=True, gc=False):
    name: str
    uid: int
    gid: int
    gecos: str = ""
    home: str = ""
    shell: str = ""
    dn: bytes = b""
    keys: tuple[str, ...] = ()
    locked: bool = False
    """Known, but not let in."""


class Group(Struct, frozen=True, gc=False):
    name: str
    gid: int
    members: tuple[str, ...] = ()


class Content(Struct, frozen=True, gc=False):
    """What a directory has."""

    users: tuple[User, ...] = ()
    groups: tuple[Group, ...] = ()
    skipped: int = 0
    examples: tuple[str, ...] = ()


class Consent(Struct, frozen=True):
    """What a person has said about a loss of memberships, by an annotation."""

    place: str = ""
    """Of which object, as kubectl takes it."""
    accepted: int = 0
    """How many may be gone."""


NO_CONSENT: Final = Consent()


class Skips:
    """What was left out: how much of it, and some of it with the reason."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[str] = []

    def add(self, kind: str, name: str, why: str) -> None:
        self.count += 1
        # The first by name and not those that came first: servers keep no order, and what is published must not change with it.
        insort(self.examples, f"{kind} {shown(name)}: {why}")
        del self.examples[EXAMPLES:]


def shown(text: str, *, most: int = 60) -> str:
    """What somebody else wrote, so that it can stand in a message."""
    plain = "".join(each if each.isprintable() else "?" for each in text[: most + 1])
    return (plain if len(plain) <= most else f"{plain[:most]}...") or "without a name"
