"""What is to be done about a NodeSet, decided on one survey and nothing else."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from sunk.model import names
from sunk.objects.members import NodeSet
from sunk.operator.nodeset.decide.membership import Candidate, Roster, Wish, roster
from sunk.operator.nodeset.decide.rollout import outdated
from sunk.operator.nodeset.decide.upkeep import Moment, Rules, Upkeep, upkeep
from sunk.operator.nodeset.observe.snapshot import Survey

_LONGEST_NUMBER: Final = 9
"""Digits of a number of members: Python refuses to read one of thousands."""


class Plan(Struct, frozen=True):
    roster: Roster
    pods: Upkeep
    joins: tuple[Candidate, ...]
    """Those who join now: some of the roster's, where they are many."""
    strays: tuple[str, ...]
    """Nodes that carry our claim and are nobody's."""
    finished: bool
    """The set is deleted, and nothing is left of it."""


def plan(  # noqa: PLR0913 - one for each thing that a decision depends on
    owner: NodeSet, survey: Survey, *, revision: str, usable: bool, lot: int, moment: Moment
) -> Plan:
    """Decide. While no Pod can be made from the template (not `usable`), none is, and none is given up for another."""
    wish = wish_of(owner, now=moment.now)
    found = roster(survey.members, survey.candidates if usable else (), wish)
    old = (
        outdated(found.members, wanted=revision, strategy=owner.spec.update_strategy, desired=max(found.desired, 1))
        if usable
        else ()
    )
    # Where no Slurm cluster is named nobody could say that a Pod never ran, and the kubelet's word has to do.
    rules = Rules(moment, forced=wish.forced, slurm=bool(owner.spec.cluster))
    pods = upkeep(found.members, outdated={member.entry.name for member in old}, rules=rules)
    if not usable:
        pods = Upkeep(mark=pods.mark, remove=pods.remove, describe=pods.describe, ask=pods.ask)
    joins = found.joins[:lot]
    strays = tuple(sorted(found.members.without_place(survey.claimed) - {one.node for one in found.joins}))
    finished = wish.deleted and not found.members and not strays and not found.dropped
    return Plan(found, pods=pods, joins=joins, strays=strays, finished=finished)


def wish_of(owner: NodeSet, *, now: datetime | None = None) -> Wish:
    marks = owner.metadata.annotations
    accepted = marks.get(names.ACCEPT_LOSS, "")
    return Wish(
        replicas=owner.spec.replicas,
        deleted=owner.metadata.deletion_timestamp is not None,
        forced=marks.get(names.FORCE_DELETION) == "true",
        changed=owner.metadata.generation != owner.status.observed_generation,
        accepted=int(accepted) if accepted.isdecimal() and len(accepted) <= _LONGEST_NUMBER else 0,
        now=None if now is None else now.replace(microsecond=0),
    )
