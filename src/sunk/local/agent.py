"""What in a real cloud the provider does: DNS and storage classes, addresses, volumes, and what a node is said to be.

One process per cluster, beside the control plane. It keeps no state: killed and started again, it finds all it needs
in the API.
"""

import asyncio
from typing import Any, Final

import click

from sunk.kube import access
from sunk.kube.client import Client
from sunk.kube.core import NODES, Node, condition
from sunk.kube.errors import ApiError, KubeError, NotFound, Unreachable
from sunk.kube.loop import run
from sunk.kube.patch import Apply, Strategic
from sunk.kube.view import Changed
from sunk.kube.watch import watch
from sunk.local import balancers, volumes
from sunk.local.cluster import Cluster, find, settled
from sunk.local.control import dns_objects
from sunk.local.progress import note
from sunk.local.spec import Node as Wanted
from sunk.model.refusal import Refusal

MANAGER: Final = "sunk-local"
PATIENCE: Final = 0.2


async def serve(cluster: Cluster) -> None:
    async with Client(access.from_kubeconfig(cluster.kubeconfig)) as kube, asyncio.TaskGroup() as tasks:
        await provide(kube, cluster)
        tasks.create_task(balancers.serve(kube, pool=cluster.network.balancers), name="balancers")
        tasks.create_task(volumes.serve(kube, folder=cluster.folder / "volumes"), name="volumes")
        tasks.create_task(describe_nodes(kube, cluster), name="nodes")


async def provide(kube: Client, cluster: Cluster) -> None:
    """Apply the objects that every cluster has. For a moment after its start the API server takes none of them."""
    for body in (*dns_objects(cluster.network), *volumes.classes()):
        while True:
            try:
                await apply(kube, body)
                break
            except (ApiError, Unreachable):
                await asyncio.sleep(PATIENCE)


PLURALS: Final = {"Service": "services", "EndpointSlice": "endpointslices", "StorageClass": "storageclasses"}


async def apply(kube: Client, body: dict[str, Any]) -> None:
    version, name, namespace = body["apiVersion"], body["metadata"]["name"], body["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{namespace}" if namespace else ""
    path = f"{root}{within}/{PLURALS[body['kind']]}/{name}"
    query = {"fieldManager": MANAGER, "force": "true"}
    await kube.request("PATCH", path, body=body, query=query, media=Apply.media)


async def describe_nodes(kube: Client, cluster: Cluster) -> None:
    """Give each Node its labels and resources, again whenever it comes back without them; tell when all are ready."""
    wanted = {node.name: node for node in cluster.spec.nodes}
    ready: set[str] = set()
    async with watch(kube, NODES) as events:
        async for event in events:
            if not isinstance(event, Changed) or event.object.metadata.name not in wanted:
                continue
            node = event.object
            if change := missing(node, wanted[node.metadata.name]):
                await _describe(kube, node, change=change)
            elif (state := condition(node.status.conditions, "Ready")) and state.status == "True":
                ready.add(node.metadata.name)
            if ready == wanted.keys():
                settled(cluster).touch()


def missing(node: Node, wanted: Wanted) -> dict[str, dict[str, Any]]:
    """What a Node lacks of what nodes.yaml says, as patches by subresource ("" is the object itself)."""
    labels = {key: value for key, value in wanted.labels.items() if node.metadata.labels.get(key) != value}
    resources = {key: str(count) for key, count in wanted.resources.items()}
    patches = {}
    if labels:
        patches[""] = {"metadata": {"labels": labels}}
    # The kubelet derives the second from the first, but only at its next report.
    if any(resources.items() - status.items() for status in (node.status.capacity, node.status.allocatable)):
        patches["status"] = {"status": {"capacity": resources, "allocatable": resources}}
    return patches


async def _describe(kube: Client, node: Node, *, change: dict[str, dict[str, Any]]) -> None:
    for subresource, body in change.items():
        try:
            await kube.patch(NODES, node.metadata.name, Strategic(body), subresource=subresource)
        except NotFound:
            return
        except KubeError as trouble:
            note(f"{node.metadata.name}: {trouble}")


@click.command(hidden=True)
@click.option("--name", required=True)
def agent(*, name: str) -> None:
    """Serve one cluster; `up` starts this."""
    cluster = find(name)
    if cluster is None:
        raise Refusal(f"no cluster called {name} is written down.")
    run(serve(cluster))


if __name__ == "__main__":
    agent()
