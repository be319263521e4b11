from hypothesis import given, strategies as st

from sunk.kube.core import Ingress, LoadBalancer, Service, ServiceSpec, ServiceStatus
from sunk.kube.resource import Metadata
from sunk.local.balancers import wanting

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
