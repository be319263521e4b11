"""What a member is called: its Pod and its Slurm node have one name, decided once and kept in the slice.

By its address a Node has the same name whenever it comes back, and neighbours have neighbouring names, which Slurm
writes in a short way: `gpu-012-[002-064]`. Two Nodes may still get one name, when addresses differ in the first two
octets only; whoever gives names has to look whether it is taken.
"""

import re
from collections.abc import Container, Iterator
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address
from itertools import count
from typing import Final

from sunk.kube.core import Node
from sunk.model.refusal import Refusal

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class NameRefused(Refusal):
    """There is no name for this Node. The text says why and what to do."""


def address_name(prefix: str, node: Node) -> str:
    """`gpu-012-002` for a Node with the internal address 10.174.12.2; refused if it has no IPv4 address."""
    for one in node.status.addresses:
        if one.type == "InternalIP" and (octets := _octets(one.address)):
            return _label(f"{prefix}-{octets[2]:03d}-{octets[3]:03d}")
    found = ", ".join(one.address for one in node.status.addresses if one.type == "InternalIP") or "none"
    raise NameRefused(
        f"Node {node.metadata.name} has no internal IPv4 address to name its Slurm node by, found {found}: "
        "set spec.naming to ordinal, or give the Node an InternalIP."
    )


def ordinal_name(prefix: str, taken: Container[str]) -> str:
    """The first of `gpu-0`, `gpu-1`, … that is free."""
    return next(ordinal_names(prefix, taken))


def ordinal_names(prefix: str, taken: Container[str]) -> Iterator[str]:
    """All that are free, in order, each once. For many at a time, since the search goes on where it was."""
    for number in count():
        name = _label(f"{prefix}-{number}")
        if name not in taken:
            yield name


@lru_cache(maxsize=1 << 16)  # asked of every Node that could join, at every look
def _octets(address: str) -> bytes | None:
    try:
        return IPv4Address(address).packed
    except AddressValueError:
        return None


def _label(name: str) -> str:
    if _LABEL.fullmatch(name) is None:
        raise NameRefused(
            f'{name!r} is no name for a Pod: at most 63 small letters, digits and "-", which begin and end with a '
            "letter or a digit. Set spec.podNamePrefix to a shorter or plainer one."
        )
    return name
