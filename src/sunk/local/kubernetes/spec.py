"""What a local cluster should look like: its name and its nodes, from the command line or from a nodes.yaml."""

from pathlib import Path
from typing import Literal

import msgspec
import yaml

from sunk.local.kubernetes.network import MOST_NODES
from sunk.local.naming import checked_name
from sunk.model.refusal import Refusal

DEFAULT_NAME = "sunk"
DEFAULT_NODES = 3


class Taint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A taint as Kubernetes writes it."""

    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class LocalNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node: a name, and what Kubernetes should believe about it."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    resources: dict[str, str | int] = msgspec.field(default_factory=dict)
    """Extended resources that no device stands behind, such as `nvidia.com/gpu: 8`."""


class NodesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a nodes.yaml."""

    nodes: tuple[LocalNode, ...]


class ClusterSpec(msgspec.Struct, frozen=True):
    """What `up` was asked for. A cluster without nodes is a bare API."""

    name: str
    nodes: tuple[LocalNode, ...]

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)


def chosen(name: str, *, count: int | None, file: Path | None, api_only: bool) -> ClusterSpec:
    """The spec that options of `up` ask for; at most one of them may speak about nodes."""
    if (count is not None) + (file is not None) + api_only > 1:
        raise Refusal("--nodes, --config and --api-only exclude each other: choose one.")
    if api_only:
        return checked(ClusterSpec(name=name, nodes=()))
    if file is not None:
        return from_file(name, file=file)
    return plain(name, count=DEFAULT_NODES if count is None else count)


def plain(name: str, *, count: int) -> ClusterSpec:
    if not 1 <= count <= MOST_NODES:
        raise Refusal(f"--nodes {count}: a local cluster has 1 to {MOST_NODES} nodes. For none, use --api-only.")
    return checked(
        ClusterSpec(name=name, nodes=tuple(LocalNode(name=f"node-{index}") for index in range(1, count + 1)))
    )


def from_file(name: str, *, file: Path) -> ClusterSpec:
    """Read a nodes.yaml. Every fault is said with the path inside the file at which it stands."""
    try:
        content = yaml.safe_load(file.read_text())
        found = msgspec.convert(content, type=NodesFile)
    except OSError as unreadable:
        raise Refusal(f"{file} cannot be read: {unreadable.strerror}.") from unreadable
    except yaml.YAMLError as wrong:
        raise Refusal(f"{file} is not YAML: {wrong}") from wrong
    except msgspec.ValidationError as wrong:
        raise Refusal(
            f"{file}: {wrong}. A node has a name and may have labels, taints (key, effect, value) and resources."
        ) from wrong
    if not found.nodes:
        raise Refusal(f"{file} lists no nodes. For a cluster without nodes, use --api-only.")
    for node in found.nodes:
        for resource, count in node.resources.items():
            if not str(count).isdigit():
                raise Refusal(f"{file}: node {node.name}: {resource}: {count} is not a whole number.")
    return checked(ClusterSpec(name=name, nodes=found.nodes))


def checked(spec: ClusterSpec) -> ClusterSpec:
    """Names become host names, control groups and namespaces: only what is good for all of them passes."""
    checked_name(spec.name)
    for name in spec.node_names:
        checked_name(name, kind="node")
    if twice := next((name for name in spec.node_names if spec.node_names.count(name) > 1), None):
        raise Refusal(f'two nodes are named "{twice}". Names must be unique.')
    if len(spec.nodes) > MOST_NODES:
        raise Refusal(f"{len(spec.nodes)} nodes are too many: a local cluster has at most {MOST_NODES}.")
    return spec
