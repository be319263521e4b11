"""Whether an account is locked, by the attributes that directories have for it.

| attribute | whose | locked if |
| --- | --- | --- |
| userAccountControl | Active Directory | bit 2 is set |
| accountExpires | Active Directory | it is a time that has passed, in 100 ns since 1601 |
| nsAccountLock | 389 DS, FreeIPA | it is true |
| pwdAccountLockedTime | OpenLDAP | it is 000001010000Z: by an administrator, not by wrong passwords |
| shadowExpire | rfc2307 | that day has come, in days since 1970 |
| krbPrincipalExpiration | FreeIPA, MIT Kerberos | that time has passed |

What cannot be read locks nobody: it would be the same nonsense in thousands of entries.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from sunk.directory.domain.schema import LOCKS
from sunk.directory.ldap.ldif import Entry

_ATTRIBUTES: Final = frozenset(map(str.lower, LOCKS))
_DISABLED: Final = 2
_BY_ADMINISTRATOR: Final = "000001010000Z"
_NEVER: Final = frozenset({0, (1 << 63) - 1})
_SINCE: Final = datetime(1601, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS: Final = 19
_TIME: Final = "%Y%m%d%H%M%S"
_TIME_LENGTH: Final = 14


def is_locked(entry: Entry, *, now: datetime) -> bool:
    if _ATTRIBUTES.isdisjoint(entry.attributes):  # nearly all
        return False
    control, expires = _number(entry.text("userAccountControl")), _number(entry.text("accountExpires"))
    day = _number(entry.text("shadowExpire"))
    return (
        (control is not None and control & _DISABLED != 0)
        or (expires is not None and expires not in _NEVER and expires < (now - _SINCE) / timedelta(microseconds=1) * 10)
        or entry.text("nsAccountLock").lower() == "true"
        or entry.text("pwdAccountLockedTime") == _BY_ADMINISTRATOR
        # 0 means both never and always, says shadow(5). PAM takes it for always, and so does who runs `chage -E 0`.
        or (day is not None and day >= 0 and day <= (now - _EPOCH).days)
        or _has_passed(entry.text("krbPrincipalExpiration"), now=now)
    )


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else None


def _has_passed(text: str, *, now: datetime) -> bool:
    try:
        return datetime.strptime(text[:_TIME_LENGTH], _TIME).replace(tzinfo=UTC) < now
    except ValueError:
        return False
