"""Clusters for tests, out of a few values."""

from typing import Any

import msgspec

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.operator.slurmcluster.builders.objects import objects
from sunk.operator.slurmcluster.view import Cluster, NodeDefinition, view

NODE = {"enabled": True, "resources": {"limits": {"cpu": "8", "memory": "64Gi"}}}


def cluster(values: dict[str, Any] | None = None, *, uid: str = "1234") -> Cluster:
    spec = msgspec.json.decode(msgspec.json.encode(values or {}), type=SlurmClusterSpec)
    return view(spec, name="slurm", namespace="team", uid=uid)


def with_nodes(compute: dict[str, Any] | None = None, **nodes: dict[str, Any]) -> Cluster:
    """Definitions by name; dashes are written as underscores."""
    named = {name.replace("_", "-"): {"enabled": True} | node for name, node in nodes.items()}
    return cluster({"compute": (compute or {}) | {"nodes": named}})


def only(made: Cluster) -> NodeDefinition:
    (definition,) = made.definitions
    return definition


def found(made: Cluster, kind: str, name: str) -> dict[str, Any]:
    (one,) = [each for each in objects(made) if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return one


def kinds(made: Cluster) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in objects(made)]


def pod(made: Cluster, kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = found(made, kind, name)["spec"]["template"]["spec"]
    return spec


def container(made: Cluster, kind: str, name: str) -> dict[str, Any]:
    first: dict[str, Any] = pod(made, kind, name)["containers"][0]
    return first


def settings(text: str) -> dict[str, str]:
    """Of a file of Slurm's, without partitions."""
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith(("PartitionName", "NodeSet")))
    return {key: value for key, _, value in lines}
