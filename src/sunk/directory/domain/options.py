"""The options of sssd that mean something here, and how their values are read.

Whatever is not in the table is refused, because an option that is silently without effect is worse than none: a filter that
does not filter lets people in.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from sunk.directory.failure import Failure
from sunk.model.contract.people import INVALID

T = TypeVar("T")

ADDITIONAL: Final = "additionalConfig"
SECRET: Final = "user.existingSecret"  # noqa: S105 - the name of a value
_ATTRIBUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9.;-]{0,127}")
_SECRETS: Final = frozenset({"ldap_default_authtok"})
_MOST_ID: Final = (1 << 32) - 1
_DIGITS: Final = 10
_SCOPES: Final = {"": "sub", "subtree": "sub", "sub": "sub", "onelevel": "one", "one": "one", "base": "base"}
_TEMPLATE: Final = re.compile(r"%(.?)")
_PARTS: Final = 3


class SearchBase(Struct, frozen=True):
    """Where to search, how deep, and with which additional filter."""

    base: str
    scope: str = "sub"
    filter: str = ""


def _text(value: str) -> str:
    return value


def _attribute(value: str) -> str:
    if not _ATTRIBUTE.fullmatch(value):
        raise ValueError("is not the name of an attribute or an object class")
    return value


def _bool(value: str) -> bool:
    found = {"true": True, "yes": True, "false": False, "no": False}.get(value.lower())
    if found is None:
        raise ValueError("must be true or false")
    return found


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS and least <= int(value) <= most):
            raise ValueError(f"must be a number from {least} to {most}")
        return int(value)

    return parse


def _only(*allowed: str, why: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(why)
        return value.lower()

    return parse


def _schema(value: str) -> str:
    known = {"rfc2307": "rfc2307", "posix": "rfc2307", "rfc2307bis": "rfc2307bis", "ipa": "IPA", "ad": "AD"}
    if value.lower() not in known:
        raise ValueError("must be rfc2307, rfc2307bis, IPA or AD")
    return known[value.lower()]


def _uris(value: str) -> tuple[str, ...]:
    if "@" in value:
        raise ValueError("must have no user or password in it: set ldap_default_bind_dn and ldap_default_authtok")
    found = tuple(uri for uri in re.split(r"[\s,]+", value) if uri)
    for uri in found:
        _check_uri(uri)
    return found


def _check_uri(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        good = parts.scheme in {"ldap", "ldaps"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    else:
        good = good and parts.path in {"", "/"} and not (parts.query or parts.fragment)
    if not good or not uri.isprintable():
        raise ValueError(f"{uri!r} must be of the form ldaps://host, ldap://host or ldaps://host:port")


def _bases(value: str) -> tuple[SearchBase, ...]:
    """`base`, or any number of `base?scope?filter` with question marks in between."""
    parts = [part.strip() for part in value.split("?")]
    if len(parts) == 1:
        return (SearchBase(parts[0]),)
    if len(parts) % _PARTS:
        raise ValueError("must be of the form base?scope?filter, any number of times")
    return tuple(_base(*parts[at : at + _PARTS]) for at in range(0, len(parts), _PARTS))


def _base(base: str, scope: str, wanted: str) -> SearchBase:
    if scope.lower() not in _SCOPES:
        raise ValueError(f"{scope!r} is no scope: use subtree, onelevel or base")
    return SearchBase(base, _SCOPES[scope.lower()], _filter(wanted))


def _filter(value: str) -> str:
    if not value:
        return ""
    whole = value if value.startswith("(") else f"({value})"
    if whole.count("(") != whole.count(")") or not whole.endswith(")"):
        raise ValueError("is not a search filter: its parentheses do not match")
    return whole


def _home(value: str) -> str:
    """`%u` and its kind. What sssd knows beside these would need what the agent does not read."""
    for letter in _TEMPLATE.findall(value):
        if not letter or letter not in "uUdflo%":
            raise ValueError(f"%{letter} is not known: use %u, %U, %d, %f, %l, %o or %%")
    return _path(value)


def _path(value: str) -> str:
    if value and (not value.startswith(("/", "%o")) or ":" in value or not value.isprintable()):
        raise ValueError("must be an absolute path without colons")
    return value


_WHY_CERTIFICATES: Final = (
    "must be demand or hard: without a check of its certificate anybody can be the server, and says who is who; put its CA "
    "into the key ca.crt of the Secret in ldapsCert"
)
_WHY_LDAP: Final = "must be ldap: the directory agent speaks nothing else"
_UNUSED: Final = frozenset(
    {
        *("cache_credentials", "enumerate", "entry_cache_timeout", "entry_cache_user_timeout"),
        *("entry_cache_group_timeout", "ldap_user_member_of", "ldap_enumeration_refresh_timeout", "debug_level"),
    }
)
"""Accepted, because almost every sssd.conf has them, and of no meaning for an agent that reads everything anyway."""
OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "ldap_uri": _uris,
    "ldap_backup_uri": _uris,
    "ldap_search_base": _bases,
    "ldap_user_search_base": _bases,
    "ldap_group_search_base": _bases,
    "ldap_default_bind_dn": _text,
    "ldap_default_authtok": _text,
    "ldap_default_authtok_type": _only("password", why="must be password: obfuscated passwords cannot be read"),
    "ldap_schema": _schema,
    "ldap_user_object_class": _attribute,
    "ldap_user_name": _attribute,
    "ldap_user_uid_number": _attribute,
    "ldap_user_gid_number": _attribute,
    "ldap_user_home_directory": _attribute,
    "ldap_user_shell": _attribute,
    "ldap_user_gecos": _attribute,
    "ldap_user_fullname": _attribute,
    "ldap_user_ssh_public_key": _attribute,
    "ldap_group_object_class": _attribute,
    "ldap_group_name": _attribute,
    "ldap_group_gid_number": _attribute,
    "ldap_group_member": _attribute,
    "ldap_access_filter": _filter,
    "ldap_id_use_start_tls": _bool,
    "ldap_id_mapping": _only("false", why="must be false: numbers are read from the directory, not made from SIDs"),
    "ldap_sasl_mech": _only("external", why="must be EXTERNAL: Kerberos is not supported"),
    "ldap_tls_cacert": _path,
    "ldap_tls_cert": _path,
    "ldap_tls_key": _path,
    "ldap_tls_reqcert": _only("demand", "hard", why=_WHY_CERTIFICATES),
    "ldap_page_size": _number(0, 100_000),
    "ldap_search_timeout": _number(1, 600),
    "ldap_network_timeout": _number(1, 60),
    "override_homedir": _home,
    "fallback_homedir": _home,
    "override_shell": _path,
    "default_shell": _path,
    "min_id": _number(0, _MOST_ID),
    "max_id": _number(0, _MOST_ID),
    "case_sensitive": _only("true", "false", "preserving", why="must be true or false"),
    "use_fully_qualified_names": _only("false", why="must be false: names have no @domain here"),
    "id_provider": _only("ldap", why=_WHY_LDAP),
    "auth_provider": _only("ldap", why=_WHY_LDAP),
    "access_provider": _only("permit", "ldap", why="must be permit or ldap"),
    "chpass_provider": _only("ldap", "none", why="must be ldap or none"),
    **dict.fromkeys(_UNUSED, _text),
}


class Options:
    """Options by name, each with where it comes from. Later ones win."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, str]] = {}

    def put(self, name: str, value: str | None, *, source: str) -> None:
        """Set an option of the values. Null and empty mean that it is not set."""
        if value:
            self._given[name] = value, source

    def add(self, name: str, value: str, *, source: str, line: int) -> None:
        """Set an option of a snippet; one that nobody knows is refused. An empty value takes it back."""
        if name not in OPTIONS:
            close = difflib.get_close_matches(name, OPTIONS, n=1)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            words = f"line {line}: the directory agent does not know the option `{name}`: remove it{hint}"
            raise Failure(INVALID, words, option=source)
        self._given.pop(name, None)
        self.put(name, value, source=source)

    def get(self, name: str, default: T) -> T:
        if name not in self._given:
            return default
        value, source = self._given[name]
        try:
            found: T = OPTIONS[name](value)
        except ValueError as error:
            # What stands before an @ may be a password.
            shown = "" if name in _SECRETS or "@" in value else f" = {value[:100]}"
            raise Failure(INVALID, f"`{name}{shown}`: {error}", option=source) from error
        return found

    def check(self) -> None:
        """Read all of them, also those that nobody asks for."""
        for name in self._given:
            self.get(name, None)

    def source(self, name: str) -> str:
        """Where it was set; empty if it was not."""
        return self._given[name][1] if name in self._given else ""
