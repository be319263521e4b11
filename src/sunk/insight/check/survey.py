"""What `sunk check` reads: the Nodes that may be locked, the Pods on them, and the DaemonSets that place some there."""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct, field

from sunk.insight.nodepods import NODE_PODS, NodePod
from sunk.kube.api.client import EVERYWHERE, Client, Scope
from sunk.kube.core import NODES, Node, Toleration
from sunk.kube.errors import Forbidden, NotFound, Unreadable
from sunk.kube.resource import Record, Resource
from sunk.model.kubernetes.selection import matches
from sunk.model.kubernetes.taints import untolerated
from sunk.model.names import LOCK
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NODESETS, NodeSet, marked_by
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.operator.nodeset.observe.fit import Demand, demand, unfit
from sunk.operator.nodeset.observe.template import InvalidTemplate, TemplateAffinity, TemplateMetadata, read

_KUBERNETES = "node.kubernetes.io/"
"""Taints that every DaemonSet tolerates, or that pass."""


class AgentSpec(Struct, frozen=True, gc=False, rename="camel"):
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: TemplateAffinity = TemplateAffinity()
    tolerations: tuple[Toleration, ...] = ()
    termination_grace_period_seconds: int = 30


class AgentTemplate(Struct, frozen=True, gc=False):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: AgentSpec = AgentSpec()


class _DaemonSetSpec(Struct, frozen=True, gc=False):
    template: AgentTemplate = AgentTemplate()


class DaemonSet(Record, frozen=True, gc=False):
    """As far as it says where its Pods run, and what they tolerate."""

    spec: _DaemonSetSpec = _DaemonSetSpec()

    @property
    def agent(self) -> AgentSpec:
        return self.spec.template.spec


DAEMONSETS = Resource(DaemonSet, group="apps", version="v1", plural="daemonsets")


class Survey(Struct, frozen=True):
    """All that is judged."""

    nodes: tuple[Node, ...]
    pods: tuple[NodePod, ...]
    """On these Nodes."""
    daemon_sets: tuple[DaemonSet, ...] | None = ()
    """None if they may not be listed."""
    timeout: int | None = None
    """Seconds that a prolog waits at most: the shortest of all clusters. None if that is not known."""


async def survey(client: Client, *, selector: str = "") -> Survey:
    """Read it all. Without a selector the Nodes are those of NodeSets, and those that fit one."""
    nodes = (await client.list(NODES, Scope(labels=selector))).items
    if not selector:
        nodes = candidates(nodes, await _sets(client))
    if not nodes:
        raise Refusal(
            "no Node matches the selector"
            if selector
            else "no Node belongs to a NodeSet or fits one, so nothing was checked. Select Nodes with -l"
        )
    there = {node.metadata.name for node in nodes}
    pods = tuple(pod for pod in (await client.list(NODE_PODS)).items if pod.spec.node_name in there)
    return Survey(nodes, pods, daemon_sets=await _daemon_sets(client), timeout=await _timeout(client))


async def _sets(client: Client) -> tuple[NodeSet, ...]:
    try:
        return (await client.list(NODESETS)).items
    except NotFound as unknown:
        raise Refusal('there are no NodeSets: install the chart "sunk", or select Nodes with -l') from unknown


async def _daemon_sets(client: Client) -> tuple[DaemonSet, ...] | None:
    with suppress(Forbidden):
        return (await client.list(DAEMONSETS, EVERYWHERE)).items
    return None


async def _timeout(client: Client) -> int | None:
    with suppress(Forbidden, NotFound, Unreadable):
        clusters = (await client.list(SLURMCLUSTERS)).items
        return min((one.spec.syncer.hooks_api.timeout for one in clusters), default=None)
    return None


# Which Nodes are meant


def candidates(nodes: Iterable[Node], sets: Iterable[NodeSet]) -> tuple[Node, ...]:
    """The Nodes that belong to a NodeSet, or that one could take."""
    demands = [found for one in sets if (found := _demand(one)) is not None]
    return tuple(node for node in nodes if marked_by(node) or any(unfit(node, wanted) is None for wanted in demands))


def _demand(node_set: NodeSet) -> Demand | None:
    with suppress(InvalidTemplate):  # it takes no Node as it is
        return demand(read(node_set.spec.template))
    return None


def places(daemon_set: DaemonSet, node: Node) -> bool:
    """Whether it has a Pod on this Node, or would have one."""
    agent, labels = daemon_set.agent, node.metadata.labels
    if any(labels.get(key) != value for key, value in agent.node_selector.items()):
        return False
    required = agent.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if not matches(required, name=node.metadata.name, labels=labels):
        return False
    lasting = [taint for taint in node.spec.taints if taint.key != LOCK and not taint.key.startswith(_KUBERNETES)]
    return untolerated(lasting, agent.tolerations) is None
