"""The network of a Slurm cluster on this machine: a bridge in a namespace of its own, and a namespace per box on it.

Nothing connects these namespaces with this machine or with each other's clusters, and there is no default route. So
every cluster uses the same addresses and ports, and no packet gets out.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from sunk.local.shell import run

BRIDGE: Final = "boxes"
BLOCK: Final = IPv4Network("10.0.0.0/16")
# Left to itself a bridge takes the lowest address of its ports; so a new box could change it, and the others would
# send into the void until they ask again, ten seconds later.
HARDWARE: Final = "02:00:00:00:00:01"
# Boxes are numbered in the order in which they are made.
CONTROLLER, LOGIN, FIRST_NODE = 0, 1, 2
# Behind every node there can be.
ACCOUNTING, DATABASE = 60_000, 60_001


def address(index: int) -> str:
    """The address of the box with this index."""
    return str(IPv4Address(BLOCK.network_address + 1 + index))


def namespace(cluster: str, box: str = "") -> str:
    """As `network.remove` looks for them. The bridge is in the one without a box's name."""
    return f"sunk.{cluster}.{box}" if box else f"sunk.{cluster}"


def lay(cluster: str) -> None:
    """Make the bridge, with the first address on it."""
    inside = namespace(cluster)
    _batch("", [f"netns add {inside}"])
    lines = [
        "link set lo up",
        f"link add {BRIDGE} address {HARDWARE} type bridge",
        f"address add {address(CONTROLLER)}/{BLOCK.prefixlen} dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]
    _batch(inside, lines)


def connect(cluster: str, boxes: dict[str, int]) -> None:
    """Give boxes, by name and index, a namespace with a link to the bridge each."""
    inside = {name: namespace(cluster, name) for name in boxes}
    _batch("", [f"netns add {each}" for each in inside.values()])
    links = []
    for name, index in boxes.items():
        links.append(f"link add box{index} type veth peer name eth0 netns {inside[name]}")
        links.append(f"link set box{index} master {BRIDGE} up")
    _batch(namespace(cluster), links)
    for name, index in boxes.items():
        own = f"address add {address(index)}/{BLOCK.prefixlen} dev eth0"
        _batch(inside[name], ["link set lo up", own, "link set eth0 up"])


def _batch(inside: str, lines: Sequence[str]) -> None:
    where = ("-netns", inside) if inside else ()
    run(["ip", *where, "-batch", "-"], stdin="\n".join(lines) + "\n")
