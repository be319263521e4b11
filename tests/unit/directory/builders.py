"""Entries and domains for tests."""

from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from sunk.directory.domain.schema import SCHEMAS
from sunk.directory.domain.settings import Domain, Homes
from sunk.directory.ldap.ldif import Entry
from sunk.directory.ldap.search import Connection

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
HOMES = Homes(fallback_home="/home/%u", default_shell="/bin/bash")


def domain(schema: str = "rfc2307", **changes: Any) -> Domain:
    made = Domain(
        name="corp",
        connections=(Connection("ldaps://x", start_tls=False),),
        attributes=SCHEMAS[schema],
        members_are_names=schema == "rfc2307",
        lowers_names=schema == "AD",
        homes=HOMES,
    )
    return structs.replace(made, **changes)


def entry(dn: str | bytes, **attributes: Any) -> Entry:
    """Write `member_range_0_1` for an attribute with an option."""
    found: dict[str, list[bytes]] = {}
    for name, given in attributes.items():
        values = given if isinstance(given, list) else [given]
        found[name.lower()] = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return Entry(dn if isinstance(dn, bytes) else dn.encode(), found)


def user(name: str, number: int, /, **attributes: Any) -> Entry:
    defaults = {"uid": name, "uidNumber": number, "gidNumber": 1000}
    return entry(f"uid={name},ou=people,dc=x", **{**defaults, **attributes})
