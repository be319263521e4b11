"""Who would be evicted from the Nodes of a survey when these are locked.

By Pods, since theirs are the tolerations that count: an admission webhook may have added one to what the template says.
Templates of DaemonSets are asked only about Nodes where they have no Pod yet. Everything is told by what a person would
change: the Deployment and not its ReplicaSets.

First what should never go: our own Pods, then DaemonSets, then all else of kube-system. The rest is ordinary work, for
which eviction is what the lock is there for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import quote
from typing import Final

from msgspec import Struct, json

from sunk.insight.check.survey import DaemonSet, Survey, places
from sunk.insight.nodepods import NodePod, Workload, ended, evictable, tolerates, toleration_of, workload
from sunk.kube.core import Toleration
from sunk.model import names

SYSTEM: Final = "kube-system"
DAEMON_SET: Final = "DaemonSet"
KINDS: Final = (DAEMON_SET, "Deployment", "StatefulSet", "Job", "Pod")
"""In this order; others come before the last."""
TOLERATION: Final = {"key": names.LOCK, "operator": "Exists", "effect": "NoExecute"}
_PATH: Final = "/spec/template/spec/tolerations"


class Eviction(Struct, frozen=True, rename="camel"):
    """A workload that the lock would evict."""

    kind: str
    namespace: str
    name: str
    nodes: tuple[str, ...]
    """Where its Pods are, or would be."""
    pods: int
    ours: bool = False
    """A part of SUNK."""
    bounded: int | None = None
    """Seconds for which it tolerates the lock; it is evicted after these."""
    grace: int = 0
    """The longest grace period of its Pods, in seconds."""
    outlasts: bool = False
    """That is longer than prologs wait."""
    command: str = ""
    """What to run to let it stay."""

    @property
    def infrastructure(self) -> bool:
        return self.ours or self.kind == DAEMON_SET or self.namespace == SYSTEM


def evictions(found: Survey) -> tuple[Eviction, ...]:
    """All workloads that would be evicted, the weightiest first."""
    pods = _by_workload(found.pods, evictable_here)
    staying = _by_workload(found.pods, lambda pod: not ended(pod) and not evictable_here(pod))
    agents = {Workload(DAEMON_SET, one.metadata.namespace, one.metadata.name): one for one in found.daemon_sets or ()}
    awaited = {what: _awaited(found, one, pods.get(what, ())) for what, one in agents.items() if what not in staying}
    told = {what for what, nodes in awaited.items() if nodes} | pods.keys()
    made = (
        _eviction(what, pods.get(what, ()), found=found, agent=agents.get(what), more=awaited.get(what, frozenset()))
        for what in told
    )
    return tuple(sorted(made, key=_order))


def evictable_here(pod: NodePod) -> bool:
    """Whether some lock would evict it. Which jobs there will be is not known, so what Slurm has started may stay."""
    return evictable(pod, jobs=None)


def _by_workload(pods: Iterable[NodePod], wanted: Callable[[NodePod], bool]) -> Mapping[Workload, Sequence[NodePod]]:
    found: dict[Workload, list[NodePod]] = {}
    for pod in filter(wanted, pods):
        found.setdefault(workload(pod), []).append(pod)
    return found


def _awaited(found: Survey, agent: DaemonSet, pods: Iterable[NodePod]) -> frozenset[str]:
    """Nodes on which a DaemonSet has no Pod yet, and would have one that is evicted."""
    if tolerates(agent.agent.tolerations):
        return frozenset()
    there = {pod.spec.node_name for pod in pods}
    names = (node.metadata.name for node in found.nodes if places(agent, node))
    return frozenset(name for name in names if name not in there)


def _eviction(
    what: Workload, pods: Sequence[NodePod], *, found: Survey, agent: DaemonSet | None, more: frozenset[str]
) -> Eviction:
    tolerations = [pod.spec.tolerations for pod in pods] or [agent.agent.tolerations if agent else ()]
    grace = max(
        (pod.spec.termination_grace_period_seconds for pod in pods),
        default=agent.agent.termination_grace_period_seconds if agent else 0,
    )
    labels = [pod.metadata.labels for pod in pods] or [agent.spec.template.metadata.labels if agent else {}]
    return Eviction(
        kind=what.kind,
        namespace=what.namespace,
        name=what.name,
        nodes=tuple(sorted({pod.spec.node_name for pod in pods} | more)),
        pods=len(pods),
        ours=any(map(_is_ours, labels)),
        bounded=max((seconds for each in tolerations if (seconds := _seconds(each)) is not None), default=None),
        grace=grace,
        outlasts=found.timeout is not None and grace > found.timeout,
        command=_command(what, agent),
    )


def _is_ours(labels: Mapping[str, str]) -> bool:
    return names.SUNK in {labels.get(names.MANAGED_BY), labels.get(names.PART_OF)}


def _seconds(tolerations: Iterable[Toleration]) -> int | None:
    found = toleration_of(tolerations)
    return None if found is None else found.toleration_seconds


def _command(what: Workload, agent: DaemonSet | None) -> str:
    """For DaemonSets alone: what else should stay is for whoever runs it to say."""
    if agent is None:
        return ""
    at = f"kubectl -n {quote(what.namespace)}"
    there = agent.agent.tolerations
    if tolerates(there):  # its Pods are older than its template
        return f"{at} rollout restart daemonset/{quote(what.name)}"
    # In front: of several that match, the first decides how long a Pod stays.
    change = {"path": f"{_PATH}/0", "value": TOLERATION} if there else {"path": _PATH, "value": [TOLERATION]}
    patch = json.encode([{"op": "add", **change}]).decode()
    return f"{at} patch daemonset {quote(what.name)} --type json -p {quote(patch)}"


def _order(one: Eviction) -> tuple[bool, bool, bool, int, str, str]:
    kind = KINDS.index(one.kind) if one.kind in KINDS else len(KINDS) - 1
    return not one.ours, one.kind != DAEMON_SET, one.namespace != SYSTEM, kind, one.namespace, one.name
