"""Names of members: by the Node's address, or counted."""

from itertools import islice

import msgspec
import pytest
from hypothesis import given, strategies as st

from sunk.kube.core import Node
from sunk.model.nodeset import LONGEST_PREFIX
from sunk.operator.nodeset.observe.names import NameRefused, address_name, ordinal_name, ordinal_names


def node(*addresses: str, kind: str = "InternalIP") -> Node:
    found = [{"type": "Hostname", "address": "10.9.9.9"}, {"type": "ExternalIP", "address": "8.8.8.8"}]
    found += [{"type": kind, "address": one} for one in addresses]
    return msgspec.convert({"metadata": {"name": "node-1"}, "status": {"addresses": found}}, Node)


def test_a_name_ends_with_the_last_two_octets_in_three_digits_each() -> None:
    assert address_name("gpu", node("10.174.12.2")) == "gpu-012-002"
    assert address_name("h100-a", node("10.0.139.255")) == "h100-a-139-255"


def test_the_first_internal_ipv4_address_counts() -> None:
    assert address_name("gpu", node("fd00::1", "10.0.1.2", "10.0.3.4")) == "gpu-001-002"


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (node(), "none"),
        (node("fd00::1", "fd00::2"), "fd00::1, fd00::2"),
        (node("10.0.0.1", kind="InternalDNS"), "none"),
    ],
)
def test_without_an_ipv4_address_there_is_no_name(found: Node, shown: str) -> None:
    with pytest.raises(NameRefused) as refused:
        address_name("gpu", found)
    assert f"Node node-1 has no internal IPv4 address to name its Slurm node by (found: {shown})" in str(refused.value)
    assert "spec.naming to ordinal" in str(refused.value)


def test_the_longest_prefix_fits() -> None:
    assert len(address_name("x" * LONGEST_PREFIX, node("10.0.1.2"))) == 62


@pytest.mark.parametrize("prefix", ["x" * 56, "Gpu", "gpu_a", "-gpu", "", "gpu.a", "gpü"])
def test_what_would_be_no_dns_label_is_refused(prefix: str) -> None:
    with pytest.raises(NameRefused, match="is not a valid Pod name"):
        address_name(prefix, node("10.0.1.2"))
    if len(prefix) < 56:
        with pytest.raises(NameRefused, match="is not a valid Pod name"):
            ordinal_name(prefix, ())


def test_ordinals_fill_the_first_gap() -> None:
    assert ordinal_name("gpu", set()) == "gpu-0"
    assert ordinal_name("gpu", {"gpu-0", "gpu-1", "gpu-3", "cpu-2"}) == "gpu-2"


@given(st.sets(st.integers(0, 30)), st.integers(0, 20))
def test_many_ordinals_are_those_that_one_would_get_one_by_one(used: set[int], many: int) -> None:
    taken = {f"gpu-{number}" for number in used}
    together = list(islice(ordinal_names("gpu", taken), many))
    one_by_one: list[str] = []
    for _ in range(many):
        one_by_one.append(ordinal_name("gpu", taken | set(one_by_one)))
    assert together == one_by_one
