"""What in a real cloud the provider does: DNS and storage classes, addresses, volumes, and what a node is said to be.

One process per cluster, beside the control plane. It keeps no state: killed and started again, it finds all it needs
in the API.
"""

import asyncio
from typing import Any, Final

import click

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Apply, Strategic
from sunk.kube.api.retry import Retry
from sunk.kube.auth import access
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Source, itself
from sunk.kube.core import CLAIMS, ENDPOINT_SLICES, NODES, SERVICES, VOLUMES, Node, condition
from sunk.kube.errors import ApiError, Unreachable
from sunk.kube.process import logs
from sunk.kube.process.loop import run
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.local.addons import balancers, volumes
from sunk.local.kubernetes.cluster import LocalCluster, find, settled
from sunk.local.kubernetes.controlplane import dns_objects
from sunk.local.kubernetes.spec import LocalNode as Wanted
from sunk.model.refusal import Refusal

MANAGER: Final = "sunk-local"
PATIENCE: Final = 0.2


async def serve(cluster: LocalCluster) -> None:
    """Do all of it until the end of the process."""
    async with Client(access.from_kubeconfig(cluster.kubeconfig), retry=Retry()) as kube:
        await provide(kube, cluster)
        services, nodes = Collection(kube, SERVICES), Collection(kube, NODES)
        slices = Collection(kube, ENDPOINT_SLICES)
        claims, made = Collection(kube, CLAIMS), Collection(kube, VOLUMES)
        controllers = (
            balancers.controller(services, pool=cluster.network.balancers),
            balancers.router(services, slices, network=cluster.network, nodes=cluster.spec.node_names),
            volumes.controller(claims, made, folder=cluster.folder / "volumes"),
            describer(nodes, cluster),
        )
        duties = {f"follow {each.store.name}": each.run() for each in (services, slices, nodes, claims, made)}
        async with running({**duties, **{each.name: each.run() for each in controllers}}):
            await asyncio.Event().wait()


async def provide(kube: Client, cluster: LocalCluster) -> None:
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


def describer(nodes: Collection[Node], cluster: LocalCluster) -> Controller[Key]:
    """Give each Node its labels and resources, again whenever it comes back without them; tell when all are ready."""
    wanted = {Key("", node.name): node for node in cluster.spec.nodes}

    async def reconcile(key: Key) -> None:
        if key in wanted and (node := nodes.store.get(key)):
            for subresource, body in missing(node, wanted[key]).items():
                await nodes.patch(key, Strategic(body), status=subresource == "status")
        found = [nodes.store.get(each) for each in wanted]
        if all(each and ready(each) and not missing(each, wanted[each.key]) for each in found):
            settled(cluster).touch()

    return Controller("nodes", reconcile, sources=[Source(nodes.store, itself)])


def ready(node: Node) -> bool:
    state = condition(node.status.conditions, "Ready")
    return state is not None and state.status == "True"


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


@click.command(hidden=True)
@click.option("--name", required=True)
def agent(*, name: str) -> None:
    """Serve one cluster; `up` starts this."""
    cluster = find(name)
    if cluster is None:
        raise Refusal(f"no cluster {name} is recorded.")
    logs.start()
    run(serve(cluster))


if __name__ == "__main__":
    agent()
