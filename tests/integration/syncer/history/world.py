"""A NodeSet of a few machines with a real slurmd each, everything that can happen to them, and how it ends."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct
from tests import waiting
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator
from tests.integration.syncer.history.outcome import Outcome
from tests.integration.syncer.history.persons import Persons
from tests.integration.syncer.history.slurmds import STOPS_SLOWLY, Slurmds
from tests.integration.syncer.history.verifying import Verifying, verifying
from tests.integration.syncer.stage import ALICE, CLUSTER, SET, SLICE, Stage

from sunk.kube.api.client import Deletion, Preconditions, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.cache.collection import Collection
from sunk.kube.core import NODES
from sunk.kube.errors import ApiError, NotFound
from sunk.kube.resource import Key
from sunk.kube.tasks import running
from sunk.local.fakekubelet import FLEET, Settings, annotations, steer
from sunk.local.slurm import Node as SlurmNode
from sunk.model import names
from sunk.model.contract import drains, keptdrains
from sunk.model.nodeset import NODESET
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSlice
from sunk.operator.node.controller import nodes
from sunk.operator.nodeset.controller import nodesets
from sunk.operator.pod.controller import pods
from sunk.syncer.pods import COMPUTE_PODS, ComputePod

log = logging.getLogger(__name__)

MACHINES = 4
POOL = "one"
NAME = "gpu"
PATIENCE = 300.0
LONGEST_AWAY = 4.0
CORDONS = ("disk", "", "größer: than «3»")
REASONS = ("alice: bad fan", "NHC: disk (verify-undrain)", "k8s: cordon: by hand", "K8s:  not  quite", "pod terminated")
EXTRAS = ('{"rack": 3}', '{"k8s": 1, "rack": {"row": [1, 2]}}', "{broken", "[1]")
FEATURES = ((), ("fast",), ("fast", "big"))
LONG_AGO, FAR_OFF = "2001-01-01T00:00:00Z", "2101-01-01T00:00:00Z"


class Act(Struct, frozen=True):
    """One step: what is done, to which machine, and how."""

    what: str
    which: int = 0
    how: int = 0


class World:
    def __init__(self, stage: Stage, machines: tuple[str, ...], *, operator: Operator, verifying: Verifying) -> None:
        self.stage = stage
        self.machines = machines
        self.operator = operator
        self.verifying = verifying
        self.slurmds = Slurmds(stage)
        cluster = keptdrains.cluster(namespace=stage.namespace, name=CLUSTER)
        self.persons = Persons(stage, cluster)
        self.outcome = Outcome(stage, NAME, persons=self.persons, machines=machines)
        self._slices = Collection(stage.client, NODESLICES, Scope(namespace=stage.namespace))
        self._slices.store.subscribe(self._hear)
        self._name_of: dict[str, str] = {}
        """The Slurm node of each machine that was ever a member."""
        self._operates = True
        self._away: dict[Callable[[str, int], Awaitable[None]], float] = {}
        self.troubles: list[Exception] = []
        self.failure: Exception | None = None
        """By which a history has failed."""

    def duties(self) -> dict[str, Coroutine[Any, Any, object]]:
        found = {"slices": self._slices.run()} | self.slurmds.duties()
        return {name: self._guarded(duty) for name, duty in found.items()}

    async def _guarded(self, duty: Coroutine[Any, Any, object]) -> None:
        """Remember what goes wrong beside the test: it would wait in vain and not say why."""
        try:
            await duty
        except Exception as trouble:
            self.troubles.append(trouble)
            raise

    def _hear(self, _: Key, before: NodeSlice | None, after: NodeSlice | None) -> None:
        found = {} if after is None else {entry.name: entry.node for entry in after.spec.entries}
        self._name_of |= {node: name for name, node in found.items()}
        for entry in () if before is None else before.spec.entries:
            if entry.name not in found:
                self.persons.left(entry.name)

    async def play(self, act: Act) -> None:
        """Carry out a step; one that is not possible just now comes to nothing."""
        log.info("%s of %s: %d", act.what, self._name(self.machines[act.which]), act.how)
        with suppress(ApiError):
            await getattr(self, act.what)(self.machines[act.which], act.how)
        await self._bring_back()

    async def _bring_back(self) -> None:
        """End what has been away for long: no law holds while nobody is there to keep it."""
        ways = {
            self.start_slurmctld: self.slurmds.stopped,
            self.start_syncer: not self.stage.syncer.runs,
            self.start_operator: not self._operates,
        }
        now = asyncio.get_running_loop().time()
        self._away = {way: self._away.get(way, now) for way, is_so in ways.items() if is_so}
        for way, since in self._away.items():
            if now - since > LONGEST_AWAY:
                await way("", 0)

    def _name(self, node: str) -> str:
        return self._name_of.get(node, "none")

    # Kubernetes

    async def cordon(self, node: str, how: int) -> None:
        said = CORDONS[how % len(CORDONS)] or None
        body = {"metadata": {"annotations": {names.CORDON_REASON: said}}, "spec": {"unschedulable": True}}
        await self.stage.client.patch(NODES, node, Merge(body))

    async def uncordon(self, node: str, _: int) -> None:
        await self.stage.client.patch(NODES, node, Merge({"spec": {"unschedulable": None}}))

    async def out(self, node: str, _: int) -> None:
        await self._label(node, None)

    async def back(self, node: str, _: int) -> None:
        await self._label(node, POOL)

    async def _label(self, node: str, value: str | None) -> None:
        await self.stage.client.patch(NODES, node, Merge({"metadata": {"labels": {"pool": value}}}))

    async def delete_pod(self, node: str, _: int) -> None:
        """Somebody deletes a Pod; one that has to go anyway is left to us, or nobody could tell who it was."""
        pod = await self.stage.pod(self._name(node))
        if names.PENDING_DELETION not in pod.metadata.annotations:
            at = Preconditions(uid=pod.metadata.uid, resource_version=pod.metadata.resource_version)
            await self._delete(pod, Deletion(preconditions=at))

    async def _delete(self, pod: ComputePod, how: Deletion) -> None:
        await self.stage.client.delete(COMPUTE_PODS, pod.metadata.name, how, namespace=self.stage.namespace)

    async def unready(self, node: str, _: int) -> None:
        await self._ready(self._name(node), is_so=False)

    async def ready(self, node: str, _: int) -> None:
        await self._ready(self._name(node), is_so=True)

    async def _ready(self, pod: str, *, is_so: bool) -> None:
        wish = None if is_so else "false"
        await steer(self.stage.client, COMPUTE_PODS, pod, namespace=self.stage.namespace, ready=wish)

    async def verify(self, node: str, how: int) -> None:
        status, probed = (("True", FAR_OFF), ("True", LONG_AGO), ("False", FAR_OFF))[how % 3]
        await self.stage.say(self._name(node), names.HPC_VERIFICATION, status, lastProbeTime=probed)
        if (status, probed) == ("True", FAR_OFF):
            self.persons.verified(self._name(node))

    # The NodeSet

    async def replicas(self, _: str, how: int) -> None:
        await self._change(replicas=how if 0 < how < MACHINES else None)

    async def template(self, _: str, how: int) -> None:
        await self._change(template={"metadata": {"annotations": {"try": str(how)}}})

    async def features(self, _: str, how: int) -> None:
        await self._change(features={"staticFeatures": FEATURES[how % len(FEATURES)]})

    async def _change(self, **spec: Any) -> None:
        await self.stage.client.patch(NODESETS, NAME, Merge({"spec": spec}), namespace=self.stage.namespace)

    # Slurm

    async def drain(self, node: str, how: int) -> None:
        if not self.slurmds.stopped:
            await self.persons.drain(self._name(node), REASONS[how % len(REASONS)], node=node)

    async def lift(self, node: str, how: int) -> None:
        """Lift whatever drain is on, except that of a new record: who does that by hand answers for what it takes."""
        if not self.slurmds.stopped and (await self.stage.seen(self._name(node))).reason != drains.NEW:
            await self.persons.lift(self._name(node), ("undrain", "resume")[how % 2], node=node)

    async def down(self, node: str, how: int) -> None:
        if not self.slurmds.stopped:
            await self.persons.down(self._name(node), ("bob: smoke", "Not responding")[how % 2], node=node)

    async def extra(self, node: str, how: int) -> None:
        if not self.slurmds.stopped:
            await self.persons.write_extra(self._name(node), EXTRAS[how % len(EXTRAS)])

    async def job(self, node: str, how: int) -> None:
        if not self.slurmds.stopped:
            words = ("sbatch", "--no-requeue", "--output=/dev/null", "-w", self._name(node), "--wrap", f"sleep {how}")
            await asyncio.to_thread(self.stage.slurm.attempt, *words, uid=ALICE)

    # Faults

    async def kill_syncer(self, _: str, how: int) -> None:
        async with self.slurmds.at_it:
            if self.stage.syncer.runs:
                await asyncio.to_thread(self.stage.syncer.kill)
        if how % 2:
            await self.start_syncer("", 0)

    async def start_syncer(self, _: str, __: int) -> None:
        async with self.slurmds.at_it:
            if not self.stage.syncer.runs:
                await asyncio.to_thread(self.stage.syncer.start)
                # Until it shows, another would be started beside it.
                await asyncio.to_thread(waiting.eventually, lambda: self.stage.syncer.runs)

    async def kill_operator(self, _: str, how: int) -> None:
        """After so many turns of the loop, to meet it in the middle of something."""
        for _turn in range(how * 5):
            await asyncio.sleep(0)
        await self.operator.kill()
        self._operates = False
        if how % 2:
            await self.start_operator("", 0)

    async def start_operator(self, _: str, __: int) -> None:
        if not self._operates:
            self.operator.start()
            self._operates = True

    async def stop_slurmctld(self, _: str, __: int) -> None:
        await self.slurmds.stop_slurmctld()

    async def start_slurmctld(self, _: str, __: int) -> None:
        await self.slurmds.start_slurmctld()

    async def wait(self, _: str, how: int) -> None:
        await asyncio.sleep(how * 0.3)

    # The end

    async def calm(self) -> None:
        """Let everybody run and answer again, all Pods be ready, all jobs end, and nobody be down."""
        log.info("calm")
        await self.start_slurmctld("", 0)
        await self.start_syncer("", 0)
        await self.start_operator("", 0)
        await self._change_marks({names.ACCEPT_LOSS: "1000"})
        await asyncio.to_thread(self.stage.slurm.run, "scancel", "--user=alice")

    async def _change_marks(self, marks: dict[str, str]) -> None:
        patch = Merge({"metadata": {"annotations": marks}})
        await self.stage.client.patch(NODESETS, NAME, patch, namespace=self.stage.namespace)

    async def soothe(self) -> None:
        """What a person does until nothing is left to do: new Pods are ready, and nodes that are down come back."""
        for pod in (await self.stage.client.list(COMPUTE_PODS, Scope(namespace=self.stage.namespace))).items:
            if pod.metadata.annotations.keys() & annotations(ready="").keys():
                with suppress(NotFound):
                    await self._ready(pod.metadata.name, is_so=True)
        for node in self.machines:
            if "DOWN" in (await self.stage.seen(self._name(node))).states:
                await self.persons.lift(self._name(node), "resume", node=node)

    async def judge(self) -> None:
        """Wait until both sides are as the rules say, and stay so; and hear whether a law was broken on the way."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        quiet = 0
        while quiet < 2:
            await self.soothe()
            wrong = await self.outcome.wrong()
            quiet = 0 if wrong else quiet + 1
            assert not self.troubles, self.troubles
            late = asyncio.get_running_loop().time() > deadline
            log.info("wrong: %s", wrong)
            assert not (wrong and late), "\n".join([*wrong, *self._told(), self._words()])
            await asyncio.sleep(0.5)
        told = self._told()
        assert not told, "\n".join([*told, self._words()])

    def _told(self) -> list[str]:
        """What `sunk verify` says.

        It cannot see that a person has lifted a drain in the very moment in which a new cause came up, and takes ours for
        one that has replaced theirs. We can.
        """
        lifted = {f"Slurm node {name}" for name in self.persons.lifted}
        return [
            f"sunk verify: {breach}"
            for breach in self.verifying.breaches()
            if breach.fault.topic != "replaced drain" or breach.fault.about not in lifted
        ]

    def _words(self) -> str:
        return "The syncer's last words:\n" + "\n".join(self.stage.syncer.log().splitlines()[-40:])

    async def restore(self) -> None:
        """Make everything as it was in the beginning, for the next history."""
        self.persons.lifted.clear()
        for node in self.machines:
            body = {
                "metadata": {"annotations": {names.CORDON_REASON: None}, "labels": {"pool": POOL}},
                "spec": {"unschedulable": None},
            }
            await self.stage.client.patch(NODES, node, Merge(body))
        await self._change(replicas=None)
        await self.stage.eventually(self.outcome.members, lambda found: len(found) == MACHINES, seconds=PATIENCE)
        for name in await self.outcome.members():
            if (await self.stage.seen(name)).drained:
                await self.persons.lift(name, "undrain", node=await self._node(name))

    async def _node(self, name: str) -> str:
        async def found() -> list[str]:
            return [node for node, known in self._name_of.items() if known == name]

        # What the list of slices shows may not have come by the watch yet.
        return (await self.stage.eventually(found, bool))[0]


