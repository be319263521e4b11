"""Who gets which account, and what is ours to change: a pure function of the rules, the users and what slurmdbd has.

**What is ours.** slurmdbd keeps a comment for every association, which administrators see (`sacctmgr show assoc
format=user,account,qos,comment`). One that we make says `sunk`, and the QOS that we gave it. It is ours for as long as
it is exactly as that comment says: with these QOS, for all partitions, without limits of its own, and with no other
association of the user in this account. Whoever changes any of it, the comment included, has taken it over, and we touch
it no more. What is the default, account or QOS, is no part of it: users may choose that themselves (`sacctmgr modify user`),
and whoever does so must not keep the account for good. What they have chosen stays, as long as it is allowed.

**What was removed.** slurmdbd forgets a young association when it is removed, so it cannot tell one that an administrator
has taken away from one that never was. Hence what was there is noted (`memory`): a user who should have an account, has had
it and has it no longer, has lost it by somebody's will. It is not given again, unless the user has left the group and come
back meanwhile, or the account itself is gone, as in a new database.

**Who loses something.** Only who is there and no longer in any group that gives the account, and only what is ours, and
not while jobs of the user are in it. Who has vanished from the directory keeps it: nobody can submit a job as a user who
is not known, and the history stays whole. A group that does not exist is taken for a mistake, and costs nobody anything.
Nor does a group that has lost most of its members at once, or many groups together: a directory that withholds members says
just that. A person can accept it by number. A rule that is taken away is a person's word, and needs no other.

Rejected: to compare the QOS alone, without a mark. An administrator may want just what a rule says, and want it to stay.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from msgspec import Struct, field

from sunk.model.cluster.daemons import AccountRule
from sunk.slurm.orders.accounts import is_name
from sunk.slurm.records import Association
from sunk.syncer.accounts.source import People

FEW: Final = 5
"""So many users may always leave at once."""
MARK: Final = "sunk"
_MARKED: Final = re.compile(r"sunk(?: qos=([a-z0-9_.,-]+))?(?: default=([a-z0-9_.-]+))?")

Pair = tuple[str, str]
"""User and account."""


class UserQosNames(Struct, frozen=True, order=True):
    """QOS of a user in an account, by name. None at all: those of the account."""

    qos: tuple[str, ...] = ()
    default: str = ""

    @property
    def mark(self) -> str:
        """The comment of an association with these."""
        words = [MARK]
        words += [f"qos={','.join(self.qos)}"] if self.qos else []
        words += [f"default={self.default}"] if self.default else []
        return " ".join(words)


class Found(Struct, frozen=True):
    """What slurmdbd has for this cluster."""

    associations: tuple[Association, ...] = ()
    qos: Mapping[str, int] = field(default_factory=dict)
    """Numbers by name."""

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(row.account.lower() for row in self.associations if not row.user)

    def default_qos(self) -> dict[str, str]:
        """By account, where it has one of its own."""
        names = {number: name for name, number in self.qos.items()}
        rows = (row for row in self.associations if not row.user and row.default_qos in names)
        return {row.account.lower(): names[row.default_qos] for row in rows}

    def by_pair(self) -> dict[Pair, list[Association]]:
        pairs: dict[Pair, list[Association]] = {}
        for row in self.associations:
            if row.user:
                pairs.setdefault((row.user.lower(), row.account.lower()), []).append(row)
        return pairs


class Wanted(Struct, frozen=True):
    """What the rules say about a user in an account."""

    qos: UserQosNames
    usable: bool
    """At least one of the rules has a QOS that exists, or names none."""


class Addition(Struct, frozen=True):
    """Users who get an account. `is_default`: they have no other."""

    account: str
    qos: UserQosNames
    is_default: bool
    users: tuple[str, ...]


class Change(Struct, frozen=True):
    """Users who get other QOS in an account; the numbers of their associations by user."""

    account: str
    qos: UserQosNames
    associations: Mapping[str, int]
    keeps_default: bool = False
    """They have chosen another default QOS than the rules say."""


class Removal(Struct, frozen=True):
    account: str
    associations: Mapping[str, int]


class NewDefault(Struct, frozen=True):
    """Users whose default account goes, and the one that they have next."""

    account: str
    users: tuple[str, ...]


class Plan(Struct, frozen=True):
    """What is to be done, in this order, and what there is to say."""

    accounts: tuple[str, ...] = ()
    """To be created."""
    additions: tuple[Addition, ...] = ()
    changes: tuple[Change, ...] = ()
    defaults: tuple[NewDefault, ...] = ()
    removals: tuple[Removal, ...] = ()
    served: frozenset[Pair] = frozenset()
    """To be noted: who has or has had an account, and is still to have it. Not those who get it now."""
    wanted: int = 0
    """How many associations the rules ask for."""
    given: frozenset[str] = frozenset()
    """Users who have an account that a rule speaks of."""
    waiting: tuple[Pair, ...] = ()
    """To be removed when their jobs have ended."""
    arriving: tuple[Pair, ...] = ()
    """To be added when slurmctld surely knows the user."""
    withheld: tuple[Pair, ...] = ()
    """Wanted, and removed by somebody else."""
    held: tuple[Pair, ...] = ()
    """Said to have left their groups, and not believed: too many at once."""
    foreign: tuple[Pair, ...] = ()
    """Wanted otherwise or no longer, and not ours: somebody has made or changed them."""
    problems: tuple[str, ...] = ()
    """What is wrong with the rules, each in a sentence."""

    @property
    def giving(self) -> "Plan":
        """What of it nobody loses anything by."""
        return Plan(accounts=self.accounts, additions=self.additions)

    @property
    def taking(self) -> "Plan":
        """What of it overwrites or removes something."""
        return Plan(changes=self.changes, defaults=self.defaults, removals=self.removals)

    @property
    def is_empty(self) -> bool:
        return not (self.accounts or self.additions or self.changes or self.defaults or self.removals)


def marked(comment: str) -> UserQosNames | None:
    """What a comment of ours says; None if it is not one."""
    match = _MARKED.fullmatch(comment.strip())
    if match is None:
        return None
    return UserQosNames(qos=tuple(filter(None, (match[1] or "").split(","))), default=match[2] or "")


def ours(rows: Collection[Association], *, qos: Mapping[str, int]) -> bool:
    """Whether these, all that a user has in an account, are one association that we have made and nobody has changed."""
    if len(rows) != 1:
        return False
    (row,) = rows
    said = marked(row.comment)
    if said is None or row.partition or row.is_limited or not is_name(row.account.lower()):
        return False
    # A QOS that was deleted is gone from the association too, and nobody has touched that.
    left = {str(qos[name]) for name in said.qos if name in qos}
    return set(row.qos) == left


def plan(  # noqa: PLR0913 - all that it depends on
    rules: Iterable[AccountRule],
    people: People,
    found: Found,
    *,
    served: Collection[Pair] = frozenset(),
    busy: Collection[Pair] = frozenset(),
    settled: Collection[str] | None = None,
    accepted_loss: int = 0,
) -> Plan:
    """What to do.

    `served` are those who have had an account, `busy` those with jobs in one, `settled` those whom slurmctld surely knows
    (all, if None). `accepted_loss` is how many a person says may leave their groups at once.
    """
    return _Planner(tuple(rules), people, found, frozenset(served), frozenset(busy), settled, accepted_loss).plan()


class _Planner:
    def __init__(  # noqa: PLR0913, PLR0917 - all that it depends on
        self,
        rules: tuple[AccountRule, ...],
        people: People,
        found: Found,
        served: frozenset[Pair],
        busy: frozenset[Pair],
        settled: Collection[str] | None,
        accepted_loss: int,
    ) -> None:
        self._rules, self._people, self._found = rules, people, found
        self._busy, self._settled = busy, settled
        self._pairs = found.by_pair()
        self._accounts = found.accounts
        # With the account all that was in it is gone, which is nobody's word about a single user.
        self._served = frozenset(pair for pair in served if pair[1] in self._accounts)
        self._wanted = wanted(rules, people, qos=found.qos)
        self._unsure = frozenset(rule.account for rule in rules if people.members(rule.group) is None)
        """Accounts of which nobody can tell who has left them."""
        self._order = {account: number for number, account in enumerate(dict.fromkeys(rule.account for rule in rules))}
        held = self._implausible()
        self._held = held if len(held) > accepted_loss else ()
        self._unsure |= {account for _, account in self._held}

    def _implausible(self) -> tuple[Pair, ...]:
        """Who seems to have left the groups of an account, or of all accounts, together with most of their members."""
        by_group = self._order.keys() - {rule.account for rule in self._rules if not rule.group}
        users = self._people.users
        given = [pair for pair in self._pairs if pair[1] in by_group and pair[0] in users and self._is_ours(pair)]
        lost = sorted(pair for pair in given if self._has_left(pair))
        if _too_many(len(lost), of=len(given)):
            return tuple(lost)
        had, gone = Counter(account for _, account in given), Counter(account for _, account in lost)
        return tuple(pair for pair in lost if _too_many(gone[pair[1]], of=had[pair[1]]))

    def plan(self) -> Plan:
        missing = [pair for pair in self._wanted if pair not in self._pairs]
        withheld = tuple(sorted(pair for pair in missing if pair in self._served))
        lacking = [pair for pair in missing if pair not in self._served and self._wanted[pair].usable]
        arriving = tuple(sorted(pair for pair in lacking if not self._is_settled(pair[0])))
        new = [pair for pair in lacking if self._is_settled(pair[0])]
        leaving = [pair for pair in self._pairs if self._has_left(pair)]
        gone = [pair for pair in leaving if self._is_ours(pair) and pair not in self._busy]
        changed = [pair for pair, want in self._wanted.items() if self._differs(pair, want) and self._is_ours(pair)]
        return Plan(
            accounts=tuple(dict.fromkeys(pair[1] for pair in new if pair[1] not in self._accounts)),
            additions=self._additions(new),
            changes=self._changes(changed),
            defaults=self._defaults(gone, new=new),
            removals=self._removals(gone),
            served=self._still_served(),
            wanted=len(self._wanted),
            given=frozenset(pair[0] for pair in self._wanted if pair in self._pairs),
            waiting=tuple(sorted(pair for pair in leaving if self._is_ours(pair) and pair in self._busy)),
            arriving=arriving,
            withheld=withheld,
            held=self._held,
            foreign=self._foreign(leaving),
            problems=(*problems(self._rules, self._people, qos=self._found.qos), *self._forbidden_defaults()),
        )

    def _forbidden_defaults(self) -> Iterator[str]:
        """Where users would have the default QOS of their account, and may not use it."""
        defaults = self._found.default_qos()
        for number, rule in enumerate(self._rules):
            default = defaults.get(rule.account, "")
            members = self._people.members(rule.group) or ()
            given = {self._wanted[user, rule.account].qos for user in members} if default and rule.qos else set()
            lacking = sorted(each for each in given if each.qos and not each.default and default not in each.qos)
            if lacking:
                yield (
                    f"accounting.userAccounts.rules[{number}].defaultQos: account {rule.account} has the default QOS {default}, "
                    "which these users may not use, so their jobs have to name one. Set defaultQos to one of "
                    f"{', '.join(lacking[0].qos)}, or add {default} to qos"
                )

    def _is_settled(self, user: str) -> bool:
        return self._settled is None or user in self._settled

    def _is_ours(self, pair: Pair) -> bool:
        return ours(self._pairs.get(pair, ()), qos=self._found.qos)

    def _differs(self, pair: Pair, want: Wanted) -> bool:
        rows = self._pairs.get(pair, ())
        return want.usable and any(row.comment.strip() != want.qos.mark for row in rows)

    def _has_left(self, pair: Pair) -> bool:
        """Whether the user is there, and surely in none of the groups that give the account."""
        user, account = pair
        return (
            pair not in self._wanted
            and self._people.complete
            and user in self._people.users
            and account not in self._unsure
        )

    def _still_served(self) -> frozenset[Pair]:
        there = {pair for pair in self._wanted if pair in self._pairs}
        return frozenset(there | {pair for pair in self._served if not self._has_left(pair)})

    def _foreign(self, leaving: Iterable[Pair]) -> tuple[Pair, ...]:
        """Only those that carry our mark, or that a rule speaks of: all others are nobody's business here."""
        left = {pair for pair in leaving if any(marked(row.comment) is not None for row in self._pairs[pair])}
        differing = {pair for pair, want in self._wanted.items() if self._differs(pair, want)}
        return tuple(sorted(pair for pair in left | differing if not self._is_ours(pair)))

    def _additions(self, new: Iterable[Pair]) -> tuple[Addition, ...]:
        """The default account first, so that slurmdbd has no reason to choose one."""
        first = self._first_accounts(new)
        keyed = sorted(
            (first.get(user) != account, account, self._wanted[user, account].qos, user) for user, account in new
        )
        return tuple(
            Addition(account=account, qos=qos, is_default=not later, users=tuple(row[3] for row in rows))
            for (later, account, qos), rows in groupby(keyed, key=lambda row: row[:3])
        )

    def _first_accounts(self, new: Iterable[Pair]) -> dict[str, str]:
        """The default account of those who have none yet."""
        owners = {user for user, _ in self._pairs}
        first: dict[str, str] = {}
        for user, account in sorted(new, key=self._rank):
            if user not in owners:
                first.setdefault(user, account)
        return first

    def _rank(self, pair: Pair) -> tuple[int, str]:
        """Accounts in the order of the rules, all others after them."""
        return self._order.get(pair[1], len(self._order)), pair[1]

    def _changes(self, pairs: Iterable[Pair]) -> tuple[Change, ...]:
        keyed = sorted(
            (account, self._wanted[user, account].qos, self._has_chosen(user, account), user) for user, account in pairs
        )
        return tuple(
            Change(
                account=account,
                qos=qos,
                associations={row[3]: self._id(row[3], account) for row in rows},
                keeps_default=chosen,
            )
            for (account, qos, chosen), rows in groupby(keyed, key=lambda row: row[:3])
        )

    def _has_chosen(self, user: str, account: str) -> bool:
        """Whether the user has another default QOS than we gave, and may keep it."""
        (row,) = self._pairs[user, account]
        qos, said = self._found.qos, marked(row.comment) or UserQosNames()
        allowed = {qos[name] for name in self._wanted[user, account].qos.qos}
        return row.default_qos != qos.get(said.default, 0) and row.default_qos in allowed

    def _removals(self, pairs: Iterable[Pair]) -> tuple[Removal, ...]:
        """The default accounts last: of somebody who loses all of them slurmdbd removes no other one before."""
        keyed = sorted((self._is_default(user, account), account, user) for user, account in pairs)
        return tuple(
            Removal(account=account, associations={row[2]: self._id(row[2], account) for row in rows})
            for (_, account), rows in groupby(keyed, key=lambda row: row[:2])
        )

    def _defaults(self, gone: Collection[Pair], *, new: Iterable[Pair]) -> tuple[NewDefault, ...]:
        """For those whose default account goes: slurmdbd does not remove that of somebody who has others."""
        staying = (self._pairs.keys() - set(gone)) | set(new)
        choices: dict[str, str] = {}
        for user, account in sorted(staying, key=self._rank):
            choices.setdefault(user, account)
        losing = {user for user, account in gone if self._is_default(user, account)}
        keyed = sorted((choices[user], user) for user in losing if user in choices)
        return tuple(
            NewDefault(account=account, users=tuple(user for _, user in rows))
            for account, rows in groupby(keyed, key=lambda row: row[0])
        )

    def _is_default(self, user: str, account: str) -> bool:
        return any(row.is_default for row in self._pairs[user, account])

    def _id(self, user: str, account: str) -> int:
        (row,) = self._pairs[user, account]
        return row.id


