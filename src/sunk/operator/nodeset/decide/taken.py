"""Names for Nodes that join: those decided already, and new ones that nobody has."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from sunk.kube.core import Node
from sunk.model.names import POD
from sunk.objects.members import NodeSet
from sunk.operator.nodeset.act.claims import claim_of
from sunk.operator.nodeset.decide.naming import NameRefused, address_name, ordinal_names

NOT_YET: Final = "its name was released, and the syncer has not seen yet that the entry is gone"
"""Nothing to complain of: it is a matter of moments."""


class Taken:
    """Names in use, some of which are only looked up when they are asked for."""

    def __init__(self, names: set[str], *, released: frozenset[str], also: Callable[[str], bool]) -> None:
        self._names = names
        self._also = also
        self.released = released - names

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._names or name in self.released or self._also(name))

    def add(self, name: str) -> None:
        self._names.add(name)


def decided(owner: NodeSet, nodes: Iterable[Node], taken: Taken) -> Iterator[tuple[str, str]]:
    """The names of Nodes that were claimed by somebody who died right after it: their Pods may be on the way."""
    prefix = owner.spec.pod_name_prefix or owner.metadata.name
    for node in nodes:
        name = node.metadata.labels.get(POD, "")
        if claim_of(node) == owner.metadata.uid and name.startswith(f"{prefix}-") and name not in taken:
            taken.add(name)
            yield node.metadata.name, name


def names_for(owner: NodeSet, *, taken: Taken) -> Callable[[Node], str]:
    """Give each Node a name that is not taken, or refuse one that has none."""
    prefix = owner.spec.pod_name_prefix or owner.metadata.name
    ordinals = ordinal_names(prefix, taken)

    def by_address(node: Node) -> str:
        name = address_name(prefix, node)
        if name in taken.released:
            raise NameRefused(NOT_YET)
        if name in taken:
            raise NameRefused(f"the name {name} is in use: set another podNamePrefix, or naming: ordinal")
        taken.add(name)
        return name

    return by_address if owner.spec.naming == "address" else lambda _: next(ordinals)
