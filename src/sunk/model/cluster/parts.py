"""Pieces of values that several parts of a cluster have in common."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from sunk.model.schema.pattern import END
from sunk.model.schema.vocabulary import DnsLabel, Quantity, keyed

ObjectName = Annotated[str, Meta(max_length=253, pattern=rf"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?{END}")]
"""The name of an object of Kubernetes, or nothing."""
Line = Annotated[str, Meta(max_length=4096, pattern=rf"^[^\n\r\x00]*{END}")]
"""Text without line breaks: where it goes into a configuration file it cannot begin a line of its own."""
Seconds = Annotated[int, Meta(ge=0, le=31_536_000)]
Digest = Annotated[str, Meta(max_length=71, pattern=rf"^(sha256:[0-9a-f]{{64}})?{END}")]
"""What an image is by its content, or nothing."""


class Image(Struct, frozen=True, gc=False, rename="camel"):
    """Image of a container."""

    repository: Annotated[str, Meta(max_length=512)] = ""
    """Image name without the tag. Empty: that of the top-level `image`."""
    name: Annotated[str, Meta(max_length=512)] = ""
    """Alias of repository."""
    tag: Annotated[str, Meta(max_length=128)] = ""
    """Image tag. Empty: that of the top-level `image`."""
    digest: Digest = ""
    """`sha256:` and 64 hexadecimal digits. Takes precedence over the tag, which can be moved to another image."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """When to pull the image. Empty: that of the top-level `image`, else the Kubernetes default."""


class Resources(Struct, frozen=True, gc=False, rename="camel"):
    """Resources of a container, as in Kubernetes."""

    limits: Annotated[dict[str, Quantity | None], Meta(max_length=32)] = field(default_factory=dict)
    """Resource limits."""
    requests: Annotated[dict[str, Quantity | None], Meta(max_length=32)] = field(default_factory=dict)
    """Resource requests."""


class EnvironmentVariable(Struct, frozen=True, gc=False, rename="camel"):
    """An environment variable."""

    name: Annotated[str, Meta(min_length=1, max_length=256, pattern=rf"^[A-Za-z_][A-Za-z0-9_.-]*{END}")]
    """Name of the variable."""
    value: Annotated[str, Meta(max_length=32768)] | None = None
    """Value of the variable."""
    value_from: dict[str, Any] | None = None
    """From a ConfigMap, a Secret or a field of the Pod."""


Environment = Annotated[tuple[EnvironmentVariable, ...], keyed("name"), Meta(max_length=256)]


class Mount(Struct, frozen=True, gc=False, rename="camel"):
    """A volume claim that all compute and login Pods mount."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, pattern=rf"^/[^\n]*{END}")]
    """Mount path."""
    pvc: DnsLabel
    """Name of the PersistentVolumeClaim."""
    read_only: bool = False
    """Mount it read-only."""
    sub_path: Line = ""
    """Path inside the volume. Empty: the whole volume."""


class ServicePort(Struct, frozen=True, gc=False, rename="camel"):
    """A port of a Service."""

    name: DnsLabel
    """Name of the port."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    """Port of the Service."""
    target_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """Port of the Pod. Unset: the same."""
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    """Protocol of the port."""


class Service(Struct, frozen=True, gc=False, rename="camel"):
    """Service of the login Pods."""

    type: Literal["LoadBalancer", "ClusterIP", "NodePort"] = "LoadBalancer"
    """Type of the Service."""
    external_traffic_policy: Literal["Local", "Cluster"] = "Local"
    """`Local` keeps the addresses of clients, by which sshd slows down whoever guesses passwords. No effect for a Service
    of type ClusterIP."""
    expose_public_ip: Annotated[bool, Meta(description="Request a public address from CoreWeave.")] = field(
        name="exposePublicIP", default=False
    )
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Additional annotations of the Service."""
    dns_name: Line = ""
    """Host name for the Service, as the annotation external-dns.alpha.kubernetes.io/hostname. A Service for one Pod gets
    `<name of the Pod>.<dnsName>`."""
    additional_ports: Annotated[tuple[ServicePort, ...], keyed("name"), Meta(max_length=16)] = ()
    """Additional ports, which anyone can connect to."""
    per_pod: bool = False
    """Create one more Service for each login Pod, called `<name of the Pod>-ssh`."""


class S6Service(Struct, frozen=True, gc=False, rename="camel"):
    """A script that runs next to the daemon of the Pod.

    Scripts start after those that they depend on, else oneshots before longruns, and in the order of their names: values
    are a map, so the order in which they are written is not known.
    """

    type: Literal["oneshot", "longrun"]
    """`oneshot` runs to the end before the daemon starts; `longrun` keeps running beside it."""
    script: Annotated[str, Meta(max_length=262144)]
    """Content of the script. Without a first line that begins with `#!`, bash runs it."""
    dependencies: Annotated[tuple[DnsLabel, ...], Meta(max_length=64)] = ()
    """Names of scripts that have to run before this one; a longrun has to have started, a oneshot to have ended."""
    timeout_up: Annotated[int, Meta(ge=0)] = 0
    """Milliseconds before a oneshot counts as failed; 0 means never."""
    timeout_down: Annotated[int, Meta(ge=0)] = 0
    """Milliseconds for a longrun to end."""


class Placement(Struct, frozen=True, gc=False, rename="camel"):
    """Where Pods of the control plane run."""

    region: Line = ""
    """Value of the label topology.kubernetes.io/region. Empty: any region."""
    labels: Annotated[dict[str, Line], Meta(max_length=32)] = field(default_factory=dict)
    """Additional labels that the Nodes must have."""


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Those that somebody has set: null means that a value is taken back."""
    return {name: value for name, value in values.items() if value is not None}
