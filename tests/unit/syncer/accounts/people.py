"""Users, groups and a slurmdbd that does as it is told, for tests of who gets which account."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from sunk.slurm.records import Association
from sunk.syncer.accounts.plan import Addition, Change, Found, Plan, UserQosNames
from sunk.syncer.accounts.source import Group, People, User

QOS = {"normal": 1, "high": 2, "low": 3}


def people(groups: Mapping[str, Iterable[str]], *, users: Iterable[str] = (), complete: bool = True) -> People:
    """These groups and their members, and some users who are in none."""
    names = sorted({*users, *(name for members in groups.values() for name in members)})
    return People(
        users={name: User(uid=1000 + number, gid=999) for number, name in enumerate(names)},
        groups={
            name: Group(gid=2000 + number, members=frozenset(members))
            for number, (name, members) in enumerate(groups.items())
        },
        complete=complete,
    )


def row(user: str, account: str, **values: Any) -> Association:
    """As somebody adds it by hand: without anything."""
    plain = Association(
        id=0,
        user=user,
        account=account,
        partition="",
        comment="",
        qos=(),
        default_qos=0,
        is_default=False,
        is_limited=False,
    )
    return replace(plain, **values)


class Database:
    """What slurmdbd has, and what it makes of a plan."""

    def __init__(self, *rows: Association, qos: Mapping[str, int] = QOS) -> None:
        self.qos = dict(qos)
        self._last = 0
        self.rows: dict[int, Association] = {}
        self.insert(row("", "root"))
        self.insert(row("root", "root", is_default=True))
        for each in rows:
            if each.account not in self.accounts:
                self.insert(row("", each.account))
            self.insert(each)

    @property
    def accounts(self) -> set[str]:
        return {each.account for each in self.rows.values() if not each.user}

    def found(self) -> Found:
        return Found(associations=tuple(self.rows.values()), qos=self.qos)

    def insert(self, each: Association) -> None:
        self._last += 1
        self.rows[self._last] = replace(each, id=self._last)

    def of(self, user: str) -> dict[str, Association]:
        return {each.account: each for each in self.rows.values() if each.user == user}

    def delete(self, user: str, account: str) -> None:
        self.rows = {number: each for number, each in self.rows.items() if (each.user, each.account) != (user, account)}

    def alter(self, user: str, account: str, **values: Any) -> None:
        for number, each in self.rows.items():
            if (each.user, each.account) == (user, account):
                self.rows[number] = replace(each, **values)

    def carry_out(self, plan: Plan) -> None:
        for account in plan.accounts:
            assert account not in self.accounts
            self.insert(row("", account))
        for addition in plan.additions:
            assert addition.account in self.accounts
            for user in addition.users:
                self._add(user, addition)
        for change in plan.changes:
            self._change(change)
        for default in plan.defaults:
            for user in default.users:
                self._set_default(user, default.account)
        for removal in plan.removals:
            for user, number in removal.associations.items():
                self._remove(user, number)

    def _change(self, change: Change) -> None:
        for user, number in change.associations.items():
            assert (self.rows[number].user, self.rows[number].account) == (user, change.account)
            before = self.rows[number]
            kept = {"default_qos": before.default_qos} if change.keeps_default else {}
            assert not kept or str(before.default_qos) in self._values(change.qos)["qos"], "slurmdbd would refuse it"
            self.rows[number] = replace(before, **(self._values(change.qos) | kept))

    def _set_default(self, user: str, default: str) -> None:
        assert default in self.of(user)
        for account in self.of(user):
            self.alter(user, account, is_default=account == default)

    def _add(self, user: str, addition: Addition) -> None:
        assert addition.account not in self.of(user)
        assert addition.is_default == (not self.of(user)), "the default of somebody who has one is not touched"
        self.insert(row(user, addition.account, is_default=addition.is_default, **self._values(addition.qos)))

    def _remove(self, user: str, number: int) -> None:
        assert self.rows[number].user == user
        others = [each for each in self.rows.values() if each.user == user and each.id != number]
        assert not (self.rows[number].is_default and others), "slurmdbd would refuse it"
        del self.rows[number]

    def _values(self, qos: UserQosNames) -> dict[str, Any]:
        numbers = tuple(str(self.qos[name]) for name in qos.qos)
        return {"qos": numbers, "default_qos": self.qos.get(qos.default, 0), "comment": qos.mark}
