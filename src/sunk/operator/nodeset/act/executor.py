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
from sunk.objects.computepods import restart_asked
from sunk.objects.nodesets import ControllerRevision, NodeSet, NodeSlice, claim_of
from sunk.operator.keptdrains import kept_drains
from sunk.operator.nodeset.act.batches import in_parallel, slow_start
from sunk.operator.nodeset.act.claims import claim, release
from sunk.operator.nodeset.act.events import NodeSetEvents
from sunk.operator.nodeset.act.podbuilder import PreparedTemplate
from sunk.operator.nodeset.act.podcontrol import NameTaken, PodControl
from sunk.operator.nodeset.act.ratelimit import ClearanceRenewals, RecreateBackoff
from sunk.operator.nodeset.act.revisions import RevisionHistory
from sunk.operator.nodeset.act.slicecontrol import SliceControl
from sunk.operator.nodeset.decide.membership import Membership
from sunk.operator.nodeset.decide.plan import NodeSetPlan
from sunk.operator.nodeset.decide.podactions import UPDATE, Moment
from sunk.operator.nodeset.decide.slices import SliceWrites, added, shards, spread
from sunk.operator.nodeset.decide.status import Findings, status
from sunk.operator.nodeset.observe.members import Member
from sunk.operator.nodeset.observe.snapshot import Candidate, Observer, Snapshot
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

CONCURRENCY: Final = 32


