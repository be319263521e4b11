"""What we tell slurmdbd about users in accounts, and what it says of them.

Orders are for many users at once: an association takes slurmdbd milliseconds, a connection tens of them, and each commit
sends slurmctld an update. One that is refused is not carried out for any of its users.

slurmdbd puts names into SQL as they come. So what is not plainly a name is never sent, whoever has checked it before.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from sunk.slurm.errors import JobsRunning, SlurmError
from sunk.slurm.libslurm.accounts import OF_THE_ACCOUNT, AccountWire, Grant
from sunk.slurm.libslurm.library import Library
from sunk.slurm.libslurm.wire import LEAVE
from sunk.slurm.records import Association, KnownUser

T = TypeVar("T")
MOST: Final = 500
"""Users of one order."""
PURPOSE: Final = "accounts"
_NAME: Final = re.compile(r"[a-z0-9_.-]{1,128}")
_COMMENT: Final = re.compile(r"[A-Za-z0-9_.,:= -]{0,8192}")


class Accounts(Struct, frozen=True):
    """What slurmdbd has for one cluster."""

    associations: tuple[Association, ...]
    qos: Mapping[str, int]
    """Numbers by name; of all clusters, as Slurm has it."""
    unreadable: tuple[str, ...] = ()


class UserQos(Struct, frozen=True):
    """The QOS of users in an account, by number; none means those of the account."""

    qos: tuple[int, ...] = ()
    default: int = 0


class Outcome(Struct, frozen=True):
    """Whom an order was carried out for, and why not for the others."""

    done: tuple[str, ...] = ()
    refused: Mapping[str, SlurmError] = {}


class AccountOrders:
    """Reads and changes the associations of one cluster of slurmdbd."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._made: AccountWire | None = None

    @property
    def _wire(self) -> AccountWire:
        """Made when it is first needed: most clusters have no rules."""
        self._made = self._made or AccountWire(self._library.wire)
        return self._made

    async def read(self, cluster: str) -> Accounts:
        found = await self._ask(lambda: self._wire.associations(cluster))
        qos = await self._ask(self._wire.qos)
        return Accounts(
            associations=found.rows,
            qos={row.name: row.id for row in qos.rows},
            unreadable=(*found.unreadable, *qos.unreadable),
        )

    async def known_users(self) -> dict[str, KnownUser]:
        """The users that slurmctld has, by name."""
        found = await self._library.call(self._wire.known_users, asked="read the users that slurmctld knows")
        return {row.name: row for row in found.rows}

    async def add_account(self, cluster: str, account: str, *, description: str) -> None:
        grant = Grant(cluster=cluster, account=_name(account), description=_comment(description))
        await self._ask(partial(self._wire.add_account, grant))

    async def add(  # noqa: PLR0913 - one keyword for each thing that is said of them
        self, cluster: str, account: str, users: Iterable[str], *, qos: UserQos, comment: str, is_default: bool
    ) -> None:
        """Add users to an account. With `is_default` it becomes their default account, whatever they had before."""
        grant = Grant(
            cluster=cluster,
            account=_name(account),
            users=tuple(map(_name, users)),
            comment=_comment(comment),
            is_default=is_default,
            qos=tuple(map(str, qos.qos)),
            default_qos=qos.default or LEAVE,
        )
        await self._ask(partial(self._wire.add_users, grant))

    async def change(  # noqa: PLR0913 - as above
        self,
        cluster: str,
        account: str,
        associations: Mapping[str, int],
        *,
        qos: UserQos,
        comment: str,
        keeps_default: bool = False,
    ) -> None:
        """Change the QOS of users, whose associations in the account are given by number; the default one if wanted."""
        grant = Grant(
            cluster=cluster,
            account=_name(account),
            users=tuple(map(_name, associations)),
            ids=tuple(associations.values()),
            comment=_comment(comment),
            qos=tuple(map(str, qos.qos)) or ("",),
            default_qos=LEAVE if keeps_default else qos.default or OF_THE_ACCOUNT,
        )
        await self._ask(partial(self._wire.change, grant))

    async def remove(self, cluster: str, account: str, associations: Mapping[str, int]) -> Outcome:
        """Remove associations, given by number. Those that jobs still are in stay, and the others go."""
        try:
            await self._remove(cluster, account, associations)
        except JobsRunning as trouble:
            if len(associations) == 1:
                return Outcome(refused=dict.fromkeys(associations, trouble))
        else:
            return Outcome(done=tuple(associations))
        # slurmdbd does not say whose jobs: half of them at a time finds out with few calls.
        names = tuple(associations)
        outcomes = [
            await self.remove(cluster, account, {name: associations[name] for name in half})
            for half in (names[: len(names) // 2], names[len(names) // 2 :])
        ]
        return Outcome(
            done=tuple(name for outcome in outcomes for name in outcome.done),
            refused={name: error for outcome in outcomes for name, error in outcome.refused.items()},
        )

    async def _remove(self, cluster: str, account: str, associations: Mapping[str, int]) -> None:
        grant = Grant(
            cluster=cluster,
            account=_name(account),
            users=tuple(map(_name, associations)),
            ids=tuple(associations.values()),
        )
        await self._ask(partial(self._wire.remove, grant))

    async def set_default(self, cluster: str, account: str, users: Iterable[str]) -> None:
        grant = Grant(cluster=cluster, account=_name(account), users=tuple(map(_name, users)))
        await self._ask(partial(self._wire.set_default, grant))

    async def _ask(self, blocking: Callable[[], T]) -> T:
        return await self._library.ask_slurmdbd(blocking, purpose=PURPOSE)


def in_batches(users: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """As many users as one order may be about."""
    everybody = tuple(users)
    return (everybody[start : start + MOST] for start in range(0, len(everybody), MOST))


def is_name(name: str) -> bool:
    """Whether slurmdbd can be told this name."""
    return _NAME.fullmatch(name) is not None


def _name(name: str) -> str:
    if not is_name(name):
        raise ValueError(f"not a name that slurmdbd is told: {name[:80]!r}")
    return name


def _comment(text: str) -> str:
    if not _COMMENT.fullmatch(text):
        raise ValueError(f"not a comment that slurmdbd is told: {text[:80]!r}")
    return text
