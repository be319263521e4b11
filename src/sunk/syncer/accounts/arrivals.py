"""Why a new user has to wait for an account until slurmctld knows the name.

slurmctld looks up the uid of a user when slurmdbd tells it of the first association, and remembers it; also that there is
none. From then on it refuses the user's jobs ("Invalid account"), though everything looks right, until it looks again: once
an hour, or when it is reconfigured. So order matters: the name has to be in slurmctld's Pod before the association
comes. The kubelet brings it there, within 90 seconds after the ConfigMap has changed, and nobody says when.

So who is new is left alone for a while longer than that. Nobody loses by it: login nodes learn of a new user in the same
time. A ConfigMap that has never changed was there before slurmctld's Pod, which does not start without it.

Afterwards slurmctld is asked whom it knows. Should it still not know somebody, or know another uid, it is reconfigured,
once for each of them. Where that does not help, a person has to look.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from sunk.slurm.records import KnownUser
from sunk.syncer.accounts.source import User

SETTLE: Final = 100.0
"""Seconds. A kubelet looks at the ConfigMaps of a Pod every 60 to 90 seconds."""
DOUBT: Final = 20.0
"""Seconds for which slurmctld may not know a user before it is reconfigured: slurmdbd tells it in its own time."""
HELPLESS: Final = 180.0
"""Seconds after such a reconfigure; whom it does not know by then it will not get to know."""


class Arrivals:
    """Since when each user is there, by the loop's clock."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}

    def note(self, users: Mapping[str, User], *, since: float) -> None:
        """Take who is there now. Those that were not, or had another uid, are there since the given moment."""
        before = self._since
        self._since = {
            name: before[name] if name in before and before[name][0] == user.uid else (user.uid, since)
            for name, user in users.items()
        }

    def settled(self, *, now: float) -> frozenset[str]:
        return frozenset(name for name, (_, since) in self._since.items() if now - since >= SETTLE)

    def next(self, *, now: float) -> float | None:
        """When somebody more will be; None if all are."""
        waiting = [since for _, since in self._since.values() if now - since < SETTLE]
        return min(waiting) + SETTLE if waiting else None


def unknown(
    users: Mapping[str, User], *, given: Iterable[str], defaults: Collection[str], known: Mapping[str, KnownUser]
) -> dict[str, str]:
    """Those of the users with an account whose jobs slurmctld would refuse, and what it knows instead.

    `defaults` are those who have a default account, by slurmdbd: slurmctld forgets it together with the uid.
    """
    found = {}
    for name in given:
        row, user = known.get(name), users.get(name)
        if user is None:
            continue
        if row is None or row.uid is None:
            found[name] = "no uid"
        elif row.uid != user.uid:
            found[name] = f"uid {row.uid}"
        elif not row.default_account and name in defaults:
            found[name] = "no default account"
    return found


class Acquaintance(Struct, frozen=True):
    """A user whom slurmctld does not know. Times are the loop's."""

    since: float
    reconfigured: float | None = None
    """When that was asked for because of this user."""


class Strangers:
    """Users whom slurmctld should know and does not, for as long as that lasts."""

    def __init__(self) -> None:
        self._found: dict[str, Acquaintance] = {}

    def note(self, names: Iterable[str], *, now: float) -> None:
        self._found = {name: self._found.get(name, Acquaintance(since=now)) for name in names}

    def reconfigure(self, *, now: float) -> tuple[str, ...]:
        """Those for whom slurmctld has to be reconfigured now. Each of them is given once."""
        due = [name for name, one in self._found.items() if one.reconfigured is None and now - one.since >= DOUBT]
        for name in due:
            self._found[name] = Acquaintance(since=self._found[name].since, reconfigured=now)
        return tuple(sorted(due))

    def helpless(self, *, now: float) -> tuple[str, ...]:
        """Those for whom that has not helped."""
        return tuple(
            sorted(
                name
                for name, one in self._found.items()
                if one.reconfigured is not None and now - one.reconfigured >= HELPLESS
            )
        )
