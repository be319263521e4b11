"""Carry out a plan: few orders for many users, and one that is refused does not hold up the others.

slurmdbd refuses an order as a whole, and does not always say for whose sake. So a refused order is given again for each
half of its users, until those are found who are refused by themselves. That ends after some refusals: if slurmdbd refuses
everybody, to ask for each of them would only take its time.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from sunk.slurm.errors import Denied, SlurmError, Unauthenticated, Unreachable
from sunk.slurm.orders.accounts import AccountOrders, UserQos, in_batches
from sunk.syncer.accounts.plan import Change, Pair, Plan, UserQosNames

log = logging.getLogger(__name__)

DESCRIPTION: Final = "created by SUNK: accounting.userAccounts"
MOST_REFUSALS: Final = 24
"""Refusals in one plan, after which no order is split any further."""
ANSWERS: Final = 1000
"""Numbers below are of the system, and -1 of libslurm: something went wrong on the way, and slurmdbd has refused nothing."""
_SHOWN: Final = 5

Order = Callable[[tuple[str, ...]], Awaitable[None]]


class NotLeading(Exception):  # noqa: N818 - it is no error
    """Another process leads by now: what is left of the plan is its business."""


class Executor:
    """Carries out one plan on one cluster of slurmdbd."""

    def __init__(
        self, orders: AccountOrders, *, cluster: str, qos: Mapping[str, int], may_write: Callable[[], bool]
    ) -> None:
        self._orders = orders
        self._cluster = cluster
        self.qos = qos
        """Numbers by name, as slurmdbd had them when the plan was made."""
        self._may_write = may_write
        self.added: set[Pair] = set()
        self.changed: set[Pair] = set()
        self.removed: set[Pair] = set()
        self.busy: set[Pair] = set()
        """Those that slurmdbd does not remove because of their jobs."""
        self.refused = 0
        """How many orders were."""
        self.refusals: list[str] = []
        """What was refused for good in this plan, and why."""

    async def execute(self, plan: Plan) -> None:
        """Do it in the order of the plan. Raises if slurmdbd does not answer, with what was done up to then noted."""
        lacking = [account for account in plan.accounts if not await self._add_account(account)]
        for addition in plan.additions:
            if addition.account in lacking:
                continue
            add = self._adding(addition.account, qos=addition.qos, is_default=addition.is_default)
            await self._give(add, addition.users, account=addition.account, done=self.added)
        for change in plan.changes:
            alter = self._changing(change)
            await self._give(alter, change.associations, account=change.account, done=self.changed)
        for default in plan.defaults:
            await self._give(self._defaulting(default.account), default.users, account=default.account, done=set())
        for removal in plan.removals:
            await self._remove(removal.account, removal.associations)

    def summary(self) -> str:
        """What was done, in a sentence for people; empty if nothing was."""
        parts = (("added", self.added, "to"), ("changed", self.changed, "in"), ("removed", self.removed, "from"))
        return "; ".join(f"{verb} {_named(pairs, word)}" for verb, pairs, word in parts if pairs)

    async def _add_account(self, account: str) -> bool:
        self._check()
        try:
            await self._orders.add_account(self._cluster, account, description=DESCRIPTION)
        except SlurmError as trouble:
            self._refused(trouble)
            return False
        log.info("added account %s", account)
        return True

    def _adding(self, account: str, *, qos: UserQosNames, is_default: bool) -> Order:
        async def add(users: tuple[str, ...]) -> None:
            await self._orders.add(
                self._cluster, account, users, qos=self._numbers(qos), comment=qos.mark, is_default=is_default
            )

        return add

    def _changing(self, wanted: Change) -> Order:
        async def change(users: tuple[str, ...]) -> None:
            await self._orders.change(
                self._cluster,
                wanted.account,
                {user: wanted.associations[user] for user in users},
                qos=self._numbers(wanted.qos),
                comment=wanted.qos.mark,
                keeps_default=wanted.keeps_default,
            )

        return change

    def _defaulting(self, account: str) -> Order:
        async def set_default(users: tuple[str, ...]) -> None:
            await self._orders.set_default(self._cluster, account, users)

        return set_default

    async def _remove(self, account: str, associations: Mapping[str, int]) -> None:
        async def remove(users: tuple[str, ...]) -> None:
            outcome = await self._orders.remove(self._cluster, account, {user: associations[user] for user in users})
            self.busy |= {(user, account) for user in outcome.refused}
            self.removed |= {(user, account) for user in outcome.done}

        await self._give(remove, associations, account=account, done=set())

    async def _give(self, order: Order, users: Iterable[str], *, account: str, done: set[Pair]) -> None:
        """Give an order for these users of an account, and note in `done` for whom it was carried out."""
        waiting = list(in_batches(users))
        while waiting:
            batch = waiting.pop(0)
            self._check()
            try:
                await order(batch)
            except SlurmError as trouble:
                split = self._refused(trouble, several=len(batch) > 1)
                half = len(batch) // 2
                waiting = [*((batch[:half], batch[half:]) if split else ()), *waiting]
            except ValueError as trouble:  # not sent at all
                self.refused += 1
                self.refusals.append(str(trouble))
            else:
                done |= {(user, account) for user in batch}

    def _refused(self, trouble: SlurmError, *, several: bool = False) -> bool:
        """Note a refusal; tell whether it is worth while to find out whom it is about. No answer at all is raised."""
        if trouble.errno < ANSWERS or isinstance(trouble, Unreachable | Unauthenticated):
            raise trouble
        self.refused += 1
        if several and self.refused < MOST_REFUSALS and not isinstance(trouble, Denied):
            return True
        self.refusals.append(_sentence(trouble))
        return False

    def _numbers(self, names: UserQosNames) -> UserQos:
        return UserQos(
            qos=tuple(self.qos[name] for name in names.qos), default=self.qos[names.default] if names.default else 0
        )

    def _check(self) -> None:
        if not self._may_write():
            raise NotLeading


def _sentence(trouble: SlurmError) -> str:
    advice = "; the syncer has to be SlurmUser or an operator in slurmdbd" if isinstance(trouble, Denied) else ""
    return f"slurmdbd refused to {trouble}{advice}"


def _named(pairs: Iterable[Pair], word: str) -> str:
    by_account: dict[str, list[str]] = {}
    for user, account in sorted(pairs):
        by_account.setdefault(account, []).append(user)
    return ", ".join(f"{_users(users)} {word} {account}" for account, users in sorted(by_account.items()))


def _users(users: list[str]) -> str:
    return ", ".join(users) if len(users) <= _SHOWN else f"{len(users)} users"
