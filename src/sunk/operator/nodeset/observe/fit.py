"""Which Nodes fit a NodeSet, and why others do not.

Two questions. A Node that is to *join* must be one on which the Pod would run now: selected, untainted as far as the
template says, not cordoned, with room for its requests. A Node that is a *member* must only still be meant: a cordon, a
silent kubelet or a full Node ends no membership, since jobs may be running there.

Room is what is left beside Pods that stay when the Node is locked: those of DaemonSets, static ones, and others that
tolerate the lock without bound. Everything else would be evicted and takes nothing.

An amount that cannot be read may be in a Pod or a Node of anybody. It makes that one Node unfit for NodeSets that ask
for that resource, and means nothing to all others.

A toleration with `tolerationSeconds` counts as none for both: the Pod would be evicted with its jobs.

`FitCache` checks each Node once. The question comes at every change, for thousands of Nodes, and most of them are as
they were. An answer is kept together with the very records that it was found on; a record never changes, so while it is
the same object the answer is too.
"""

from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from typing import Final

from msgspec import Struct

from sunk.kube.core import Node, Pod, Taint, Toleration, condition
from sunk.model.contract.features import features
from sunk.model.kubernetes.quantity import ONE, rendered
from sunk.model.kubernetes.selection import NodeSelector, matches
from sunk.model.kubernetes.taints import REPELLING, described, endured, holds_out
from sunk.model.names import LOCK, LOCK_OWNER
from sunk.objects.computepods import finished
from sunk.objects.nodesets import NodeSet, claim_of, owner_uid
from sunk.operator.nodeset.observe.requests import BOUNDLESS, InitContainer, effective, of_others
from sunk.operator.nodeset.observe.template import Template, requests

PODS: Final = "pods"
"""Places for Pods, counted like any other resource: each Pod takes one."""

_KUBERNETES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that come and go with the health of a Node, or while a cloud gets to know it again."""
UNREADABLE: Final = "cannot be read: "
"""What the reason begins with where a Node does not fit because of somebody's nonsense."""
_SHOWN: Final = 40
_MIRROR: Final = "kubernetes.io/config.mirror"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Demand(Struct, frozen=True, gc=False):
    """What the Pods of a template ask of a Node."""

    selector: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    requests: Mapping[str, int] = {}
    """In nano-units, and only what is more than nothing."""


def demand(template: Template) -> Demand:
    wanted = {name: size for name, size in requests(template).items() if size} | {PODS: ONE}
    return Demand(selector=template.selector, tolerations=template.spec.tolerations, requests=wanted)


def unfit(node: Node, demand: Demand) -> str | None:
    """Why a member is no longer meant to be one; none if it is."""
    if not matches(demand.selector, name=node.metadata.name, labels=node.metadata.labels):
        return "the template's required node affinity does not match"
    for taint in node.spec.taints:
        if not taint.key.startswith(_KUBERNETES) and _repels(taint, demand):
            return _repelled(taint)
    return None


def unfit_to_join(node: Node, demand: Demand, *, taken: Mapping[str, int]) -> str | None:
    """Why a Node that is no member cannot become one now; none if it can. `taken` is its `occupancy`."""
    if not matches(demand.selector, name=node.metadata.name, labels=node.metadata.labels):
        return "the template's required node affinity does not match"
    if node.spec.unschedulable:
        return "it is cordoned"
    for taint in node.spec.taints:
        if _repels(taint, demand):
            return _repelled(taint)
    if node.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    return _too_small(node.status.allocatable, demand.requests, taken=taken)


def occupancy(pods: Iterable[Pod]) -> dict[str, int]:
    """What the Pods of a Node take that would stay if it were locked, in nano-units; their number as "pods".

    Compute Pods of the NodeSet that asks are to be left out: they make room for the next one.
    """
    total: dict[str, int] = {}
    for pod in pods:
        if pod.status.phase not in _ENDED and stays(pod):
            for name, size in _taken(pod).items():
                total[name] = total.get(name, 0) + size
            total[PODS] = total.get(PODS, 0) + ONE
    return total


def ready(node: Node) -> bool:
    found = condition(node.status.conditions, "Ready")
    return found is not None and found.status == "True"


