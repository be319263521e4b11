"""How many of the Pods that are ready Slurm knows, kept by what both sides tell.

A slurmctld that lost its state knows none of them, so nothing is given up upon what it does not know while that is most
of them. It is asked for every Pod that has to go; to walk through all Pods each time would make a thousand of them cost a
million looks.
"""

from sunk.kube.cache.store import Store
from sunk.kube.resource import Key
from sunk.slurm.mirror.rows import Rows
from sunk.slurm.records import Node
from sunk.syncer.pods import ComputePod, ready
from sunk.syncer.removal.unregistered import told_lost


class Registered:
    """Followed for as long as the store of Pods and the mirror are."""

    def __init__(self, pods: Store[ComputePod], nodes: Rows[str, Node]) -> None:
        self._nodes = nodes
        self._ready: set[str] = set()
        self._unknown: set[str] = set()
        for pod in pods.all():
            self._pod(pod.key, None, pod)
        pods.subscribe(self._pod)
        nodes.subscribe(lambda name, _, after: self._row(name, known=after is not None))

    def lost(self) -> str:
        """Say so if Slurm does not know most of the Pods that are ready; empty if it knows enough of them."""
        return told_lost(self._unknown, of=len(self._ready))

    def _pod(self, key: Key, _: ComputePod | None, after: ComputePod | None) -> None:
        is_ready = after is not None and ready(after)
        (self._ready.add if is_ready else self._ready.discard)(key.name)
        self._row(key.name, known=key.name in self._nodes)

    def _row(self, name: str, *, known: bool) -> None:
        (self._unknown.add if name in self._ready and not known else self._unknown.discard)(name)