class Executor:
    """Executes plans. What goes wrong on the way is collected and raised at the end."""

    def __init__(  # noqa: PLR0913 - one for each kind of object
        self,
        setting: Setting,
        *,
        nodes: Collection[Node],
        pods: Collection[Pod],
        sets: Scoped[NodeSet],
        slices: Scoped[NodeSlice],
        revisions: Scoped[ControllerRevision],
        observer: Observer,
        cordon_reason: str,
        moment: Callable[[], Moment],
    ) -> None:
        self._nodes = nodes
        self._sets = sets
        self._observer = observer
        self._slice_control = SliceControl(slices)
        self._history = RevisionHistory(revisions)
        self._pod_control = PodControl(
            pods=pods,
            nodes=nodes,
            drains=setting.once(kept_drains),
            cordon_reason=cordon_reason,
            may_write=setting.may_write,
        )
        self._backoff = RecreateBackoff()
        self._renewals = ClearanceRenewals()
        self._moment = moment
        self._events = NodeSetEvents(setting.recorder)

    async def ensure_finalizer(self, owner: NodeSet) -> NodeSet:
        """Make sure that the set cannot vanish before its nodes have left."""
        if owner.metadata.deletion_timestamp or names.FINALIZER in owner.metadata.finalizers:
            return owner
        return await self._finalizers(owner, (*owner.metadata.finalizers, names.FINALIZER))

    async def finish_deletion(self, owner: NodeSet, slices: Sequence[NodeSlice]) -> None:
        """Let a deleted set vanish, and its slices before it."""
        await self._slice_control.close(slices)
        if names.FINALIZER in owner.metadata.finalizers:
            left = tuple(name for name in owner.metadata.finalizers if name != names.FINALIZER)
            await self._finalizers(owner, left)

    async def _finalizers(self, owner: NodeSet, wanted: tuple[str, ...]) -> NodeSet:
        at = {"uid": owner.metadata.uid, "resourceVersion": owner.metadata.resource_version}
        change = Merge({"metadata": at | {"finalizers": list(wanted)}})
        return await self._sets.of(owner.key).patch(owner.key, change)

    async def execute(
        self, owner: NodeSet, plan: NodeSetPlan, *, snapshot: Snapshot, prepared: PreparedTemplate
    ) -> float | None:
        """Do it. Returns in how many seconds there is more to do, if it is known; raises what went wrong, at the end."""
        trouble: list[Exception] = []
        with self._observer.reserve_names(owner, [candidate.name for candidate in plan.joins]):
            trouble += await self._keep_revision(owner, snapshot, prepared)
            joined = await self._claim_nodes(owner, plan, trouble)
            slices = await self._write_slices_and_pods(
                owner, plan, snapshot=snapshot, prepared=prepared, joined=joined, trouble=trouble
            )
        wait = await self._apply_pod_actions(owner, plan, trouble)
        if slices is not None:  # or else a Node would be free while it still is in a slice of ours
            trouble += await self._release_nodes(owner, plan)
        said = refusals(trouble)
        await self._report(
            owner, plan, snapshot=snapshot, prepared=prepared, joined=joined, slices=slices, trouble=said
        )
        if trouble:
            raise ExceptionGroup(f"NodeSet {owner.key}", trouble)
        return wait

    async def _keep_revision(self, owner: NodeSet, snapshot: Snapshot, prepared: PreparedTemplate) -> list[Exception]:
        """Keep the template, where it is one, to go back to."""
        if prepared.builder is None:
            return []
        pods = (member.pod for member in snapshot.members if member.pod is not None)
        return await in_parallel((pods,), lambda pods: self._history.keep(owner, prepared.revision, pods=pods))

    # Members

    async def _claim_nodes(self, owner: NodeSet, plan: NodeSetPlan, trouble: list[Exception]) -> list[Entry]:
        """Claim the Nodes that join, and those of members that have lost it; give the entries of the former."""
        joined: list[Entry] = []

        async def join(candidate: Candidate) -> None:
            if await self._claim(owner, node=candidate.node, name=candidate.name):
                joined.append(Entry(name=candidate.name, node=candidate.node))

        async def again(member: Member) -> None:
            await self._claim(owner, node=member.entry.node, name=member.entry.name)

        trouble += await slow_start(plan.joins, join)
        # Also of those that leave: as long as one is a member, nobody else may have its Node.
        trouble += await in_parallel(plan.membership.members.unclaimed, again, most=CONCURRENCY)
        return joined

    async def _claim(self, owner: NodeSet, *, node: str, name: str) -> bool:
        there = self._nodes.store.get(Key("", node))
        if there is not None and claim_of(there) not in {"", owner.metadata.uid}:
            # The other may be a set that somebody who led before us has seen, and we have not.
            await self._refresh_sets()
        observer, uid = self._observer, owner.metadata.uid

        def is_free(found: Node) -> bool:
            """Whether it is free by now: somebody may have got it, and lost the claim again, since the snapshot."""
            return observer.is_free(found) and not observer.is_member_of_another(found, uid=uid)

        return await claim(self._nodes, node, owner=owner, name=name, free=is_free)

    async def _refresh_sets(self) -> None:
        for collection in self._sets.collections:
            await collection.catch_up()

    async def _write_slices_and_pods(  # noqa: PLR0913 - one for each thing that is needed
        self,
        owner: NodeSet,
        plan: NodeSetPlan,
        *,
        snapshot: Snapshot,
        prepared: PreparedTemplate,
        joined: list[Entry],
        trouble: list[Exception],
    ) -> int | None:
        """Write the slices and make Pods, at the same time: neither needs the other, and a Node is soon of use.

        Returns how many slices there are; none if they could not be written.
        """
        slices: int | None = None

        async def write() -> None:
            nonlocal slices
            slices = await self._slice_control.write(owner, snapshot.slices, writes(snapshot, plan.membership, joined))

        async def make() -> None:
            if prepared.builder is not None:
                trouble.extend(await self._pod_control.create(owner, (*plan.pods.create, *joined), prepared.builder))

        trouble += await in_parallel((make, write), lambda act: act())
        return slices

    async def _release_nodes(self, owner: NodeSet, plan: NodeSetPlan) -> list[Exception]:
        async def give_back(node: str) -> None:
            await release(self._nodes, node, owner=owner)

        return await in_parallel(plan.stray_nodes, give_back, most=CONCURRENCY)

    # Pods

    async def _apply_pod_actions(self, owner: NodeSet, plan: NodeSetPlan, trouble: list[Exception]) -> float | None:
        pods = plan.pods
        trouble += await self._pod_control.mark(pods.mark)
        for removal in pods.remove:
            if removal.forced:
                self._events.forced(owner, removal)
        trouble += await self._pod_control.remove(pods.remove, self._moment)
        renew, later = self._renewals.due(pods.renew)
        for pod in renew:
            self._events.asked_again(owner, pod.metadata.name, self._moment().clearance_fault(pod))
        trouble += await self._pod_control.renew_clearances(renew)
        recreate, wait = self._backoff.due(pods.recreate)
        for pod in recreate:
            self._backoff.replaced(pod.key)
            ended = pod.status.message or pod.status.reason or pod.status.phase
            self._events.recreated(owner, pod.metadata.name, restart_asked(pod, now=self._moment().now) or ended)
        trouble += await self._pod_control.recreate(recreate, self._moment)
        trouble += await self._pod_control.update_features(pods.update_features)
        return min((seconds for seconds in (wait, later) if seconds is not None), default=None)

    # What people see

    async def _report(  # noqa: PLR0913 - as above
        self,
        owner: NodeSet,
        plan: NodeSetPlan,
        *,
        snapshot: Snapshot,
        prepared: PreparedTemplate,
        joined: list[Entry],
        slices: int | None,
        trouble: str,
    ) -> None:
        self._events.joined(owner, [entry.name for entry in joined])
        self._events.left(owner, [entry.name for entry in plan.membership.dropped])
        before = {member.entry.name for member in snapshot.members.leaving}
        leaving = [member for member in plan.membership.members.leaving if member.entry.name not in before]
        self._events.leaving(owner, leaving)
        self._events.updating(owner, [mark.pod.metadata.name for mark in plan.pods.mark if mark.reason == UPDATE])
        findings = Findings(
            revision=prepared.revision,
            problem=prepared.problem,
            refused=snapshot.refused,
            unreadable=snapshot.unreadable,
            blocked=snapshot.blocked,
            claimed_by=snapshot.claimed_by,
            slices=len(snapshot.slices) if slices is None else slices,
            done=slices is not None,
            trouble=trouble,
        )
        self._events.findings(owner, plan.membership, findings)
        found = status(owner.metadata, before=owner.status, membership=plan.membership, findings=findings)
        if found != owner.status:
            await self._sets.of(owner.key).patch(owner.key, Merge({"status": to_builtins(found)}), status=True)


def writes(snapshot: Snapshot, membership: Membership, joined: Sequence[Entry]) -> SliceWrites:
    """How the slices get to these members. Mostly all stay as they are, which then need not be looked for."""
    present = shards(snapshot.slices)
    if snapshot.recorded and membership.members is snapshot.members:
        return added(present, joined)
    return spread(present, [*(member.entry for member in membership.members), *joined])


def refusals(trouble: Iterable[Exception]) -> str:
    """The first refusal that only a person can do something about, say by a quota; what passes by itself is not told."""
    for one in trouble:
        if isinstance(one, (Invalid, Forbidden)):
            return one.message
        if isinstance(one, NameTaken):
            return str(one)
    return ""