def _repels(taint: Taint, demand: Demand) -> bool:
    return taint.effect in REPELLING and taint.key != LOCK and not endured(taint, demand.tolerations)


def _repelled(taint: Taint) -> str:
    bounded = " without tolerationSeconds" if taint.effect == "NoExecute" else ""
    return f"the template needs a toleration for the Node's taint {described(taint)}{bounded}"


def _too_small(allocatable: Mapping[str, str], wanted: Mapping[str, int], *, taken: Mapping[str, int]) -> str | None:
    for name, size in wanted.items():
        there = of_others(allocatable.get(name, 0))
        if there >= BOUNDLESS or taken.get(name, 0) >= BOUNDLESS:
            return unreadable(name, allocatable=allocatable.get(name, "") if there >= BOUNDLESS else None)
        if size > there - taken.get(name, 0):
            left = rendered(max(there - taken.get(name, 0), 0))
            others = " (Pods that will not be evicted use the rest)" if taken.get(name, 0) else ""
            return f"{name}: {rendered(size)} requested, {left} of {rendered(there)} free{others}"
    return None


def unreadable(name: str, *, allocatable: str | None) -> str:
    """Why nobody can say whether a Node has enough of a resource."""
    if allocatable is not None:
        return f"{UNREADABLE}{name}: its allocatable amount {allocatable[:_SHOWN]!r} is not a quantity"
    return f"{UNREADABLE}{name}: a Pod that stays there requests an amount that is not a quantity"


def stays(pod: Pod) -> bool:
    """Whether a lock would leave the Pod where it is, so that it takes room from whoever joins."""
    controller = next((owner for owner in pod.metadata.owner_references if owner.controller), None)
    if controller is not None and controller.kind == "DaemonSet" and controller.api_version.startswith("apps/"):
        return True
    return _MIRROR in pod.metadata.annotations or holds_out(pod.spec.tolerations)


def _taken(pod: Pod) -> dict[str, int]:
    spec = pod.spec
    return effective(
        [one.resources.requests or {} for one in spec.containers],
        init=[
            InitContainer(one.resources.requests or {}, sidecar=one.restart_policy == "Always")
            for one in spec.init_containers
        ],
        whole=spec.resources.requests,
        overhead=spec.overhead,
        read=of_others,
    )


class _Checked(Struct, gc=False):
    """A Node as it was looked at, and what was found: why it does not fit, and whether it may join beside these Pods."""

    node: Node
    why: str
    beside: tuple[Pod, ...] | None = None
    against: str | None = None
    """Why it may not join; None if it may."""


class FitCache:
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
        self._known: dict[str, _Checked] = {}
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
        return self._check(node).why

    def may_join(self, node: Node, *, beside: tuple[Pod, ...]) -> bool:
        """Whether it could become a member now, with these Pods on it."""
        found = self._check(node)
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
        for checked in self._known.values():
            checked.beside = None

    def forget(self, node: str) -> None:
        self._known.pop(node, None)
        self._closed.discard(node)
        self._unreadable.pop(node, None)

    def _check(self, node: Node) -> _Checked:
        known = self._known.get(node.metadata.name)
        if known is None or known.node is not node:
            why = "" if self.demand is None else unfit(node, self.demand) or ""
            known = self._known[node.metadata.name] = _Checked(node, why)
        return known

    def _against(self, node: Node, beside: tuple[Pod, ...]) -> str | None:
        # The Pod of another NodeSet may hold jobs, also where the Node has lost the claim by registering again.
        others = [pod for pod in beside if (pod.metadata.namespace, owner_uid(pod)) != (self.namespace, self.uid)]
        if self.demand is None or any(self._is_of_another(node, pod) for pod in others):
            return "it belongs to another NodeSet, or the template is not valid"
        if claim_of(node) != self.uid and LOCK_OWNER in node.metadata.annotations:
            return "the lock of the NodeSet that it has left is still there"
        return unfit_to_join(node, self.demand, taken=occupancy(others))

    def _is_of_another(self, node: Node, pod: Pod) -> bool:
        """Whoever may create a Pod may write any owner into it, so that owner has to exist or to claim the Node."""
        uid = owner_uid(pod)
        if uid in {"", self.uid} or finished(pod):
            return False
        return claim_of(node) == uid or self._exists(pod.metadata.namespace, uid)
