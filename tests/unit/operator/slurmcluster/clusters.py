"""Resolved clusters for tests, out of a few values, and what is built of them."""

from typing import Any

import msgspec

from sunk.model.cluster.kind import SlurmClusterSpec
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import NodeDefinition, ResolvedCluster, resolve

NODE = {"enabled": True, "resources": {"limits": {"cpu": "8", "memory": "64Gi"}}}


def cluster(values: dict[str, Any] | None = None, *, uid: str = "1234") -> ResolvedCluster:
    spec = msgspec.json.decode(msgspec.json.encode(values or {}), type=SlurmClusterSpec)
    return resolve(spec, name="slurm", namespace="team", uid=uid)


def with_nodes(compute: dict[str, Any] | None = None, **nodes: dict[str, Any]) -> ResolvedCluster:
    """Definitions by name; dashes are written as underscores."""
    named = {name.replace("_", "-"): {"enabled": True} | node for name, node in nodes.items()}
    return cluster({"compute": (compute or {}) | {"nodes": named}})


def only(made: ResolvedCluster) -> NodeDefinition:
    (definition,) = made.definitions
    return definition


def built(made: ResolvedCluster, kind: str, name: str) -> dict[str, Any]:
    (body,) = [body for body in objects(made) if (body["kind"], body["metadata"]["name"]) == (kind, name)]
    return body


def kinds(made: ResolvedCluster) -> list[tuple[str, str]]:
    return [(body["kind"], body["metadata"]["name"]) for body in objects(made)]


def pod(made: ResolvedCluster, kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = built(made, kind, name)["spec"]["template"]["spec"]
    return spec


def container(made: ResolvedCluster, kind: str, name: str) -> dict[str, Any]:
    first: dict[str, Any] = pod(made, kind, name)["containers"][0]
    return first


def settings(text: str) -> dict[str, str]:
    """Of a file of Slurm's, without partitions."""
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith(("PartitionName", "NodeSet")))
    return {key: value for key, _, value in lines}
