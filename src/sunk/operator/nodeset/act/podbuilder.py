"""Compute Pods from a NodeSet's template: pinned to their Nodes and made to stay there.

`PodBuilder` takes the template of one revision apart once for all Pods. `PodBuilders` keeps one for each NodeSet and has
tried it on the API server. A template that makes no Pod is found out before anything is given up for it: the API server
is asked to create one without doing it. What it says (a field that does not exist, a class that is missing) becomes the
NodeSet's condition, and the Pods that there are stay as they are.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, json

from sunk.kube.api.client import STRICTLY, Client
from sunk.kube.core import PODS
from sunk.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, TooManyRequests
from sunk.kube.resource import Key
from sunk.model import loopclock, names
from sunk.model.refusal import Refusal
from sunk.objects.computepods import NODE
from sunk.objects.nodesets import NodeSet, ours, owned_by
from sunk.operator.nodeset.act.revisions import revision_of
from sunk.operator.nodeset.observe.fit import Demand, demand
from sunk.operator.nodeset.observe.template import read

log = logging.getLogger(__name__)

TRY_AGAIN: Final = 25.0
"""Seconds after which a refused template is tried again: what it lacked may be there by then."""
_REFUSED: Final = 400
_BROKEN: Final = 500


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


class PodBuilder:
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


class PreparedTemplate(Struct, frozen=True):
    """What is known of a template. With a problem it makes no Pod, and says nothing about which Nodes fit either."""

    revision: str
    demand: Demand | None = None
    builder: PodBuilder | None = None
    problem: str = ""


class _Source(Struct, frozen=True):
    """All that goes into a builder."""

    uid: str
    prefix: str
    cluster: str
    template: bytes


class _Known(Struct, frozen=True):
    source: _Source
    prepared: PreparedTemplate
    until: float
    """When it is to be tried again."""


class PodBuilders:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Key, _Known] = {}

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)

    async def prepare(self, owner: NodeSet) -> PreparedTemplate:
        source, known = _source(owner), self._known.get(owner.key)
        if known is not None and known.source == source and loopclock.now() < known.until:
            return known.prepared
        found = await self._prepared(owner)
        until = loopclock.now() + TRY_AGAIN if found.problem else float("inf")
        self._known[owner.key] = _Known(source, found, until)
        return found

    async def _prepared(self, owner: NodeSet) -> PreparedTemplate:
        revision = revision_of(owner.spec.template)
        try:
            wanted = demand(read(owner.spec.template))
        except Refusal as wrong:
            return PreparedTemplate(revision, problem=str(wrong))
        builder = PodBuilder(owner, revision=revision)
        # A set that is going away makes no Pods, and must not wait for somebody to say whether it could.
        problem = "" if owner.metadata.deletion_timestamp else await self._refusal(builder, owner)
        return (
            PreparedTemplate(revision, problem=problem)
            if problem
            else PreparedTemplate(revision, demand=wanted, builder=builder)
        )

    async def _refusal(self, builder: PodBuilder, owner: NodeSet) -> str:
        """What the API server has against a Pod of this builder; empty if nothing."""
        body = builder.pod(f"{_prefix(owner)}-dry-run", node="dry-run")
        path = PODS.path(owner.metadata.namespace)
        try:
            await self._client.request("POST", path, query=STRICTLY | {"dryRun": "All"}, body=body)
        except (Conflict, NotFound, TooManyRequests):
            raise  # nothing is said about the template
        except AlreadyExists:
            return ""  # somebody has a Pod of that name; all that could be said of this one was found right before that
        except ApiError as refused:
            if _is_full(refused):
                return ""
            if _REFUSED <= refused.status < _BROKEN:
                return f"the API server refuses Pods of this template: {refused.message}"
            raise
        return ""


def _is_full(refused: ApiError) -> bool:
    """A quota that is used up: the Pod on trial is one more than there are, and says nothing about its template."""
    return isinstance(refused, Forbidden) and "exceeded quota" in refused.message


def _source(owner: NodeSet) -> _Source:
    return _Source(
        uid=owner.metadata.uid,
        prefix=_prefix(owner),
        cluster=owner.spec.cluster,
        template=bytes(owner.spec.template),
    )


def _prefix(owner: NodeSet) -> str:
    return owner.spec.pod_name_prefix or owner.metadata.name
