"""The values of the chart `sunk`: how the operator is installed on a Kubernetes."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from sunk.model.cluster.parts import Digest
from sunk.model.contract import clusterobjects
from sunk.model.contract.lock import LINGER, LONGEST_LINGER
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
    """Image of the operator."""

    repository: Annotated[str, Meta(min_length=1)] = "localhost/sunk"
    """Image name without the tag."""
    tag: Annotated[str, Meta(min_length=1, max_length=128)] = "24.11"
    """The Slurm version that the image was built for; the operator itself does not depend on it."""
    digest: Digest = ""
    """`sha256:` and 64 hexadecimal digits. Takes precedence over the tag, which can be moved to another image."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When to pull the image, as in Kubernetes."""
    pull_secrets: tuple[Name, ...] = ()
    """Names of Secrets in the release's namespace."""


class Requests(Struct, frozen=True, gc=False, rename="camel"):
    """Client-side rate limit for requests to the API server, in addition to the server's own fairness."""

    qps: Annotated[float, Meta(gt=0)] = 1000
    """Requests per second, on average."""
    burst: Annotated[int, Meta(ge=1)] = 2000
    """Maximum burst of requests."""


class Crds(Struct, frozen=True, gc=False, rename="camel"):
    """The CustomResourceDefinitions. They are kept when the release is uninstalled."""

    install: bool = True
    """Turn off for a second operator in the same Kubernetes cluster: the first release owns them."""
    take_over: bool = False
    """Take them over from a release that is gone, together with Helm's --take-ownership."""


class ServiceAccount(Struct, frozen=True, gc=False, rename="camel"):
    """ServiceAccount of the operator."""

    create: bool = True
    """Turn off to use an existing ServiceAccount."""
    name: Annotated[str, Meta(max_length=253)] = "sunk-controller-manager"
    """Name of the ServiceAccount."""
    annotations: Texts = field(default_factory=dict)
    """Annotations of the ServiceAccount."""


class Rbac(Struct, frozen=True, gc=False, rename="camel"):
    """Permissions of the ServiceAccount."""

    create: bool = True
    """Turn off to grant the permissions yourself; `helm template` shows what is needed."""


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
ClusterReference = Annotated[str, Meta(max_length=127, pattern=rf"^{_LABEL}/{_LABEL}{END}")]


class SyncerPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """Admission policies that restrict syncers to what they have to write, beyond what a Role can express."""

    create: bool = True
    """Needs Kubernetes 1.30; left out on older versions."""


class PriorityClass(Struct, frozen=True, gc=False, rename="camel"):
    """A PriorityClass for compute Pods, so that they outrank other Pods on the same Node. NodeSet templates name it."""

    create: bool = True
    """Turn off to use an existing PriorityClass."""
    name: Annotated[str, Meta(min_length=1, max_length=253)] = "sunk-compute"
    """Name of the PriorityClass."""
    value: Annotated[int, Meta(ge=-HIGHEST_PRIORITY, le=HIGHEST_PRIORITY)] = 1_000_000
    """Kubernetes does not allow this to change later: to change it, use another name."""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    """Whether compute Pods may preempt Pods of lower priority."""


class MetricsService(Struct, frozen=True, gc=False, rename="camel"):
    """A Service for all replicas, for scrapers that discover Services."""

    create: bool = True
    """Create the Service."""
    annotations: Texts = field(default_factory=dict)
    """Additional annotations of the Service."""


class OperatorMetrics(Struct, frozen=True, gc=False, rename="camel"):
    """The operator's own metrics, under `/metrics`."""

    port: Annotated[int, Meta(ge=1024, le=65535)] = clusterobjects.HEALTH_PORT
    """Also the port of the probes."""
    scrape: bool = True
    """Put the annotations `prometheus.io/*` on the Pods."""
    service: MetricsService = MetricsService()


class OperatorResources(Struct, frozen=True, gc=False, rename="camel"):
    """Resources of each replica of the operator."""

    requests: dict[str, Quantity] = field(default_factory=lambda: {"cpu": "50m", "memory": "128Mi"})
    """Resource requests."""
    limits: dict[str, Quantity] = field(default_factory=lambda: {"memory": "2Gi"})
    """Resource limits."""


class OperatorValues(Struct, frozen=True, gc=False, rename="camel"):
    """Values of the chart `sunk`."""

    image: OperatorImage = OperatorImage()
    replicas: Annotated[int, Meta(ge=0, le=10)] = 1
    """Number of replicas. One leads; the others stand by with filled caches, and take over within seconds."""
    namespaces: Annotated[tuple[DnsLabel, ...], UNIQUE] = ()
    """Where the operator looks for SlurmClusters and NodeSets. Empty: the release's own namespace. The namespaces must exist:
    permissions are granted in each of them, and in no other."""
    all_namespaces: bool = False
    """Look everywhere instead. The operator's token is then as good as a cluster administrator's: anyone who can create Pods
    in every namespace can become any user."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 8
    """Number of objects that each controller handles concurrently."""
    cordon_reason_annotation: AnnotationKey = CORDON_REASON
    """Node annotation that says why a Node was cordoned; Slurm shows it as the reason of the drain."""
    lock_linger: Annotated[float, Meta(ge=0, le=LONGEST_LINGER)] = LINGER
    """Seconds that a Node stays locked when its Slurm node is idle, in case the next job comes soon. 0: unlock at once."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum severity to log."""
    requests: Requests = Requests()
    stop_seconds: Annotated[int, Meta(ge=0, le=600)] = 20
    """Seconds that running work may take to finish when a replica is stopped. The Pod's grace period is 10 s longer."""
    crds: Crds = Crds()
    service_account: ServiceAccount = ServiceAccount()
    rbac: Rbac = Rbac()
    node_permissions: Annotated[tuple[ClusterReference, ...], UNIQUE] = ()
    """SlurmClusters, as namespace/name, whose syncers may set conditions of their Nodes, which is how reboots are requested.
    The cluster must also ask for it (`syncer.nodePermissions.enabled`); by itself it gets nothing."""
    syncer_policy: SyncerPolicy = SyncerPolicy()
    priority_class: PriorityClass = PriorityClass()
    metrics: OperatorMetrics = OperatorMetrics()
    resources: OperatorResources = OperatorResources()
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    """PriorityClass of the operator's own Pods: `system-cluster-critical` is a good choice where it is allowed."""
    node_selector: Texts = field(default_factory=dict)
    """Labels of the Nodes that the operator may run on."""
    tolerations: tuple[dict[str, Any], ...] = ()
    """Tolerations of the operator's Pods."""
    affinity: dict[str, Any] = field(default_factory=dict)
    """Empty: replicas avoid each other's Nodes where possible."""
    pod_labels: Texts = field(default_factory=dict)
    """Additional labels of the operator's Pods."""
    pod_annotations: Texts = field(default_factory=dict)
    """Additional annotations of the operator's Pods."""
