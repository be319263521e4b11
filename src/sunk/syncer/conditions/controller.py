"""From Slurm to Kubernetes: every compute Pod says how its Slurm node is.

A change of a node's row, or of a job that holds it, enqueues its Pod once, whatever else has changed in the same read. So
does a prolog that tells of its job before a read shows it. `plan` decides what to write; conditions, labels and the
request for the lock go in one patch. While Slurm is unknown what was written last stays, and the SlurmCluster says that
nobody knows better; only what prologs tell is still added.
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
from sunk.syncer.conditions.plan import NodeFacts, pod_conditions, status_patch
from sunk.syncer.context import Context
from sunk.syncer.hooks.announced import Announced
from sunk.syncer.hooks.runs import is_placeholder, run_of
from sunk.syncer.jobs import JobsByNode

WORKERS: Final = 16


class ConditionController:
    """Writes the conditions `Slurm…` of Pods, the labels that go with them, and the request for the lock; nobody else does."""

    def __init__(self, context: Context, jobs_by_node: JobsByNode, announced: Announced) -> None:
        self._context = context
        self._jobs_by_node = jobs_by_node
        self._announced = announced
        self.requests_written = 0
        self._calm: dict[str, float] = {}
        self._stuck: dict[str, str] = {}
        self._trusted = False
        source = Source(context.pods.store, itself)
        effort = Effort(workers=WORKERS)
        self.controller: Final[Controller[Key]] = Controller(
            "conditions", self._reconcile, sources=[source], effort=effort
        )
        context.mirror.nodes.subscribe(self._on_row)
        context.mirror.subscribe(self._on_read)
        jobs_by_node.subscribe(self.enqueue)
        announced.subscribe(self.enqueue)

    def enqueue(self, name: str) -> None:
        """Have the Pod of a node reconciled."""
        key = Key(self._context.namespace, name)
        if key in self._context.pods.store:
            self.controller.enqueue(key)

    def set_stuck(self, stuck: dict[str, str]) -> None:
        """Take all nodes that will not become idle by themselves, and why."""
        before, self._stuck = self._stuck, dict(stuck)
        for name in before.keys() | stuck.keys():
            if before.get(name) != stuck.get(name):
                self.enqueue(name)

    # What Slurm says

    def _on_row(self, name: str, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None:
            if (before.state_bits, before.reason) == (after.state_bits, after.reason):
                return  # a load, free memory, a time: nothing that a Pod shows
            if _is_returned(before, after):
                self._calm[name] = loopclock.now() + self._context.settings.calm
        if after is None:
            self._calm.pop(name, None)
        self.enqueue(name)

    def _on_read(self, state: State) -> None:
        """Enqueue every Pod when Slurm is known again, or trusted again: Pods may have come in between."""
        trusted = isinstance(state, Known) and not self._context.mirror.suspicious
        if trusted != self._trusted:
            self._trusted = trusted
            for key in [pod.key for pod in self._context.pods.store.all()]:
                self.controller.enqueue(key)

    # What the Pod shows

    async def _reconcile(self, key: Key) -> Requeue | None:
        context = self._context
        pod, left = context.pods.store.get(key), self._calm.get(key.name, 0.0) - loopclock.now()
        facts = self._facts(key.name, calm=left > 0)
        if pod is None or not (facts.known or facts.runs) or not context.may_write():
            return None
        body = status_patch(pod, pod_conditions(pod, facts), now=context.client.clock.now())
        if body is not None:
            with suppress(NotFound):
                await context.pods.patch(key, Strategic(body), status=True)
                self.requests_written += "annotations" in body["metadata"]
        if left <= 0:
            self._calm.pop(key.name, None)
            return None
        return Requeue(after=left)

    def _facts(self, name: str, *, calm: bool) -> NodeFacts:
        announced = self._announced.of(name)
        if not isinstance(self._context.mirror.state, Known):
            return NodeFacts(None, known=False, runs=frozenset(announced), strict=any(announced.values()))
        shown = {run_of(job): is_placeholder(job) for job in self._jobs_by_node.jobs(name)}
        return NodeFacts(
            node=self._context.mirror.nodes.get(name),
            runs=frozenset(shown.keys() | announced.keys()),
            strict=any(shown.values()) or any(announced.values()),
            ahead=not announced.keys() <= shown.keys(),
            calm=calm,
            doubted=self._context.mirror.suspicious,
            stuck=self._stuck.get(name, ""),
        )


def _is_returned(before: Node, after: Node) -> bool:
    """Whether somebody returned it to service, and thereby made Slurm wait for an answer of its slurmd."""
    if NodeFlag.NOT_RESPONDING in before.state:
        return False
    risen = before.state.base is NodeBase.DOWN and after.state.base is not NodeBase.DOWN
    return risen or (before.state.out_of_service and not after.state.out_of_service)
