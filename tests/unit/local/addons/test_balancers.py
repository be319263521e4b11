from typing import Any

from hypothesis import given, strategies as st

from sunk.kube.core import (
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    Ingress,
    LoadBalancer,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from sunk.kube.resource import Metadata
from sunk.local.addons.balancers import SERVICE, changes, present, routes, wanting

POOL = "10.77.208.0/28"


def service(name: str, *, address: str = "", kind: str = "LoadBalancer", of_class: str = "") -> Service:
    ingress = (Ingress(ip=address),) if address else ()
    return Service(
        metadata=Metadata(name=name, namespace="a"),
        spec=ServiceSpec(type=kind, load_balancer_class=of_class),
        status=ServiceStatus(load_balancer=LoadBalancer(ingress=ingress)),
    )


def test_a_service_without_an_address_gets_the_lowest_free_one() -> None:
    services = [service("first", address="10.77.208.1"), service("second")]
    assert [(each.metadata.name, address) for each, address in wanting(services, pool=POOL)] == [
        ("second", "10.77.208.2")
    ]


def test_other_services_and_other_classes_are_left_alone() -> None:
    assert not list(wanting([service("a", kind="ClusterIP"), service("b", of_class="cloud")], pool=POOL))


@given(st.lists(st.sampled_from(["", "10.77.208.1", "10.77.208.3"]), max_size=6))
def test_no_address_is_given_twice(addresses: list[str]) -> None:
    services = [service(f"s{index}", address=address) for index, address in enumerate(addresses)]
    given_now = [address for _, address in wanting(services, pool=POOL)]
    assert len({*given_now}) == len(given_now)
    assert not {*given_now} & {*addresses}


def test_more_services_than_addresses_leave_the_last_ones_waiting() -> None:
    services = [service(f"s{index:02d}") for index in range(20)]
    assert len(list(wanting(services, pool=POOL))) == 14


NODES = {"node-1": "10.77.192.1", "node-2": "10.77.192.2", "node-3": "10.77.192.3"}


def endpoints(of: str, **ready: bool | None) -> EndpointSlice:
    """A slice with a Pod on each of these nodes, by the name of the node with an underscore."""
    pods = (
        Endpoint(node_name=name.replace("_", "-"), conditions=EndpointConditions(ready=state))
        for name, state in ready.items()
    )
    labels = {SERVICE: of}
    return EndpointSlice(metadata=Metadata(name=f"{of}-x", namespace="a", labels=labels), endpoints=tuple(pods))


def test_an_address_leads_to_the_nodes_that_have_ready_pods() -> None:
    slices = [
        endpoints("web", node_1=True, node_2=False),
        endpoints("web", node_3=None),
        endpoints("other", node_2=True),
    ]
    found = routes([service("web", address="10.77.208.1")], slices, nodes=NODES)
    assert found == {"10.77.208.1": {"10.77.192.1", "10.77.192.3"}}


def test_a_service_without_ready_pods_keeps_the_route_of_the_range() -> None:
    bare = EndpointSlice(metadata=Metadata(name="web-x", namespace="a", labels={SERVICE: "web"}), endpoints=None)
    elsewhere = endpoints("web", node_9=True)
    assert not routes([service("web", address="10.77.208.1")], [bare, elsewhere], nodes=NODES)
    assert not routes([service("web")], [endpoints("web", node_1=True)], nodes=NODES)


def test_only_what_differs_is_changed() -> None:
    both = frozenset({"10.77.192.1", "10.77.192.2"})
    now = {"10.77.208.1": both, "10.77.208.2": both, "10.77.208.3": both}
    wanted = {"10.77.208.1": both, "10.77.208.2": frozenset({"10.77.192.2"})}
    assert list(changes(now, wanted)) == [
        "route replace 10.77.208.2/32 nexthop via 10.77.192.2",
        "route delete 10.77.208.3/32",
    ]


def test_routes_are_read_as_ip_prints_them() -> None:
    listing: list[dict[str, Any]] = [
        {"dst": "default", "gateway": "10.77.255.1"},
        {"dst": "10.77.208.0/28", "nexthops": [{"gateway": "10.77.192.1"}]},
        {"dst": "10.77.208.1", "gateway": "10.77.192.1", "dev": "nodes"},
        {"dst": "10.77.208.2", "nexthops": [{"gateway": "10.77.192.1"}, {"gateway": "10.77.192.2"}]},
        {"dst": "10.77.1.0/24", "gateway": "10.77.192.1"},
        {"dst": "10.77.255.2", "dev": "host"},
    ]
    assert present(listing, pool=POOL) == {
        "10.77.208.1": {"10.77.192.1"},
        "10.77.208.2": {"10.77.192.1", "10.77.192.2"},
    }
