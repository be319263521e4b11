"""The NodeSet controller: reads, decides, and carries out.

One reconcile takes a survey of the stores, has `plan` decide on it, and writes, in an order in which every place to die
in is one to go on from:

1. Nodes that join are claimed. Of two sets that want a Node only one gets it.
2. Slices say who is a member, and Pods of new members are made. The name is decided by then, and both carry it.
3. Pods are marked, unmarked, deleted; each delete with the uid and resourceVersion that it was decided on.
4. Nodes that are nobody's any more lose the claim.
5. The status says what was found, and which generation of the spec that was about.

A claim without an entry, an entry without a Pod and a Pod without an entry are all found again by the next survey.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself, owner
from sunk.kube.resource import Key, Record
from sunk.model import names
from sunk.model.nodeset import NODESET
from sunk.objects.members import NODESLICES, REVISIONS, NodeSet, NodeSlice, by_owner
from sunk.operator.fleet import fleet
from sunk.operator.keptdrains import kept_drains
from sunk.operator.nodeset.act.executor import Deeds
from sunk.operator.nodeset.act.podbuilder import Moulds
from sunk.operator.nodeset.decide.plan import plan
from sunk.operator.nodeset.decide.upkeep import Moment
from sunk.operator.nodeset.observe.snapshot import Census
from sunk.operator.nodeset.observe.triggers import Attention
from sunk.service.part import Part, Setting
from sunk.service.scoped import Scoped

log = logging.getLogger(__name__)

LOT: Final = 500
"""So many join in one reconcile: after that the world is looked at again."""
AGAIN: Final = 0.05
MENDED: Final = 30.0
"""Seconds until a look at whether somebody has mended what no event tells of: a class that was missing, a name in use."""
_OURS: Final = f"{names.MANAGED_BY}=sunk"


def nodesets(setting: Setting, *, cordon_reason: str = names.CORDON_REASON) -> Part:
    """Build the part of the operator that looks after NodeSets."""
    shared = setting.once(fleet)
    nodes, pods, sets = shared.nodes, shared.pods, shared.sets
    slices = Scoped(setting, NODESLICES, indexes={"owner": by_owner, "node": by_member})
    revisions = Scoped(setting, REVISIONS, labels=_OURS, indexes={"owner": by_owner})
    census = Census(sets=sets, slices=slices, nodes=nodes, pods=pods, now=setting.client.clock.now)

    def moment() -> Moment:
        now = setting.client.clock.now()
        return Moment(now, since=now - timedelta(seconds=asyncio.get_running_loop().time() - controller.began))

    deeds = Deeds(
        setting,
        nodes=nodes,
        pods=pods,
        sets=sets,
        slices=slices,
        revisions=revisions,
        census=census,
        cordon_reason=cordon_reason,
        moment=moment,
    )
    keeper = Keeper(census=census, moulds=Moulds(setting.client), deeds=deeds, sets=sets, moment=moment)
    for one in sets.collections:
        one.store.subscribe(keeper.forget)
    of_set = owner(NODESET.name)
    sources: list[Source[Any, Key]] = [Source(one.store, itself) for one in sets.collections]
    sources += [Source(one.store, of_set) for one in slices.collections]
    read: tuple[Collection[Any], ...] = (*revisions.collections, *setting.once(kept_drains).collections)
    sources += [Source(one.store, _nobody) for one in read]
    sources += [Source(pods.store, of_set), Source(nodes.store, _nobody)]
    effort = Effort(workers=setting.workers, patience=300.0)
    controller: Controller[Key] = Controller("nodesets", keeper.reconcile, sources=sources, effort=effort)
    Attention(sets, look=controller.enqueue).listen(nodes=nodes.store, pods=pods.store)
    follows: tuple[Collection[Any], ...] = (nodes, pods, *sets.collections, *slices.collections, *read)
    return Part("nodesets", follows=follows, controllers=(controller,))


class Keeper:
    """Brings one NodeSet at a time to what it should be."""

    def __init__(
        self, *, census: Census, moulds: Moulds, deeds: Deeds, sets: Scoped[NodeSet], moment: Callable[[], Moment]
    ) -> None:
        self._census = census
        self._moulds = moulds
        self._deeds = deeds
        self._sets = sets
        self._moment = moment

    async def reconcile(self, key: Key) -> Requeue | None:
        found = self._sets.get(key)
        if found is None:
            return None
        found = await self._deeds.guarded(found)
        prepared = await self._moulds.of(found)
        if not _is_same(found, self._sets.get(key)):
            return None  # it has changed while the template was tried, so the next look is due already
        survey = self._census.take(found, prepared.demand)
        usable, moment = not prepared.problem, self._moment()
        todo = plan(found, survey, revision=prepared.revision, usable=usable, lot=LOT, moment=moment)
        if todo.finished:
            await self._deeds.let_go(found, survey.slices)
            return None
        waiting = await self._deeds.carry_out(found, todo, survey=survey, prepared=prepared)
        waits = [survey.wait, waiting, MENDED if prepared.problem or survey.refused else None]
        waits.append(AGAIN if len(todo.joins) < len(todo.roster.joins) else None)
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return None if soonest is None else Requeue(after=soonest)

    def forget(self, key: Key, before: NodeSet | None, after: NodeSet | None) -> None:
        """Remember nothing of a set that is no more. Told by the store, since it may end while another process leads."""
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._moulds.forget(key)
            self._census.forget(before.metadata.uid)


def _is_same(one: NodeSet, other: NodeSet | None) -> bool:
    return other is not None and one.metadata.resource_version == other.metadata.resource_version


def by_member(one: NodeSlice) -> tuple[str, ...]:
    return tuple(entry.node for entry in one.spec.entries)


def _nobody(_: Record) -> tuple[Key, ...]:
    return ()
