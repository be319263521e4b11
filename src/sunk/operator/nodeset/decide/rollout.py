"""Which Pods of an older template may be replaced now.

Unavailable are members without a Pod, with one that is not ready, or with one that has to go. A ready Pod is taken only
while there are fewer of those than the budget allows, so a replacement that never gets ready stops the rollout. A Pod
that is not ready already costs nothing more, but only within the budget: in an outage all are not ready, and all would
be drained when it ends. One in which nothing can run, say because its image does not exist, is replaced in any case;
or else a broken template could never be mended.
"""

from collections.abc import Iterable
from math import ceil

from sunk.model.nodeset import UpdateStrategy
from sunk.objects.standing import has_run
from sunk.operator.nodeset.decide.membership import first_to_go
from sunk.operator.nodeset.observe.member import Member
from sunk.operator.nodeset.observe.members import company


def budget(strategy: UpdateStrategy, *, desired: int) -> int:
    allowed = strategy.rolling_update.max_unavailable
    if isinstance(allowed, str):
        return max(1, ceil(desired * int(allowed.removesuffix("%")) / 100))
    return allowed


def outdated(members: Iterable[Member], *, wanted: str, strategy: UpdateStrategy, desired: int) -> tuple[Member, ...]:
    """Choose the members whose Pods have to go for another revision: those on their way already, and the next."""
    if strategy.type == "OnDelete":
        return ()
    everyone = company(members)
    room = budget(strategy, desired=desired) - everyone.lacking
    old = [member for member in everyone.not_of(wanted) if member.staying and member.alive]
    chosen = []
    for member in first_to_go(old):
        costs = member.available
        if member.going or _is_empty(member) or (room > 0 if costs else room >= 0):
            chosen.append(member)
            room -= costs
    return tuple(chosen)


def _is_empty(member: Member) -> bool:
    return member.pod is not None and not has_run(member.pod)