def _too_many(lost: int, *, of: int) -> bool:
    return lost > FEW and lost * 2 > of


def wanted(rules: Iterable[AccountRule], people: People, *, qos: Mapping[str, int]) -> dict[Pair, Wanted]:
    """What the rules say, by user and account.

    Of several rules for one account the QOS add up; a rule that names none adds none. The first default counts.
    """
    all_rules = tuple(rules)
    applying: dict[Pair, tuple[int, ...]] = {}
    for number, rule in enumerate(all_rules):
        for user in people.members(rule.group) or ():
            pair = user, rule.account
            applying[pair] = (*applying.get(pair, ()), number)
    # Thousands of users share a few combinations.
    merged = {
        numbers: _merged([all_rules[number] for number in numbers], qos=qos) for numbers in set(applying.values())
    }
    return {pair: merged[numbers] for pair, numbers in applying.items()}


def _merged(rules: Collection[AccountRule], *, qos: Mapping[str, int]) -> Wanted:
    default = next((rule.default_qos for rule in rules if rule.default_qos and rule.default_qos in qos), "")
    names = {name for rule in rules for name in rule.qos if name in qos}
    allowed = names | ({default} if names and default else set())
    usable = any(not rule.qos or not qos.keys().isdisjoint(rule.qos) for rule in rules)
    return Wanted(qos=UserQosNames(qos=tuple(sorted(allowed)), default=default), usable=usable)


def problems(rules: Iterable[AccountRule], people: People, *, qos: Mapping[str, int]) -> tuple[str, ...]:
    """What a person has to put right."""
    found = []
    for number, rule in enumerate(rules):
        at = f"accounting.userAccounts.rules[{number}]"
        if rule.group and people.members(rule.group) is None and people.complete:
            found.append(f"{at}.group: there is no group {rule.group}; nobody gets account {rule.account} by this rule")
        named = dict.fromkeys((*rule.qos, *((rule.default_qos,) if rule.default_qos else ())))
        if lacking := [name for name in named if name not in qos]:
            nobody = bool(rule.qos) and qos.keys().isdisjoint(rule.qos)
            left = "nobody is added by this rule" if nobody else "the rest of the rule applies"
            words = f"slurmdbd has no QOS {', '.join(lacking)}; {left}. Add it: sacctmgr add qos {lacking[0]}"
            found.append(f"{at}.qos: {words}")
    return tuple(found)
