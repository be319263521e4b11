"""From Slurm to Kubernetes: every compute Pod says how its Slurm node is.

A change of a node's row or of a job that holds it makes its Pod be looked at, once, whatever else has changed beside it
in the same read. What to write is decided by `standing`; conditions and labels go in one patch. While Slurm is unknown
nothing is written: what was said last stays, and the SlurmCluster says that nobody knows better.
"""

from contextlib import suppress
from typing import Final

from sunk.kube.api.patch import Strategic
from sunk.kube.control.controller import Controller, Effort, Requeue, Source, itself
from sunk.kube.errors import NotFound
from sunk.kube.resource import Key
from sunk.model import loopclock
from sunk.slurm.mirror.confidence import Known, State
from sunk.slurm.records import Node
from sunk.slurm.states import NodeBase, NodeFlag
from sunk.syncer.conditions.plan import Facts, change, standing
from sunk.syncer.context import Ground
from sunk.syncer.removal.holders import Holders

WORKERS: Final = 16


class Upward:
    """Writes the conditions `Slurm…` of Pods and the labels that go with them; nobody else does."""

    def __init__(self, ground: Ground, holders: Holders) -> None:
        self._ground = ground
        self._holders = holders
        self._calm: dict[str, float] = {}
        self._stuck: dict[str, str] = {}
        self._believed = False
        source = Source(ground.pods.store, itself)
        effort = Effort(workers=WORKERS)
        self.controller: Final[Controller[Key]] = Controller("upward", self._reconcile, sources=[source], effort=effort)
        ground.mirror.nodes.subscribe(self._node)
        ground.mirror.subscribe(self._read)
        holders.subscribe(self.look)

    def look(self, name: str) -> None:
        """Want the Pod of a node looked at."""
        key = Key(self._ground.namespace, name)
        if key in self._ground.pods.store:
            self.controller.enqueue(key)

    def stuck(self, found: dict[str, str]) -> None:
        """Hear which nodes will not become idle by themselves, all of them, and why."""
        before, self._stuck = self._stuck, dict(found)
        for name in before.keys() | found.keys():
            if before.get(name) != found.get(name):
                self.look(name)

    # What Slurm says

    def _node(self, name: str, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None:
            if (before.state_bits, before.reason) == (after.state_bits, after.reason):
                return  # a load, free memory, a time: nothing that a Pod would say
            if _is_back(before, after):
                self._calm[name] = loopclock.now() + self._ground.manner.calm
        if after is None:
            self._calm.pop(name, None)
        self.look(name)

    def _read(self, state: State) -> None:
        """Look at all when Slurm is known again, or believed again: Pods may have come in between."""
        believed = isinstance(state, Known) and not self._ground.mirror.suspicious
        if believed != self._believed:
            self._believed = believed
            for key in [pod.key for pod in self._ground.pods.store.all()]:
                self.controller.enqueue(key)

    # What the Pod is told

    async def _reconcile(self, key: Key) -> Requeue | None:
        ground = self._ground
        pod = ground.pods.store.get(key)
        if pod is None or not isinstance(ground.mirror.state, Known) or not ground.may_write():
            return None
        left = self._calm.get(key.name, 0.0) - loopclock.now()
        facts = Facts(
            node=ground.mirror.nodes.get(key.name),
            held=self._holders.holds(key.name),
            calm=left > 0,
            doubted=ground.mirror.suspicious,
            stuck=self._stuck.get(key.name, ""),
        )
        body = change(pod, standing(pod, facts), now=self._ground.client.clock.now())
        if body is not None:
            with suppress(NotFound):
                await ground.pods.patch(key, Strategic(body), status=True)
        if left <= 0:
            self._calm.pop(key.name, None)
            return None
        return Requeue(after=left)


def _is_back(before: Node, after: Node) -> bool:
    """Whether somebody took it back into service, and thereby made Slurm wait for an answer of its slurmd."""
    if NodeFlag.NOT_RESPONDING in before.state:
        return False
    risen = before.state.base is NodeBase.DOWN and after.state.base is not NodeBase.DOWN
    return risen or (before.state.out_of_service and not after.state.out_of_service)
