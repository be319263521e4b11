from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from sunk.local.kubernetes import network
from sunk.local.kubernetes.network import MOST_NODES, LocalNetwork, choose_block
from sunk.model.refusal import Refusal

blocks = st.integers(0, 255).map(lambda octet: f"10.{octet}.0.0/16")


@given(block=blocks)
def test_the_parts_of_a_block_lie_inside_it_and_apart(block: str) -> None:
    plan = LocalNetwork(cluster="a", block=block)
    link = f"{plan.host}/30"
    ranges = [IPv4Network(part, strict=False) for part in (plan.pods, plan.services, plan.nodes, plan.balancers, link)]
    assert all(part.subnet_of(IPv4Network(block)) for part in ranges)
    assert not any(one.overlaps(other) for one, other in combinations(ranges, 2))


@given(index=st.integers(1, MOST_NODES))
def test_every_node_has_its_own_address_and_pods(index: int) -> None:
    plan = LocalNetwork(cluster="a", block="10.77.0.0/16")
    assert IPv4Network(plan.pods_of(index)).subnet_of(IPv4Network(plan.pods))
    assert IPv4Address(plan.node(index)) in IPv4Network(plan.nodes)
    assert plan.node(index) != plan.gateway


def test_a_taken_subnet_is_refused_with_what_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_taken", lambda: [IPv4Network("10.80.3.0/24")])
    with pytest.raises(Refusal, match=r"10\.80\.0\.0/16 is taken.*10\.80\.3\.0/24"):
        choose_block("10.80.0.0/16")


def test_the_first_free_block_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_taken", lambda: [IPv4Network("10.77.0.0/16"), IPv4Network("10.78.255.0/30")])
    assert choose_block() == "10.79.0.0/16"


def test_a_machine_without_room_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_taken", lambda: [IPv4Network("10.0.0.0/8")])
    with pytest.raises(Refusal, match="--subnet"):
        choose_block()


@pytest.mark.parametrize("wanted", ["10.77.0.0/24", "192.168.0.0/16", "10.77.1.0/16", "everything", "fd00::/16"])
def test_a_subnet_that_is_no_private_16_is_refused(wanted: str) -> None:
    with pytest.raises(Refusal, match=wanted):
        choose_block(wanted)
