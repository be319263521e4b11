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


class Service(Struct, frozen=True, gc=False, rename="camel"):
    """Service of the login Pods."""

    type: Literal["LoadBalancer", "ClusterIP", "NodePort"] = "LoadBalancer"
    """Type of the Service."""
    external_traffic_policy: Literal["Local", "Cluster"] = "Local"
    """`Local` keeps the addresses of clients. No effect for a Service of type ClusterIP."""
    expose_public_ip: Annotated[bool, Meta(description="Request a public address from CoreWeave.")] = field(
        name="exposePublicIP", default=False
    )
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)
    """Additional annotations of the Service."""


class Placement(Struct, frozen=True, gc=False, rename="camel"):
    """Where Pods of the control plane run."""

    region: Line = ""
    """Value of the label topology.kubernetes.io/region. Empty: any region."""
    labels: Annotated[dict[str, Line], Meta(max_length=32)] = field(default_factory=dict)
    """Additional labels that the Nodes must have."""


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Those that somebody has set: null means that a value is taken back."""
    return {name: value for name, value in values.items() if value is not None}
