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
    """Which image a container runs."""

    repository: Annotated[str, Meta(max_length=512)] = ""
    """Everything before the tag; the image of `image` at the top if it is empty."""
    name: Annotated[str, Meta(max_length=512)] = ""
    """Another word for repository."""
    tag: Annotated[str, Meta(max_length=128)] = ""
    digest: Digest = ""
    """`sha256:` and 64 hexadecimal digits. Goes before the tag, which can be moved to another image."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""


class Resources(Struct, frozen=True, gc=False, rename="camel"):
    """What containers get, as Kubernetes has it."""

    limits: Annotated[dict[str, Quantity | None], Meta(max_length=32)] = field(default_factory=dict)
    requests: Annotated[dict[str, Quantity | None], Meta(max_length=32)] = field(default_factory=dict)


class EnvironmentVariable(Struct, frozen=True, gc=False, rename="camel"):
    """A variable of the environment."""

    name: Annotated[str, Meta(min_length=1, max_length=256, pattern=rf"^[A-Za-z_][A-Za-z0-9_.-]*{END}")]
    value: Annotated[str, Meta(max_length=32768)] | None = None
    value_from: dict[str, Any] | None = None
    """From a ConfigMap, a Secret or a field of the Pod."""


Environment = Annotated[tuple[EnvironmentVariable, ...], keyed("name"), Meta(max_length=256)]


class Mount(Struct, frozen=True, gc=False, rename="camel"):
    """A volume claim that all compute and login Pods mount."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, pattern=rf"^/[^\n]*{END}")]
    """Where it is mounted."""
    pvc: DnsLabel
    """Which PersistentVolumeClaim."""
    read_only: bool = False
    sub_path: Line = ""


class Service(Struct, frozen=True, gc=False, rename="camel"):
    """How the login Pods are reached."""

    type: Literal["LoadBalancer", "ClusterIP", "NodePort"] = "LoadBalancer"
    external_traffic_policy: Literal["Local", "Cluster"] = "Local"
    expose_public_ip: Annotated[bool, Meta(description="Ask CoreWeave for a public address.")] = field(
        name="exposePublicIP", default=False
    )
    annotations: Annotated[dict[str, Line], Meta(max_length=64)] = field(default_factory=dict)


class Placement(Struct, frozen=True, gc=False, rename="camel"):
    """Where Pods of the control plane run."""

    region: Line = ""
    """Value of the label topology.kubernetes.io/region; anywhere if it is empty."""
    labels: Annotated[dict[str, Line], Meta(max_length=32)] = field(default_factory=dict)


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Those that somebody has set: null means that a value is taken back."""
    return {name: value for name, value in values.items() if value is not None}
