"""What is to be done about a NodeSet, decided on one snapshot and nothing else."""

from datetime import datetime

from msgspec import Struct

from sunk.model import names
from sunk.model.loss import accepted_loss
from sunk.objects.nodesets import NodeSet
from sunk.operator.nodeset.decide.membership import Intent, Membership, decide_membership
from sunk.operator.nodeset.decide.podactions import Moment, PodActions, RemovalRules, outdated, pod_actions
from sunk.operator.nodeset.observe.snapshot import Candidate, Snapshot


class NodeSetPlan(Struct, frozen=True):
    membership: Membership
    pods: PodActions
    joins: tuple[Candidate, ...]
    """Those who join now: some of the membership's, where they are many."""
    stray_nodes: tuple[str, ...]
    """Nodes that carry our claim and are nobody's."""
    finished: bool
    """The set is deleted, and nothing is left of it."""


def plan(  # noqa: PLR0913 - one for each thing that a decision depends on
    owner: NodeSet, snapshot: Snapshot, *, revision: str, usable: bool, batch: int, moment: Moment
) -> NodeSetPlan:
    """Decide. While no Pod can be made from the template (not `usable`), none is, and none is given up for another."""
    intent = intent_of(owner, now=moment.now)
    found = decide_membership(snapshot.members, snapshot.candidates if usable else (), intent)
    old = (
        outdated(found.members, wanted=revision, strategy=owner.spec.update_strategy, desired=max(found.desired, 1))
        if usable
        else ()
    )
    # Where no Slurm cluster is named nobody could say that a Pod never ran, and the kubelet's word has to do.
    rules = RemovalRules(moment, forced=intent.forced, slurm=bool(owner.spec.cluster))
    pods = pod_actions(found.members, outdated={member.entry.name for member in old}, rules=rules)
    if not usable:
        pods = PodActions(mark=pods.mark, remove=pods.remove, update_features=pods.update_features, renew=pods.renew)
    joins = found.joins[:batch]
    stray_nodes = tuple(sorted(found.members.without_place(snapshot.claimed) - {one.node for one in found.joins}))
    finished = intent.deleted and not found.members and not stray_nodes and not found.dropped
    return NodeSetPlan(found, pods=pods, joins=joins, stray_nodes=stray_nodes, finished=finished)


def intent_of(owner: NodeSet, *, now: datetime | None = None) -> Intent:
    marks = owner.metadata.annotations
    return Intent(
        replicas=owner.spec.replicas,
        deleted=owner.metadata.deletion_timestamp is not None,
        forced=marks.get(names.FORCE_DELETION) == "true",
        changed=owner.metadata.generation != owner.status.observed_generation,
        accepted=accepted_loss(marks),
        now=None if now is None else now.replace(microsecond=0),
    )
