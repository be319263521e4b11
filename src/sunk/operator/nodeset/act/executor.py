"""Carry out what was decided about a NodeSet, in the order that `sunk.operator.nodeset.controller` explains."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import to_builtins

from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import Node, Pod
from sunk.kube.errors import Forbidden, Invalid
from sunk.kube.resource import Key
from sunk.model import names
from sunk.model.nodeslice import Entry
from sunk.objects.members import ControllerRevision, NodeSet, NodeSlice
from sunk.objects.standing import restart_asked
from sunk.operator.keptdrains import kept_drains
from sunk.operator.nodeset.act.batches import growing, together
from sunk.operator.nodeset.act.claims import claim, claim_of, release
from sunk.operator.nodeset.act.events import Notes
from sunk.operator.nodeset.act.history import History
from sunk.operator.nodeset.act.podbuilder import Prepared
from sunk.operator.nodeset.act.podcontrol import Crew, NameTaken
from sunk.operator.nodeset.act.renewal import Renewals
from sunk.operator.nodeset.act.slicecontrol import Ledger
from sunk.operator.nodeset.decide.healing import Healing
from sunk.operator.nodeset.decide.membership import Candidate, Roster
from sunk.operator.nodeset.decide.plan import Plan
from sunk.operator.nodeset.decide.slices import Writes, added, shards, spread
from sunk.operator.nodeset.decide.status import Findings, status
from sunk.operator.nodeset.decide.upkeep import UPDATE, Moment
from sunk.operator.nodeset.observe.member import Member
from sunk.operator.nodeset.observe.snapshot import Census, Survey
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

AT_ONCE: Final = 32


class Deeds:
    def __init__(  # noqa: PLR0913 - one for each kind of object
        self,
        setting: Setting,
        *,
        nodes: Collection[Node],
        pods: Collection[Pod],
        sets: Scoped[NodeSet],
        slices: Scoped[NodeSlice],
        revisions: Scoped[ControllerRevision],
        census: Census,
        cordon_reason: str,
        moment: Callable[[], Moment],
    ) -> None:
        self._nodes = nodes
        self._sets = sets
        self._census = census
        self._ledger = Ledger(slices)
        self._history = History(revisions)
        self._crew = Crew(
            pods=pods,
            nodes=nodes,
            drains=setting.once(kept_drains),
            cordon_reason=cordon_reason,
            may_write=setting.may_write,
        )
        self._healing = Healing()
        self._renewals = Renewals()
        self._moment = moment
        self._notes = Notes(setting.recorder)

    async def guarded(self, owner: NodeSet) -> NodeSet:
        """Make sure that the set cannot vanish before its nodes have left."""
        if owner.metadata.deletion_timestamp or names.FINALIZER in owner.metadata.finalizers:
            return owner
        return await self._finalizers(owner, (*owner.metadata.finalizers, names.FINALIZER))

    async def let_go(self, owner: NodeSet, slices: Sequence[NodeSlice]) -> None:
        """Let a deleted set vanish, and its slices before it."""
        await self._ledger.close(slices)
        if names.FINALIZER in owner.metadata.finalizers:
            left = tuple(one for one in owner.metadata.finalizers if one != names.FINALIZER)
            await self._finalizers(owner, left)

    async def _finalizers(self, owner: NodeSet, wanted: tuple[str, ...]) -> NodeSet:
        at = {"uid": owner.metadata.uid, "resourceVersion": owner.metadata.resource_version}
        change = Merge({"metadata": at | {"finalizers": list(wanted)}})
        return await self._sets.of(owner.key).patch(owner.key, change)

    async def carry_out(self, owner: NodeSet, plan: Plan, *, survey: Survey, prepared: Prepared) -> float | None:
        """Do it. Returns in how many seconds there is more to do, if it is known; raises what went wrong, at the end."""
        trouble: list[Exception] = []
        with self._census.promised(owner, [one.name for one in plan.joins]):
            trouble += await self._remembered(owner, survey, prepared)
            joined = await self._claimed(owner, plan, trouble)
            slices = await self._written(owner, plan, survey=survey, prepared=prepared, joined=joined, trouble=trouble)
        wait = await self._pods_kept(owner, plan, trouble)
        if slices is not None:  # or else a Node would be free while it still is in a slice of ours
            trouble += await self._released(owner, plan)
        said = refusals(trouble)
        await self._told(owner, plan, survey=survey, prepared=prepared, joined=joined, slices=slices, trouble=said)
        if trouble:
            raise ExceptionGroup(f"NodeSet {owner.key}", trouble)
        return wait

    async def _remembered(self, owner: NodeSet, survey: Survey, prepared: Prepared) -> list[Exception]:
        """Keep the template, where it is one, to go back to."""
        if prepared.mould is None:
            return []
        pods = (member.pod for member in survey.members if member.pod is not None)
        return await together((pods,), lambda pods: self._history.keep(owner, prepared.revision, pods=pods))

    # Members

    async def _claimed(self, owner: NodeSet, plan: Plan, trouble: list[Exception]) -> list[Entry]:
        """Claim the Nodes that join, and those of members that have lost it; give the entries of the former."""
        joined: list[Entry] = []

        async def join(one: Candidate) -> None:
            if await self._claim(owner, node=one.node, name=one.name):
                joined.append(Entry(name=one.name, node=one.node))

        async def again(member: Member) -> None:
            await self._claim(owner, node=member.entry.node, name=member.entry.name)

        trouble += await growing(plan.joins, join)
        # Also of those that leave: as long as one is a member, nobody else may have its Node.
        trouble += await together(plan.roster.members.unclaimed, again, most=AT_ONCE)
        return joined

    async def _claim(self, owner: NodeSet, *, node: str, name: str) -> bool:
        there = self._nodes.store.get(Key("", node))
        if there is not None and claim_of(there) not in {"", owner.metadata.uid}:
            await self._sets_known()  # the other may be a set that somebody who led before us has seen, and we have not
        census, uid = self._census, owner.metadata.uid

        def is_free(found: Node) -> bool:
            """Whether it is free by now: somebody may have got it, and lost the claim again, since the survey."""
            return census.is_free(found) and not census.has_place_in_another(found, uid=uid)

        return await claim(self._nodes, node, owner=owner, name=name, free=is_free)

    async def _sets_known(self) -> None:
        for one in self._sets.collections:
            await one.catch_up()

    async def _written(  # noqa: PLR0913 - one for each thing that is needed
        self,
        owner: NodeSet,
        plan: Plan,
        *,
        survey: Survey,
        prepared: Prepared,
        joined: list[Entry],
        trouble: list[Exception],
    ) -> int | None:
        """Write the slices and make Pods, at the same time: neither needs the other, and a Node is soon of use.

        Returns how many slices there are; none if they could not be written.
        """
        slices: int | None = None

        async def write() -> None:
            nonlocal slices
            slices = await self._ledger.write(owner, survey.slices, writes(survey, plan.roster, joined))

        async def make() -> None:
            if prepared.mould is not None:
                trouble.extend(await self._crew.create(owner, (*plan.pods.create, *joined), prepared.mould))

        trouble += await together((make, write), lambda act: act())
        return slices

    async def _released(self, owner: NodeSet, plan: Plan) -> list[Exception]:
        async def one(node: str) -> None:
            await release(self._nodes, node, owner=owner)

        return await together(plan.strays, one, most=AT_ONCE)

    # Pods

    async def _pods_kept(self, owner: NodeSet, plan: Plan, trouble: list[Exception]) -> float | None:
        pods = plan.pods
        trouble += await self._crew.mark(pods.mark)
        for removal in pods.remove:
            if removal.forced:
                self._notes.forced(owner, removal)
        trouble += await self._crew.remove(pods.remove, self._moment)
        ask, later = self._renewals.due(pods.ask)
        for pod in ask:
            self._notes.asked_again(owner, pod.metadata.name, self._moment().doubts(pod))
        trouble += await self._crew.ask_again(ask)
        heal, wait = self._healing.due(pods.heal)
        for pod in heal:
            self._healing.replaced(pod.key)
            ended = pod.status.message or pod.status.reason or pod.status.phase
            self._notes.healed(owner, pod.metadata.name, restart_asked(pod, now=self._moment().now) or ended)
        trouble += await self._crew.heal(heal, self._moment)
        trouble += await self._crew.describe(pods.describe)
        return min((each for each in (wait, later) if each is not None), default=None)

    # What people see

    async def _told(  # noqa: PLR0913 - as above
        self,
        owner: NodeSet,
        plan: Plan,
        *,
        survey: Survey,
        prepared: Prepared,
        joined: list[Entry],
        slices: int | None,
        trouble: str,
    ) -> None:
        self._notes.joined(owner, [entry.name for entry in joined])
        self._notes.left(owner, [entry.name for entry in plan.roster.dropped])
        before = {member.entry.name for member in survey.members.leaving}
        leaving = [member for member in plan.roster.members.leaving if member.entry.name not in before]
        self._notes.leaving(owner, leaving)
        self._notes.updating(owner, [mark.pod.metadata.name for mark in plan.pods.mark if mark.reason == UPDATE])
        findings = Findings(
            revision=prepared.revision,
            problem=prepared.problem,
            refused=survey.refused,
            unreadable=survey.unreadable,
            blocked=survey.blocked,
            claimed_by=survey.claimed_by,
            slices=len(survey.slices) if slices is None else slices,
            done=slices is not None,
            trouble=trouble,
        )
        self._notes.findings(owner, plan.roster, findings)
        found = status(owner.metadata, before=owner.status, roster=plan.roster, findings=findings)
        if found != owner.status:
            await self._sets.of(owner.key).patch(owner.key, Merge({"status": to_builtins(found)}), status=True)


def writes(survey: Survey, roster: Roster, joined: Sequence[Entry]) -> Writes:
    """How the slices get to these members. Mostly all stay as they are, which then need not be looked for."""
    present = shards(survey.slices)
    if survey.recorded and roster.members is survey.members:
        return added(present, joined)
    return spread(present, [*(member.entry for member in roster.members), *joined])


def refusals(trouble: Iterable[Exception]) -> str:
    """The first refusal that only a person can do something about, say by a quota; what passes by itself is not told."""
    for one in trouble:
        if isinstance(one, (Invalid, Forbidden)):
            return one.message
        if isinstance(one, NameTaken):
            return str(one)
    return ""
