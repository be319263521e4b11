"""The values of the chart `sunk`: how the operator is installed on a Kubernetes."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import Digest
from sunk.model.contract import clusterobjects
from sunk.model.names import CORDON_REASON
from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import UNIQUE, DnsLabel, Quantity

Name = Annotated[str, Meta(max_length=253)]
Texts = dict[str, str]
AnnotationKey = Annotated[
    str, Meta(max_length=317, pattern=rf"^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?{END}")
]
HIGHEST_PRIORITY = 1_000_000_000


class OperatorImage(Struct, frozen=True, gc=False, rename="camel"):
    """Where the program comes from."""

    repository: Annotated[str, Meta(min_length=1)] = "localhost/sunk"
    tag: Annotated[str, Meta(min_length=1, max_length=128)] = "24.11"
    """The Slurm version that the image was built for; the operator itself does not depend on it."""
    digest: Digest = ""
    """`sha256:` and 64 hexadecimal digits. Goes before the tag, which can be moved to another image."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[Name, ...] = ()
    """Names of Secrets of the release's namespace."""


class Requests(Struct, frozen=True, gc=False, rename="camel"):
    """Rate limit of our own requests to the API server, beside the server's own fairness."""

    qps: Annotated[float, Meta(gt=0)] = 1000
    """Requests a second in the long run."""
    burst: Annotated[int, Meta(ge=1)] = 2000
    """Requests at once."""


class Crds(Struct, frozen=True, gc=False, rename="camel"):
    """The CustomResourceDefinitions. They are kept when the release is removed."""

    install: bool = True
    """Off for a second operator on one Kubernetes: the first release owns them."""
    take_over: bool = False
    """Take them over from a release that is gone, together with Helm's --take-ownership."""


class ServiceAccount(Struct, frozen=True, gc=False, rename="camel"):
    """Who the operator is to the API server."""

    create: bool = True
    name: Annotated[str, Meta(max_length=253)] = "sunk-controller-manager"
    annotations: Texts = field(default_factory=dict)


class Rbac(Struct, frozen=True, gc=False, rename="camel"):
    """What the account may do."""

    create: bool = True
    """Off if somebody else grants it; `helm template` shows what is needed."""


class SyncerPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """Admission policies that hold syncers to what they have to write, beyond what a Role can say."""

    create: bool = True
    """Needs Kubernetes 1.30; left out on older ones."""


class PriorityClass(Struct, frozen=True, gc=False, rename="camel"):
    """A class for compute Pods, so that they outrank what runs beside them. Templates of NodeSets name it."""

    create: bool = True
    name: Annotated[str, Meta(min_length=1, max_length=253)] = "sunk-compute"
    value: Annotated[int, Meta(ge=-HIGHEST_PRIORITY, le=HIGHEST_PRIORITY)] = 1_000_000
    """Kubernetes lets nobody change it later: use another name then."""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"


class MetricsService(Struct, frozen=True, gc=False, rename="camel"):
    """A Service in front of all copies, for scrapers that look for Services."""

    create: bool = True
    annotations: Texts = field(default_factory=dict)


class OperatorMetrics(Struct, frozen=True, gc=False, rename="camel"):
    """Metrics of the operator about itself, under `/metrics`."""

    port: Annotated[int, Meta(ge=1024, le=65535)] = clusterobjects.HEALTH_PORT
    """Probes use it too."""
    scrape: bool = True
    """Put the annotations `prometheus.io/*` on the Pods."""
    service: MetricsService = MetricsService()


class OperatorResources(Struct, frozen=True, gc=False, rename="camel"):
    """What a copy of the operator takes."""

    requests: dict[str, Quantity] = field(default_factory=lambda: {"cpu": "50m", "memory": "128Mi"})
    limits: dict[str, Quantity] = field(default_factory=lambda: {"memory": "2Gi"})


class OperatorValues(Struct, frozen=True, gc=False, rename="camel"):
    """Values of the chart `sunk`."""

    image: OperatorImage = OperatorImage()
    replicas: Annotated[int, Meta(ge=0, le=10)] = 1
    """How many copies. One leads; the others stand by with everything read, and take over within seconds."""
    namespaces: Annotated[tuple[DnsLabel, ...], UNIQUE] = ()
    """Where SlurmClusters and NodeSets are looked for; in the release's own namespace if empty. They must exist: rights are
    granted in each of them, and in no other."""
    all_namespaces: bool = False
    """Look for them everywhere instead. The operator's token is then as good as an administrator's: who may make Pods in
    every namespace may become anybody."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 8
    """How many objects each controller works on at once."""
    cordon_reason_annotation: AnnotationKey = CORDON_REASON
    """The annotation of Nodes that says why one was cordoned; Slurm shows it as the reason of the drain."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    requests: Requests = Requests()
    stop_seconds: Annotated[int, Meta(ge=0, le=600)] = 20
    """How long work in hand may take to end when a copy is stopped; the Pod's grace period is 10 s longer."""
    crds: Crds = Crds()
    service_account: ServiceAccount = ServiceAccount()
    rbac: Rbac = Rbac()
    syncer_policy: SyncerPolicy = SyncerPolicy()
    priority_class: PriorityClass = PriorityClass()
    metrics: OperatorMetrics = OperatorMetrics()
    resources: OperatorResources = OperatorResources()
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    """The class of the operator's own Pods: `system-cluster-critical` is a good one where it is allowed."""
    node_selector: Texts = field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    affinity: dict[str, Any] = field(default_factory=dict)
    """If empty, copies keep away from each other's Nodes where they can."""
    pod_labels: Texts = field(default_factory=dict)
    pod_annotations: Texts = field(default_factory=dict)
