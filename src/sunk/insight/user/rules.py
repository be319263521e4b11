"""Which accounts the values give to a person (`accounting.userAccounts.rules`), and whether Slurm has them."""

from collections.abc import Collection

from msgspec import Struct

from sunk.insight.user.person import Person
from sunk.insight.user.slurm import SlurmView
from sunk.model.cluster.daemons import Accounting

EVERY_REFUSING = frozenset({"associations", "limits", "qos", "safe", "wckeys", "all"})
"""Words of `accounting.enforce` with which a job needs an association: some of them imply the first."""


class RuleView(Struct, frozen=True):
    """One rule, and what it means for this person."""

    number: int
    """Its place in the list, from 0, as in the path of the value."""
    account: str
    group: str
    """Empty: every user."""
    applies: bool
    made: bool | None = None
    """Whether Slurm has the association; None if the rule does not apply or Slurm was not asked."""
    removed: bool = False
    """It was there, and somebody has removed it: the syncer does not create it again."""

    @property
    def path(self) -> str:
        return f"accounting.userAccounts.rules[{self.number}]"


def rules_for(
    person: Person | None, accounting: Accounting, slurm: SlurmView, *, noted: Collection[str] = ()
) -> tuple[RuleView, ...]:
    """`noted` are the accounts in which the syncer has seen the person."""
    held = None if slurm.associations is None else {one.account for one in slurm.associations}
    views = []
    for number, rule in enumerate(accounting.user_accounts.rules):
        applies = person is not None and (not rule.group or person.is_in(rule.group))
        made = rule.account in held if applies and held is not None else None
        removed = made is False and rule.account in noted
        views.append(RuleView(number, rule.account, rule.group, applies=applies, made=made, removed=removed))
    return tuple(views)


def enforced(accounting: Accounting) -> bool:
    """Whether a job without an association is refused."""
    return accounting.enabled and bool(EVERY_REFUSING & set(accounting.enforce.split(",")))
