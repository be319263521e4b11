"""What the measurements happen on: a real API server, thousands of Nodes by the fake kubelet, and `sunk operator`."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from sunk.kube.api.client import Client, Scope
from sunk.kube.auth import access
from sunk.kube.core import LEASES, NAMESPACES, NODES, Namespace, condition
from sunk.kube.errors import AlreadyExists, NotFound
from sunk.kube.resource import Record, Resource
from sunk.local.fakekubelet import FLEET, Settings, spawned
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.spec import ClusterSpec
from sunk.model.generate import crd_yaml
from sunk.model.kinds import KINDS
from sunk.objects.nodesets import NODESETS

CRDS: Final = Resource(
    Record, group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions", namespaced=False
)
ACCOUNTS: Final = Resource(Namespace, version="v1", plural="serviceaccounts")
POOL: Final = "bench/pool"
TEMPLATE: Final[dict[str, Any]] = {
    "spec": {
        "automountServiceAccountToken": False,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": POOL, "operator": "Exists"}]}]
                }
            }
        },
        "containers": [{"name": "slurmd", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    }
}
PORT: Final = 18080
OPERATOR_LEASE: Final = "sunk-controller-manager"


class Stage(Struct, frozen=True):
    """A server with Nodes, and how to reach it."""

    client: Client
    cluster: LocalCluster
    settings: Settings


@asynccontextmanager
async def staged(count: int, *, binds: bool = False) -> AsyncIterator[Stage]:
    """Start a server with so many Nodes. Unless told otherwise Pods stay unbound: only what is written counts."""
    name = f"bench-nodeset-{os.getpid()}"
    settings = Settings(nodes=count, fleet="node", binds=binds, labels={POOL: "yes"}, keep=True)
    try:
        cluster = clusters.up(ClusterSpec(name=name, nodes=()), assets=assets.fill(images=False))
        async with Client(access.from_kubeconfig(cluster.kubeconfig)) as client:
            for kind in KINDS:
                await client.create(CRDS, yaml.safe_load(crd_yaml(kind)))
            async with spawned(settings, kubeconfig=cluster.kubeconfig):
                await _settled(client, settings)
                yield Stage(client, cluster, settings)
    finally:
        clusters.remove(name)


async def _settled(client: Client, settings: Settings) -> None:
    ours = Scope(labels=f"{FLEET}={settings.fleet}")
    while len((await client.list(LEASES, ours)).items) < settings.nodes:  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(1)
    while not all(_fits(node) for node in (await client.list(NODES, ours)).items):  # noqa: ASYNC110 - as above
        await asyncio.sleep(1)


def _fits(node: Any) -> bool:
    ready = condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "True" and not node.spec.taints


async def made_namespace(stage: Stage, name: str) -> None:
    with_account = False
    try:
        await stage.client.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        return
    while not with_account:
        try:
            await stage.client.get(ACCOUNTS, "default", namespace=name)
            with_account = True
        except NotFound:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def operating(stage: Stage, *, namespace: str) -> AsyncIterator["subprocess.Popen[bytes]"]:
    """Run `sunk operator` as a process of its own, for NodeSets of one namespace."""
    program = Path(sys.executable).with_name("sunk")
    command = [str(program), "operator", "--namespaces", namespace, "--lease-namespace", namespace]
    command += ["--kubeconfig", str(stage.cluster.kubeconfig), "--port", str(PORT), "--log-level", "warning"]
    child = subprocess.Popen(command)  # noqa: ASYNC220 - it is back at once
    try:
        await leading(stage.client, namespace=namespace)
        yield child
    finally:
        child.terminate()
        child.wait()


async def leading(client: Client, *, namespace: str) -> None:
    """Wait until an operator leads. One that was stopped has given up its Lease."""
    while not await _held(client, namespace=namespace):  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(0.1)


async def _held(client: Client, *, namespace: str) -> bool:
    try:
        return bool((await client.get(LEASES, OPERATOR_LEASE, namespace=namespace)).spec.holder_identity)
    except NotFound:
        return False


def set_body(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{NODESETS.group}/{NODESETS.version}",
        "kind": "NodeSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": TEMPLATE},
    }
