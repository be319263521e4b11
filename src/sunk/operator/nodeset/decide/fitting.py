"""Whether Nodes fit a demand, each looked at once.

The question is asked at every change, of thousands of Nodes, and most of them are as they were. An answer is kept
together with the very records that it was found on; a record is never changed, so while it is the same object the
answer is too.
"""

from collections.abc import Callable, Set as AbstractSet

from msgspec import Struct

from sunk.kube.core import Node, Pod
from sunk.model.contract.features import features
from sunk.objects.members import NodeSet, owner_uid
from sunk.objects.standing import finished
from sunk.operator.nodeset.act.claims import claim_of
from sunk.operator.nodeset.decide.feasible import UNREADABLE, Demand, occupancy, unfit, unfit_to_join


class _Looked(Struct, gc=False):
    """A Node as it was looked at, and what was found: why it does not fit, and whether it may join beside these Pods."""

    node: Node
    why: str
    beside: tuple[Pod, ...] | None = None
    against: str | None = None
    """Why it may not join; None if it may."""


class Fitting:
    """What is known of the Nodes for one NodeSet. Without a demand every Node fits and none may join.

    `exists` says whether there is a NodeSet of this uid in this namespace.
    """

    def __init__(self, owner: NodeSet, demand: Demand | None, *, exists: Callable[[str, str], bool]) -> None:
        self.demand = demand
        self.uid = owner.metadata.uid
        self.namespace = owner.metadata.namespace
        self.cluster = owner.spec.cluster
        self._exists = exists
        self._features = owner.spec.features
        self._known: dict[str, _Looked] = {}
        self._closed: set[str] = set()
        self._unreadable: dict[str, str] = {}

    @property
    def closed(self) -> AbstractSet[str]:
        """Nodes of which it is known that they may not join as they are."""
        return self._closed

    def is_for(self, owner: NodeSet, demand: Demand | None) -> bool:
        same = self.cluster == owner.spec.cluster and self._features == owner.spec.features
        return same and self.demand is demand

    def features(self, node: Node) -> str:
        """The Slurm features of its Slurm node, as a Pod carries them."""
        return ",".join(features(self._features, node.metadata.labels))

    def why_not(self, node: Node) -> str:
        """Why a member is no longer meant to be one; empty if it is, or if nobody knows."""
        return self._look(node).why

    def may_join(self, node: Node, *, beside: tuple[Pod, ...]) -> bool:
        """Whether it could become a member now, with these Pods on it."""
        found = self._look(node)
        if found.beside != beside:  # quick where they are the same objects
            found.beside, found.against = beside, found.why or self._against(node, beside)
            self._unreadable.pop(node.metadata.name, None)
        if found.against is not None:
            self._closed.add(node.metadata.name)
            if found.against.startswith(UNREADABLE):
                self._unreadable[node.metadata.name] = found.against
        return found.against is None

    @property
    def unreadable(self) -> tuple[tuple[str, str], ...]:
        """Nodes that do not fit because something about them cannot be read, and what."""
        return tuple(sorted(self._unreadable.items()))

    def changed(self, node: str) -> None:
        """Hear that a Node is another, or that other Pods are on it."""
        self._closed.discard(node)
        self._unreadable.pop(node, None)

    def sets_changed(self) -> None:
        """Hear that a NodeSet has come or gone: whose the Pods on the Nodes are has to be asked again."""
        self._closed.clear()
        self._unreadable.clear()
        for looked in self._known.values():
            looked.beside = None

    def forget(self, node: str) -> None:
        self._known.pop(node, None)
        self._closed.discard(node)
        self._unreadable.pop(node, None)

    def _look(self, node: Node) -> _Looked:
        known = self._known.get(node.metadata.name)
        if known is None or known.node is not node:
            why = "" if self.demand is None else unfit(node, self.demand) or ""
            known = self._known[node.metadata.name] = _Looked(node, why)
        return known

    def _against(self, node: Node, beside: tuple[Pod, ...]) -> str | None:
        # The Pod of another NodeSet may hold jobs, also where the Node has lost the claim by registering anew.
        others = [pod for pod in beside if (pod.metadata.namespace, owner_uid(pod)) != (self.namespace, self.uid)]
        if self.demand is None or any(self._is_of_another(node, pod) for pod in others):
            return "it is another NodeSet's, or nobody knows what is asked of it"
        return unfit_to_join(node, self.demand, taken=occupancy(others))

    def _is_of_another(self, node: Node, pod: Pod) -> bool:
        """Whoever may create a Pod may write any owner into it, so that owner has to exist or to claim the Node."""
        uid = owner_uid(pod)
        if uid in {"", self.uid} or finished(pod):
            return False
        return claim_of(node) == uid or self._exists(pod.metadata.namespace, uid)
