"""Clear to delete: the text upon which a Pod may be deleted, and for how long it holds.

    2026-11-17T19:20:00.250Z 1763407199:k8s: pending deletion

The date says when the read of Slurm began that showed the node drained and idle; behind it stands the drain. A read
tells about its moment and no other: once nobody watches the node any more, somebody may resume it, and a job starts.
So a clearance holds for a short while only, and never into the time of another leader, which cannot know what happened
before. An old one costs nothing: it is asked for again, and given again if it is still true.

Both sides date by the API server's clock (`sunk.kube.api.clock`), so that their own may differ.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

HOLDS_FOR: Final = timedelta(seconds=30)
"""For how long a clearance holds, from the begin of the read that it stands on."""
SKEW: Final = timedelta(seconds=5)
"""A date that is further ahead than this is not believed: somebody's clock is wrong."""


class Clearance(Struct, frozen=True):
    read: datetime
    """When the read began that it stands on."""
    drain: str
    """The drain that the node had then, or that Slurm does not know it."""


def write(drain: str, *, read: datetime) -> str:
    return f"{read.astimezone(UTC).isoformat(timespec='milliseconds').replace('+00:00', 'Z')} {drain}"


def read(text: str) -> Clearance | None:
    """What the annotation says; None if it has no date."""
    date, _, drain = text.partition(" ")
    try:
        found = datetime.fromisoformat(date)
    except ValueError:
        return None
    return None if found.tzinfo is None else Clearance(found, drain)


def fault(text: str, *, now: datetime, since: datetime) -> str:
    """Why a clearance does not hold, for one who leads since then; empty if it does."""
    found = read(text)
    if found is None:
        return "it has no date"
    age = now - found.read
    if age > HOLDS_FOR:
        return f"it is {age.total_seconds():.0f} s old (maximum {HOLDS_FOR.total_seconds():.0f} s)"
    if -age > SKEW:
        return f"it is dated {-age.total_seconds():.0f} s ahead of the API server's clock"
    return "it predates this replica's leadership" if found.read < since else ""
