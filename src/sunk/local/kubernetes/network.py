"""The network of a local cluster: one /16 of private addresses, in namespaces of its own.

    this machine ── link ── sunk.<name>: control plane, bridge ──┬── sunk.<name>.node-1: kubelet, containerd, Pods
                                                                 └── sunk.<name>.node-2 …

The control plane's namespace is the cluster's only way out, and it leads to this machine and no further: no namespace
has a route beyond the cluster's own /16. So ports never collide, this machine's own forwarding and firewall stay as
they are, and no packet of a Pod can leave. A Service or load-balancer address that no proxy rule catches is looked
for on the bridge, where nobody answers: it dies there.

Everything is found again by name (namespaces, and an alias on the link), so `down` needs no memory of what `up` did.
"""

import ipaddress
import json
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import msgspec

from sunk.local.naming import checked_name
from sunk.local.shell import run
from sunk.model.refusal import Refusal

NAMESPACES = Path("/run/netns")
OCTETS = range(77, 93)
MOST_NODES = 120
API_PORT = 6443
BRIDGE = "nodes"


class LocalNetwork(msgspec.Struct, frozen=True):
    """The address plan of one cluster inside its /16 `block`."""

    cluster: str
    block: str

    @property
    def _base(self) -> IPv4Address:
        return IPv4Network(self.block).network_address

    def pods_of(self, index: int) -> str:
        """Pod addresses of the node with this index, counted from 1."""
        return f"{self._base + (index << 8)}/24"

    @property
    def pods(self) -> str:
        return f"{self._base}/17"

    @property
    def services(self) -> str:
        return f"{self._base + (128 << 8)}/18"

    @property
    def api_service(self) -> str:
        """The first address of the range: Kubernetes gives it to the Service `kubernetes`."""
        return str(self._base + (128 << 8) + 1)

    @property
    def dns_service(self) -> str:
        return str(self._base + (128 << 8) + 10)

    @property
    def nodes(self) -> str:
        return f"{self._base + (192 << 8)}/20"

    def node(self, index: int) -> str:
        return str(self._base + (192 << 8) + index)

    @property
    def gateway(self) -> str:
        return str(self._base + (200 << 8) + 1)

    @property
    def balancers(self) -> str:
        """Addresses for Services of type LoadBalancer."""
        return f"{self._base + (208 << 8)}/20"

    @property
    def host(self) -> str:
        """This machine's end of the link."""
        return str(self._base + (255 << 8) + 1)

    @property
    def api(self) -> str:
        """The control plane's end of the link: API server, DNS."""
        return str(self._base + (255 << 8) + 2)

    @property
    def link(self) -> str:
        return f"sunk{self.block.split('.')[1]}"

    @property
    def namespace(self) -> str:
        return f"sunk.{self.cluster}"

    def namespace_of(self, node: str) -> str:
        return f"{self.namespace}.{node}"


def choose_block(wanted: str | None = None) -> str:
    """A /16 that this machine does not use yet: the one asked for, or the first free one of ours."""
    taken = _taken()
    if wanted is not None:
        block = _parse(wanted)
        if clash := next((used for used in taken if used.overlaps(block)), None):
            raise Refusal(f"{wanted} is taken: this machine already has a route to {clash}. Choose another --subnet.")
        return str(block)
    for octet in OCTETS:
        block = IPv4Network(f"10.{octet}.0.0/16")
        if not any(used.overlaps(block) for used in taken):
            return str(block)
    raise Refusal(
        f"every network from 10.{OCTETS[0]}.0.0/16 to 10.{OCTETS[-1]}.0.0/16 is in use on this machine. "
        "Stop a cluster with `sunk local down --name …`, or choose a free private /16 with --subnet."
    )


def _parse(wanted: str) -> IPv4Network:
    try:
        block = IPv4Network(wanted)
    except ValueError as wrong:
        raise Refusal(f"--subnet {wanted}: {wrong}. Give a private IPv4 network such as 10.77.0.0/16.") from wrong
    if block.prefixlen != 16 or not block.subnet_of(IPv4Network("10.0.0.0/8")):  # noqa: PLR2004 (a /16 is a /16)
        raise Refusal(f"--subnet {wanted} is not a /16 inside 10.0.0.0/8. Give one such as 10.77.0.0/16.")
    return block


