"""Addresses for Services of type LoadBalancer.

Giving an address is all there is to it: the cluster's network routes the whole range to the nodes, and the proxy of
each node knows what to do with every address it finds in a Service's status.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from sunk.kube.collection import Collection
from sunk.kube.controller import Controller, Source
from sunk.kube.core import Service
from sunk.kube.patch import Merge


def wanting(services: Iterable[Service], *, pool: str) -> Iterator[tuple[Service, str]]:
    """Give each balanced Service that has no address the lowest one that nobody has. One with another class waits."""
    services = list(services)
    taken = {ingress.ip for each in services for ingress in each.status.load_balancer.ingress}
    free = (str(address) for address in IPv4Network(pool).hosts() if str(address) not in taken)
    waiting = [each for each in services if _ours(each) and not each.status.load_balancer.ingress]
    return zip(sorted(waiting, key=lambda each: each.key), free, strict=False)


def _ours(service: Service) -> bool:
    return service.spec.type == "LoadBalancer" and not service.spec.load_balancer_class


def controller(services: Collection[Service], *, pool: str) -> Controller[str]:
    """Look at all of them whenever one changes: an address is free or taken only in view of the others."""

    async def reconcile(_: str) -> None:
        for service, address in list(wanting(services.store.all(), pool=pool)):
            # The version makes sure that the address is not given to a Service that has just become something else.
            body = {
                "metadata": {"resourceVersion": service.metadata.resource_version},
                "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
            }
            await services.patch(service.key, Merge(body), status=True)

    return Controller("balancers", reconcile, sources=[Source(services.store, lambda _: ("all",))])
