"""Where a Pod goes that names its Node by affinity: what a scheduler would say, on a cluster that has none. Pure."""

from typing import Final

from msgspec import Struct, field

from sunk.kube.core import Node, Toleration
from sunk.kube.resource import Record, Resource
from sunk.local.fakekubelet.pods import tolerates

USUAL_SCHEDULER: Final = "default-scheduler"
_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


class Requirement(Struct, frozen=True, gc=False):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class AffinityTerm(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class Selector(Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[AffinityTerm, ...] = ()


class NodeAffinity(Struct, frozen=True, gc=False):
    required: Selector = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=Selector())


class Affinity(Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity = NodeAffinity()


class UnboundPodSpec(Struct, frozen=True, gc=False, rename="camel"):
    affinity: Affinity = Affinity()
    node_selector: dict[str, str] = field(default_factory=dict)
    scheduler_name: str = USUAL_SCHEDULER
    scheduling_gates: tuple[dict[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class UnboundPod(Record, frozen=True, gc=False):
    """A Pod that is bound to no Node yet: what a scheduler reads of it."""

    spec: UnboundPodSpec = UnboundPodSpec()


UNBOUND_PODS: Final = Resource(UnboundPod, version="v1", plural="pods")


def pinned(pod: UnboundPod) -> str:
    """Name the one Node that a Pod can go to by its affinity alone; empty if it leaves a choice, or asks for more."""
    terms = pod.spec.affinity.node_affinity.required.node_selector_terms
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    requirement = terms[0].match_fields[0]
    named = requirement.key == "metadata.name" and requirement.operator == "In" and len(requirement.values) == 1
    return requirement.values[0] if named else ""


def fits(pod: UnboundPod, node: Node) -> bool:
    """Tell whether a scheduler would let the Pod onto that Node, resources aside."""
    spec = pod.spec
    if spec.scheduler_name != USUAL_SCHEDULER or spec.scheduling_gates or pod.metadata.deletion_timestamp:
        return False
    if not spec.node_selector.items() <= node.metadata.labels.items():
        return False
    return all(tolerates(spec.tolerations, taint) for taint in node.spec.taints if taint.effect in _KEEPS_OUT)