def _taken() -> list[IPv4Network]:
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]))
    destinations = (str(route["dst"]) for route in routes if route.get("type") != "broadcast")
    return [ipaddress.IPv4Network(each) for each in destinations if each != "default"]


def connect(network: LocalNetwork) -> None:
    """Make the control plane's namespace and the link between it and this machine."""
    inside = network.namespace
    run(["ip", "netns", "add", inside])
    _ip(
        f"link add {network.link} type veth peer name host netns {inside}",
        f"link set {network.link} alias {inside}",
        f"address add {network.host}/30 dev {network.link}",
        f"link set {network.link} up",
        f"route add {network.block} via {network.api} dev {network.link}",
    )
    _ip(
        "link set lo up",
        f"address add {network.api}/30 dev host",
        "link set host up",
        namespace=inside,
    )


def add_bridge(network: LocalNetwork, *, nodes: int) -> None:
    """Make the bridge that nodes hang on, with routes to the Pods of each."""
    hops = " ".join(f"nexthop via {network.node(index)}" for index in range(1, nodes + 1))
    _ip(
        # Left to itself a bridge takes the lowest hardware address of its ports, and when one joins that may change:
        # neighbours then talk to nobody for ten seconds.
        f"link add {BRIDGE} address 02:00:00:00:00:01 type bridge",
        f"address add {network.gateway}/20 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        *(f"route add {network.pods_of(index)} via {network.node(index)}" for index in range(1, nodes + 1)),
        # Every node's proxy knows every Service; several hops, so that a dead node does not cut them all off. An
        # address of a balancer gets a better route when it is known where its Pods are: see balancers.
        f"route add {network.services} {hops}",
        f"route add {network.balancers} {hops}",
        namespace=network.namespace,
    )
    _forward(network.namespace)
    # By connection and not by the two addresses: else all of this machine's connections take the same hop.
    _set(network.namespace, "net/ipv4/fib_multipath_hash_policy", "1")


def add_node(network: LocalNetwork, *, name: str, index: int) -> None:
    inside, outside = network.namespace_of(name), f"node{index}"
    run(["ip", "netns", "add", inside])
    _ip(
        f"link add {outside} type veth peer name eth0 netns {inside}",
        f"link set {outside} master {BRIDGE} up",
        namespace=network.namespace,
    )
    _ip(
        "link set lo up",
        f"address add {network.node(index)}/20 dev eth0",
        "link set eth0 up",
        f"route add {network.block} via {network.gateway}",
        f"route add {network.services} dev eth0",
        f"route add {network.balancers} dev eth0",
        namespace=inside,
    )
    _forward(inside)


def remove(cluster: str) -> None:
    """Remove every namespace and link of a cluster, whatever state they are in."""
    # The link first: with its namespace it would vanish too, but at a moment of the kernel's own choosing.
    for name in links(cluster):
        _delete("link", name, among=links, cluster=cluster)
    for name in namespaces(cluster):
        _delete("netns", name, among=namespaces, cluster=cluster)


def _delete(kind: str, name: str, *, among: Callable[[str], list[str]], cluster: str) -> None:
    """Delete what may go at the same moment, by somebody else's hand or with what it hangs on."""
    try:
        run(["ip", kind, "delete", name])
    except Refusal:
        if name in among(cluster):
            raise


def namespaces(cluster: str) -> list[str]:
    """Names have no dot, so `sunk.a.` never matches a namespace of cluster `a-b`."""
    found = NAMESPACES.iterdir() if NAMESPACES.is_dir() else ()
    own = f"sunk.{checked_name(cluster)}"
    return sorted(each.name for each in found if each.name == own or each.name.startswith(f"{own}."))


def links(cluster: str) -> list[str]:
    every: Iterable[dict[str, str]] = json.loads(run(["ip", "-json", "link", "show"]))
    return [each["ifname"] for each in every if each.get("ifalias") == f"sunk.{checked_name(cluster)}"]


def _ip(*lines: str, namespace: str | None = None) -> None:
    inside: Sequence[str] = ("-netns", namespace) if namespace else ()
    run(["ip", *inside, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _forward(namespace: str) -> None:
    _set(namespace, "net/ipv4/ip_forward", "1")


def _set(namespace: str, setting: str, value: str) -> None:
    run(["ip", "netns", "exec", namespace, "sh", "-c", f"echo {value} > /proc/sys/{setting}"])
