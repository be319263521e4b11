"""The Pod of a member: the template, pinned to its Node and made to stay there."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Raw, json

from sunk.model import foreign, names
from sunk.objects.members import NodeSet, ours, owned_by
from sunk.objects.standing import NODE

_NODE: Final = "node.kubernetes.io"
TOLERATIONS: Final = (
    {"key": names.LOCK, "operator": "Exists"},
    *({"key": f"{_NODE}/{trouble}", "operator": "Exists"} for trouble in ("not-ready", "unreachable", "unschedulable")),
    *(
        {"key": f"{_NODE}/{trouble}", "operator": "Exists", "effect": "NoSchedule"}
        for trouble in ("disk-pressure", "memory-pressure", "pid-pressure", "network-unavailable")
    ),
)
"""Without limit, as DaemonSets have them: a kubelet that is silent for ten minutes must not cost a job of a week.

They stand first: the first toleration that matches a taint says how long the Pod stays."""
_UNMARKED: Final[Mapping[str, str]] = MappingProxyType({})
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class Mould:
    """Pods of one NodeSet at one revision: the template is taken apart once for all of them."""

    def __init__(self, owner: NodeSet, *, revision: str) -> None:
        template: dict[str, Any] = json.decode(owner.spec.template)
        self._metadata: dict[str, Any] = template.get("metadata") or {}
        # A Node named there would be one for all.
        self._spec = {word: value for word, value in (template.get("spec") or {}).items() if word != "nodeName"}
        self._owner = owner
        self._revision = revision

    def pod(
        self, name: str, *, node: str, features: tuple[str, ...] = (), marks: Mapping[str, str] = _UNMARKED
    ) -> dict[str, Any]:
        """The whole Pod. `marks` are annotations that it has because of its Node."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self._owner.metadata.namespace,
                "labels": self._labels(),
                "annotations": self._annotations(node, features) | dict(marks),
                "ownerReferences": [owned_by(self._owner)],
            },
            "spec": self._spec
            | {
                "hostname": name,
                "affinity": pinned(self._spec.get("affinity") or {}, node=node),
                "tolerations": [*TOLERATIONS, *(self._spec.get("tolerations") or ())],
            },
        }

    def _labels(self) -> dict[str, str]:
        labels: dict[str, str] = self._metadata.get("labels") or {}
        kind = {names.APP: names.SLURMD, names.COMPONENT: names.COMPUTE, names.REVISION: self._revision}
        return labels | kind | ours(self._owner)

    def _annotations(self, node: str, features: tuple[str, ...]) -> dict[str, str]:
        annotations: dict[str, str] = self._metadata.get("annotations") or {}
        return annotations | {NODE: node, names.FEATURES: ",".join(features), SAFE_TO_EVICT: "false"}


def pinned(affinity: dict[str, Any], *, node: str) -> dict[str, Any]:
    """The affinity of a Pod for one Node: the template's own has done its work when the Node was chosen."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
    return affinity | {"nodeAffinity": required}


def plain(template: Raw) -> bytes:
    """The template in a form that is the same however it was written down."""
    try:
        return json.encode(foreign.tree(template), order="deterministic")
    except foreign.UnreadableJson:
        return bytes(template)  # no Pod is made from it, but what was tried has to have a name
