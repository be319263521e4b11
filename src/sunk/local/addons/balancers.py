"""Addresses for Services of type LoadBalancer.

The proxy of each node knows what to do with every address it finds in a Service's status. But a node without a Pod of
a Service with `externalTrafficPolicy: Local` drops what comes for it, and expects the balancer to know. So each address
has a route of its own, to the nodes on which the Service has ready Pods; the whole range leads to all nodes, for
addresses of which nothing is known yet.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.control.controller import Controller, Source
from sunk.kube.core import EndpointSlice, Service
from sunk.kube.resource import Key
from sunk.local.kubernetes.network import LocalNetwork
from sunk.local.shell import run

SERVICE: Final = "kubernetes.io/service-name"


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


Routes = dict[str, frozenset[str]]
"""Addresses of nodes by the address that leads to them."""


def routes(services: Iterable[Service], slices: Iterable[EndpointSlice], *, nodes: Mapping[str, str]) -> Routes:
    """Where each address should lead. `nodes` has their addresses by name."""
    homes: dict[Key, set[str]] = defaultdict(set)
    for each in slices:
        of = Key(each.metadata.namespace, each.metadata.labels.get(SERVICE, ""))
        homes[of] |= {one.node_name for one in each.endpoints or () if one.conditions.ready is not False}
    made: Routes = {}
    for service in services:
        hops = frozenset(nodes[name] for name in homes[service.key] if name in nodes)
        made |= {ingress.ip: hops for ingress in service.status.load_balancer.ingress if ingress.ip and hops}
    return made


def changes(now: Routes, wanted: Routes) -> Iterator[str]:
    """Lines for `ip -batch` that turn one into the other."""
    for address, hops in sorted(wanted.items()):
        if now.get(address) != hops:
            yield f"route replace {address}/32 {' '.join(f'nexthop via {hop}' for hop in sorted(hops))}"
    for address in sorted(now.keys() - wanted.keys()):
        yield f"route delete {address}/32"


def present(listing: Sequence[Mapping[str, Any]], *, pool: str) -> Routes:
    """Those routes that lead from a single address, out of what `ip -json route` prints."""
    found = {}
    for route in listing:
        address, slash, _ = str(route["dst"]).partition("/")
        if address == "default" or slash or IPv4Address(address) not in IPv4Network(pool):
            continue
        found[address] = frozenset(hop["gateway"] for hop in route.get("nexthops", (route,)) if "gateway" in hop)
    return found


def router(
    services: Collection[Service], slices: Collection[EndpointSlice], *, network: LocalNetwork, nodes: Sequence[str]
) -> Controller[str]:
    """Keep the routes of the namespace that this process is in, which is the way into the cluster."""
    addresses = {name: network.node(index) for index, name in enumerate(nodes, start=1)}

    async def reconcile(_: str) -> None:
        wanted = routes(services.store.all(), slices.store.all(), nodes=addresses)
        await asyncio.to_thread(_lay, wanted, network.balancers)

    sources: list[Source[Any, str]] = [Source(one, lambda _: ("all",)) for one in (services.store, slices.store)]
    return Controller("routes", reconcile, sources=sources)


def _lay(wanted: Routes, pool: str) -> None:
    lines = list(changes(present(json.loads(run(["ip", "-json", "-4", "route"])), pool=pool), wanted))
    if lines:
        run(["ip", "-force", "-batch", "-"], stdin="\n".join(lines) + "\n")