@asynccontextmanager
async def world(stage: Stage) -> AsyncIterator[World]:
    """A NodeSet with its operator on a stage, all its machines members and idle."""
    await stage.client.delete(NODESETS, SET, namespace=stage.namespace)
    await stage.client.delete(NODESLICES, SLICE, namespace=stage.namespace)
    fleet = Settings(fleet=stage.namespace)
    machines = tuple(fleet.name_of(number) for number in range(MACHINES))
    for node in machines:
        await stage.client.patch(NODES, node, Merge({"metadata": {"labels": {"pool": POOL}}}))
    spec = {
        "cluster": CLUSTER,
        "template": template(stage),
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}},
    }
    body = {"apiVersion": NODESET.api_version, "kind": NODESET.name, "metadata": {"name": NAME}, "spec": spec}
    await stage.client.create(NODESETS, body, namespace=stage.namespace)
    kube = Kube(kubeconfig=stage.api.kubeconfig, namespace=stage.namespace, client=stage.client, cluster=stage.api)
    async with Operator(kube, builds=(pods, nodesets, nodes)) as operator, verifying(stage) as watcher:
        made = World(stage, machines, operator=operator, verifying=watcher)
        found = await stage.eventually(stage.pod_names, lambda found: len(found) == MACHINES)
        await asyncio.to_thread(stage.slurm.add, *(SlurmNode(name, more=drains.BORN_DRAINED) for name in sorted(found)))
        made.slurmds.run_for({name: (await stage.pod(name)).metadata.uid for name in found})
        async with running(made.duties()):
            yield made
        for node in machines:
            await stage.client.patch(NODES, node, Merge({"metadata": {"labels": {"pool": None}}}))


def template(stage: Stage) -> dict[str, Any]:
    asked = [{"key": FLEET, "operator": "In", "values": [stage.namespace]}]
    asked += [{"key": "pool", "operator": "In", "values": [POOL]}]
    required = {"nodeSelectorTerms": [{"matchExpressions": asked}]}
    return {
        "metadata": {"annotations": STOPS_SLOWLY},
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "terminationGracePeriodSeconds": 120,
            "containers": [{"name": names.SLURMD, "image": "none"}],
        },
    }
