"""What the end of an `ldapsearch` means: result codes of LDAP and of libldap, in words that say what to do.

Codes above zero are the server's (RFC 4511), those below libldap's own. As an exit code -1 is 255, and a failure of StartTLS
is always 1, whatever it was; so the number in the words on standard error counts more. One that ends with 0 and has
complained about the result was cut off by the server, and has told only a part.
"""

import re
from typing import Final

from msgspec import Struct

from sunk.directory.failure import Failure
from sunk.model.contract.people import INVALID, REFUSED, SUSPECT, UNREACHABLE

TIMEOUT: Final = -5
GARBAGE: Final = -4
SERVER_DOWN: Final = -1
CONNECT_ERROR: Final = -11
OTHER: Final = 80
NO_SUCH_OBJECT: Final = 32

UNCONNECTED: Final = frozenset({SERVER_DOWN, CONNECT_ERROR, TIMEOUT})
"""Nothing was heard of the server, or not in a way that we trust: a probe can say why, and another server may do."""
UNKNOWN_METHOD: Final = frozenset({7, -6, -12, 48})
"""The server does not know this way to bind."""

_NUMBER: Final = re.compile(r"\((-?\d{1,5})\)(?:: .*)?$")
_INFO: Final = re.compile(r"^\s*[Aa]dditional info(?:rmation)?: (.*)$")
_CUT_OFF: Final = ("ldap_result:", "ldap_search_ext:", "ldap_parse_")
_SIGNED: Final = 128
_KILLED: Final = -1000
_BYTE: Final = 256
_SHOWN: Final = 200


class Answer(Struct, frozen=True):
    """How a search ended badly."""

    code: int
    words: str
    detail: str = ""
    """What the server adds."""


class _Meaning(Struct, frozen=True):
    state: str
    option: str
    words: str


_MEANINGS: Final = {
    3: _Meaning(UNREACHABLE, "ldap_search_timeout", "the server's time limit is over before the search ends"),
    4: _Meaning(
        SUSPECT,
        "ldap_default_bind_dn",
        "the server sends only a part (size limit): raise its limit for this account, or narrow the search base",
    ),
    8: _Meaning(
        REFUSED, "ldap_id_use_start_tls", "the server demands an encrypted connection, or another kind of bind"
    ),
    10: _Meaning(
        INVALID, "ldap_search_base", "the server refers to another one for this base: name that one in ldapUri"
    ),
    11: _Meaning(
        SUSPECT,
        "ldap_default_bind_dn",
        "the server sends only a part (administrative limit): raise its limit for this account, or narrow the search base",
    ),
    12: _Meaning(
        INVALID, "ldap_page_size", "the server has no paged results: set `ldap_page_size = 0` in additionalConfig"
    ),
    13: _Meaning(
        REFUSED, "ldap_id_use_start_tls", "the server demands an encrypted connection: do not turn off startTLS"
    ),
    32: _Meaning(INVALID, "ldap_search_base", "the server has no such base, or does not show it to this account"),
    34: _Meaning(
        INVALID, "ldap_search_base", "the server takes a DN for invalid: check the search bases and the bind DN"
    ),
    48: _Meaning(REFUSED, "ldap_default_bind_dn", "the server does not let anybody bind in this way"),
    49: _Meaning(REFUSED, "ldap_default_authtok", "the server refuses the bind DN or its password"),
    50: _Meaning(REFUSED, "ldap_default_bind_dn", "the account may not search there: give it read access"),
    51: _Meaning(UNREACHABLE, "ldap_uri", "the server is busy"),
    52: _Meaning(UNREACHABLE, "ldap_uri", "the server is unavailable"),
    53: _Meaning(REFUSED, "ldap_default_bind_dn", "the server is unwilling: it may demand a bind or TLS"),
    OTHER: _Meaning(UNREACHABLE, "ldap_uri", "the server ended the search before it was complete"),
    SERVER_DOWN: _Meaning(UNREACHABLE, "ldap_uri", "the server cannot be reached, or hangs up"),
    GARBAGE: _Meaning(SUSPECT, "ldap_uri", "the answer is not what a directory sends"),
    TIMEOUT: _Meaning(UNREACHABLE, "ldap_uri", "the server does not answer in time"),
    -7: _Meaning(INVALID, "ldap_user_search_base", "a search filter is invalid"),
    -9: _Meaning(INVALID, "ldap_uri", "libldap refuses this address or these certificates"),
    CONNECT_ERROR: _Meaning(REFUSED, "ldap_uri", "TLS fails"),
}
_OPERATIONS_ERROR: Final = 1
_PROTOCOL_ERROR: Final = 2


def answer(code: int, words: str) -> Answer | None:
    """Read exit code and words; None if the search has ended well and complete."""
    lines = words.splitlines()
    told = next((int(found[1]) for line in lines if (found := _NUMBER.search(line.rstrip()))), 0)
    if code == 0 and not any(line.startswith(_CUT_OFF) for line in lines):
        return None
    detail = next((found[1].strip() for line in lines if (found := _INFO.match(line))), "")
    if code < 0:
        return Answer(_KILLED, f"ldapsearch was ended by signal {-code}")
    number = told or (code - _BYTE if code > _SIGNED else code) or OTHER
    first = next((line.strip() for line in lines if line.strip()), f"exit code {code}")
    return Answer(number, first[:_SHOWN], detail[:_SHOWN])


def failure(answer: Answer, uri: str, *, encrypted: bool) -> "LdapFailure":
    """Say what it means."""
    meaning = _MEANINGS.get(answer.code) or _unusual(answer, encrypted=encrypted)
    added = answer.detail or (answer.words if answer.code in {GARBAGE, NO_SUCH_OBJECT} else "")
    return LdapFailure(meaning, f"{uri}: {meaning.words}{f' ({_plain(added)})' if added else ''}", answer)


def _unusual(answer: Answer, *, encrypted: bool) -> _Meaning:
    if answer.code == _OPERATIONS_ERROR and "bind" in answer.detail.lower():  # Active Directory says it in this way
        return _Meaning(REFUSED, "ldap_default_bind_dn", "the server demands a bind: set user.bindDn and a password")
    if answer.code == _PROTOCOL_ERROR and encrypted and "start_tls" in answer.words:
        return _Meaning(REFUSED, "ldap_id_use_start_tls", "the server has no StartTLS: use ldaps:// in ldapUri")
    return _Meaning(UNREACHABLE, "ldap_uri", f"the search fails: {_plain(answer.words)}")


def _plain(text: str) -> str:
    """Text of a server for a report: one line of printable characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:_SHOWN]


class LdapFailure(Failure):
    """A failure that an answer stands behind."""

    def __init__(self, meaning: _Meaning, words: str, answer: Answer) -> None:
        super().__init__(meaning.state, words, option=meaning.option)
        self.code: Final = answer.code

    @property
    def is_unconnected(self) -> bool:
        return self.code in UNCONNECTED
