"""Drains that people had put on machines whose Node was deleted since: Slurm owes them until they are seen there again."""

from typing import Final

from sunk.insight import laws
from sunk.kube.cache.store import Store
from sunk.kube.core import Node
from sunk.kube.resource import Key
from sunk.model.contract import kept
from sunk.objects.members import NodeSlice
from sunk.slurm.records import Node as Row

SHOWN: Final = 100


class Owed:
    """Remembers what Nodes said when they went; of one cluster."""

    def __init__(self, cluster: str, *, nodes: Store[Node], slices: Store[NodeSlice]) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._slices = slices
        self.drains: Final[dict[str, str]] = {}
        """By Node."""

    def node(self, key: Key, before: Node | None, after: Node | None) -> None:
        """Remember what a Node says of a person's drain when its object goes."""
        if before is None or (after is not None and after.metadata.uid == before.metadata.uid):
            return
        if said := kept.on_node(before.metadata.annotations, self._cluster):
            self.drains[key.name] = said[:SHOWN]

    def row(self, name: str, before: Row | None, after: Row | None) -> None:
        """Hear that somebody's drain is on, or was lifted.

        One that went with its record is still owed. So is one that is still on while the Node is away: its record goes
        next, and changes once more before it does.
        """
        if not self.drains or after is None or not any(laws.foreign(row) for row in (before, after) if row is not None):
            return
        for entry in (entry for one in self._slices.all() for entry in one.spec.entries):
            if entry.name == name and Key("", entry.node) in self._nodes:
                self.drains.pop(entry.node, None)
