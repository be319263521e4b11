"""Addresses for Services of type LoadBalancer.

Giving an address is all there is to it: the cluster's network routes the whole range to the nodes, and the proxy of
each node knows what to do with every address it finds in a Service's status.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from sunk.kube.client import Client
from sunk.kube.core import SERVICES, Service
from sunk.kube.errors import KubeError
from sunk.kube.patch import Merge
from sunk.kube.resource import Key
from sunk.kube.view import Changed, Deleted
from sunk.kube.watch import watch
from sunk.local.progress import note


def wanting(services: Iterable[Service], *, pool: str) -> Iterator[tuple[Service, str]]:
    """Give each balanced Service that has no address the lowest one that nobody has. One with another class waits."""
    services = list(services)
    taken = {ingress.ip for each in services for ingress in each.status.load_balancer.ingress}
    free = (str(address) for address in IPv4Network(pool).hosts() if str(address) not in taken)
    waiting = [each for each in services if _ours(each) and not each.status.load_balancer.ingress]
    return zip(sorted(waiting, key=lambda each: each.key), free, strict=False)


def _ours(service: Service) -> bool:
    return service.spec.type == "LoadBalancer" and not service.spec.load_balancer_class


async def serve(kube: Client, *, pool: str) -> None:
    known: dict[Key, Service] = {}
    async with watch(kube, SERVICES) as events:
        async for event in events:
            if isinstance(event, Changed):
                known[event.object.key] = event.object
            elif isinstance(event, Deleted):
                known.pop(event.object.key, None)
            for service, address in list(wanting(known.values(), pool=pool)):
                await _give(kube, service, address=address)


async def _give(kube: Client, service: Service, *, address: str) -> None:
    meta = service.metadata
    # The version makes sure that the address is not given to a Service that has just become something else.
    body = {
        "metadata": {"resourceVersion": meta.resource_version},
        "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
    }
    try:
        await kube.patch(SERVICES, meta.name, Merge(body), namespace=meta.namespace, subresource="status")
    except KubeError as trouble:
        # Whatever changed the Service brings the next event, and with it the next try.
        note(f"address {address} for {service.key}: {trouble}")
