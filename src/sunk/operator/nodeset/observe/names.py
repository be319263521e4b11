"""What a member is called: its Pod and its Slurm node have one name, decided once and kept in the slice.

By its address a Node has the same name whenever it comes back, and neighbours have neighbouring names, which Slurm
writes in a short way: `gpu-012-[002-064]`. Two Nodes may still get one name, when addresses differ in the first two
octets only; so a name is given only if nobody has it.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address
from itertools import count
from typing import Final

from sunk.kube.core import Node
from sunk.model.names import POD
from sunk.model.refusal import Refusal
from sunk.objects.nodesets import NodeSet, claim_of

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
        f"Node {node.metadata.name} has no internal IPv4 address to name its Slurm node by (found: {found}). "
        "Set spec.naming to ordinal, or give the Node an InternalIP."
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
            f'{name!r} is not a valid Pod name: use at most 63 lowercase letters, digits and "-", beginning and ending '
            "with a letter or a digit. Set spec.podNamePrefix to a shorter or simpler one."
        )
    return name


NOT_YET: Final = "its name was released, but the syncer has not seen yet that the entry is gone"
"""Nothing to complain of: it is a matter of moments."""


class UsedNames:
    """Names in use, some of which are only looked up when they are asked for."""

    def __init__(self, names: set[str], *, released: frozenset[str], also: Callable[[str], bool]) -> None:
        self._names = names
        self._also = also
        self.released = released - names

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._names or name in self.released or self._also(name))

    def add(self, name: str) -> None:
        self._names.add(name)


def decided(owner: NodeSet, nodes: Iterable[Node], taken: UsedNames) -> Iterator[tuple[str, str]]:
    """The names of Nodes that were claimed by somebody who died right after it: their Pods may be on the way."""
    prefix = owner.spec.pod_name_prefix or owner.metadata.name
    for node in nodes:
        name = node.metadata.labels.get(POD, "")
        if claim_of(node) == owner.metadata.uid and name.startswith(f"{prefix}-") and name not in taken:
            taken.add(name)
            yield node.metadata.name, name


def names_for(owner: NodeSet, *, taken: UsedNames) -> Callable[[Node], str]:
    """Give each Node a name that is not taken, or refuse one that has none."""
    prefix = owner.spec.pod_name_prefix or owner.metadata.name
    ordinals = ordinal_names(prefix, taken)

    def by_address(node: Node) -> str:
        name = address_name(prefix, node)
        if name in taken.released:
            raise NameRefused(NOT_YET)
        if name in taken:
            raise NameRefused(f"the name {name} is already in use: set another podNamePrefix, or naming: ordinal")
        taken.add(name)
        return name

    return by_address if owner.spec.naming == "address" else lambda _: next(ordinals)
