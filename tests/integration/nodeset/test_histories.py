"""Whatever happens, and wherever the controller is killed: no law is broken on the way, and the end is the right one.

A random history of Nodes, specs, Pods, jobs and kills is played to two NodeSets that want the same Nodes. A witness sees
every change. When it is over and everybody answers again, the pure rules must find nothing left to do, and a simpler
rule must find who it expects.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec import Struct
from tests.conftest import Kube
from tests.integration.nodeset.stage import Operator, Stage, Syncer, eventually, fleet_of, says
from tests.integration.nodeset.witness import Witness

from sunk.kube.api.client import Deletion, Scope
from sunk.kube.api.patch import Strategic
from sunk.kube.cache.collection import Collection
from sunk.kube.control.events import Recorder
from sunk.kube.core import NAMESPACES, NODES, PODS, Node, Pod
from sunk.kube.errors import ApiError, NotFound
from sunk.kube.tasks import running
from sunk.local.fakekubelet import FLEET, fake_kubelet
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.model import names
from sunk.objects.nodesets import NODESETS, NODESLICES, by_owner, claim_of, index_value
from sunk.operator.caches import by_node
from sunk.operator.node.controller import nodes
from sunk.operator.nodeset import controller
from sunk.operator.nodeset.act import ratelimit
from sunk.operator.nodeset.act.podbuilder import PodBuilders
from sunk.operator.nodeset.controller import by_member, nodesets
from sunk.operator.nodeset.decide.plan import plan
from sunk.operator.nodeset.decide.podactions import Moment
from sunk.operator.nodeset.decide.slices import shards, spread
from sunk.operator.nodeset.observe import reader
from sunk.operator.nodeset.observe.snapshot import Observer
from sunk.service.part import Setting
from sunk.service.scoped import Scoped

NODES_OF = 6
POOLS = ("one", "two", "")
OUT = "keep-out"


class Act(Struct, frozen=True):
    """One step: what is done, to which Node or NodeSet, and how."""

    what: str
    which: int = 0
    how: int = 0


def node_acts() -> st.SearchStrategy[Act]:
    kinds = ["pool", "pool", "taint", "cordon", "remove", "add", "add", "delete_pod", "fail_pod", "job", "unclaim"]
    return st.builds(Act, st.sampled_from(kinds), st.integers(0, NODES_OF - 1), st.integers(0, 2))


def set_acts() -> st.SearchStrategy[Act]:
    kinds = ["replicas", "replicas", "affinity", "template", "template", "budget", "delete_set", "create_set"]
    return st.builds(Act, st.sampled_from(kinds), st.integers(0, 1), st.integers(0, 4))


def faults() -> st.SearchStrategy[Act]:
    kinds = ["kill", "kill", "kill_and_stay", "paused", "syncer_away", "wait", "wait"]
    return st.builds(Act, st.sampled_from(kinds), st.just(0), st.integers(0, 12))


HISTORIES = st.lists(st.one_of(node_acts(), set_acts(), faults()), min_size=30, max_size=60)


class World:
    """The stage, two NodeSets, and everything that can happen to them."""

    def __init__(self, stage: Stage, operator: Operator, *, syncer: Syncer, witness: Witness) -> None:
        self.stage = stage
        self.operator = operator
        self.syncer = syncer
        self.witness = witness
        self.running = True

    async def play(self, act: Act) -> None:
        """Carry out a step; one that is not possible just now comes to nothing."""
        with suppress(ApiError):
            await getattr(self, act.what)(act.which, act.how)

    def _name(self, which: int) -> str:
        return self.stage.nodes[which]

    # Nodes

    async def pool(self, which: int, how: int) -> None:
        await self.stage.label(self._name(which), pool=POOLS[how] or None)

    async def taint(self, which: int, how: int) -> None:
        await self.stage.taint(self._name(which), OUT, on=how == 0)

    async def cordon(self, which: int, how: int) -> None:
        await self.stage.cordon(self._name(which), on=how == 0)

    async def remove(self, which: int, _: int) -> None:
        await self.stage.client.delete(NODES, self._name(which))

    async def add(self, which: int, how: int) -> None:
        labels = {FLEET: self.stage.fleet} | ({"pool": POOLS[how]} if POOLS[how] else {})
        await self.stage.client.create(NODES, {"metadata": {"name": self._name(which), "labels": labels}})

    async def unclaim(self, which: int, _: int) -> None:
        """Somebody takes the claim off a member's Node, since he does not know what it is."""
        if self._name(which) not in {entry.node for entry in (await self.stage.entries()).values()}:
            return
        self.witness.by_hand.add(self._name(which))
        await self.stage.client.patch(
            NODES, self._name(which), Strategic({"metadata": {"annotations": {names.CLAIM: None}}})
        )

    # Pods

    async def _pod_on(self, which: int) -> Pod | None:
        on = (pod for pod in (await self.stage.pods()).values() if pod.spec.node_name == self._name(which))
        return next(on, None)

    async def delete_pod(self, which: int, _: int) -> None:
        if pod := await self._pod_on(which):
            self.witness.by_hand.add(pod.metadata.uid)
            await self.stage.client.delete(PODS, pod.metadata.name, namespace=self.stage.namespace)

    async def fail_pod(self, which: int, _: int) -> None:
        """The kubelet evicts it."""
        if pod := await self._pod_on(which):
            body = Strategic({"status": {"phase": "Failed", "reason": "Evicted", "message": "disk is full"}})
            where = self.stage.namespace
            await self.stage.client.patch(PODS, pod.metadata.name, body, namespace=where, subresource="status")

    async def job(self, which: int, how: int) -> None:
        if pod := await self._pod_on(which):
            await self.stage.say(pod.metadata.name, SlurmRunning=how > 0)

    # NodeSets

    async def replicas(self, which: int, how: int) -> None:
        await self.stage.change("ab"[which], replicas=how if how < 4 else None)

    async def affinity(self, which: int, how: int) -> None:
        await self.stage.change("ab"[which], template=self.stage.template(pool=POOLS[how % 3]))

    async def template(self, which: int, how: int) -> None:
        change = {"metadata": {"annotations": {"try": str(how)}}}
        await self.stage.change("ab"[which], template=change)

    async def budget(self, which: int, how: int) -> None:
        strategy = {"type": "OnDelete" if how == 0 else "RollingUpdate", "rollingUpdate": {"maxUnavailable": how + 1}}
        await self.stage.change("ab"[which], updateStrategy=strategy)

    async def delete_set(self, which: int, _: int) -> None:
        await self.stage.client.delete(NODESETS, "ab"[which], namespace=self.stage.namespace)

    async def create_set(self, which: int, how: int) -> None:
        name = "ab"[which]
        naming = "ordinal" if which else "address"
        template = self.stage.template(pool=POOLS[how % 3])
        await self.stage.create(name, template=template, podNamePrefix=f"n{name}", naming=naming)

    # Faults

    async def kill(self, _: int, how: int) -> None:
        """After so many turns of the loop, to meet it in the middle of something."""
        for _turn in range(how * 3):
            await asyncio.sleep(0)
        await self.operator.kill()
        self.operator.start()
        self.running = True

    async def kill_and_stay(self, _: int, __: int) -> None:
        await self.operator.kill()
        self.running = False

    async def paused(self, _: int, how: int) -> None:
        self.operator.leads = how % 2 == 0

    async def syncer_away(self, _: int, how: int) -> None:
        self.syncer.answers = how % 2 == 0

    async def wait(self, _: int, how: int) -> None:
        await asyncio.sleep(how * 0.03)

    # The end

    async def settled(self) -> None:
        """Let everybody answer again and all jobs end."""
        self.operator.leads = self.syncer.answers = True
        if not self.running:
            self.operator.start()
        for name in await self.sets():
            with suppress(NotFound):
                await self.stage.annotate(name, accept_loss="1000")
        for pod in await self.stage.pods():
            with suppress(NotFound):
                await self.stage.say(pod, SlurmRunning=False)

    async def bury(self) -> None:
        """End Pods that nobody is left to stop, as Kubernetes does by itself, though not within a minute."""
        nodes = {node.metadata.name for node in (await self.stage.client.list(NODES)).items}
        for pod in (await self.stage.pods()).values():
            if pod.metadata.deletion_timestamp is not None and pod.spec.node_name not in nodes:
                how = Deletion(grace_period_seconds=0)
                with suppress(NotFound):
                    await self.stage.client.delete(PODS, pod.metadata.name, how, namespace=self.stage.namespace)

    async def leave(self) -> None:
        """Let the NodeSets go, so that their namespace can."""
        for name in await self.sets():
            await self.stage.client.delete(NODESETS, name, namespace=self.stage.namespace)

        async def left() -> list[str]:
            await self.bury()
            return await self.sets()

        await eventually(left, lambda found: not found)

    async def sets(self) -> list[str]:
        found = await self.stage.client.list(NODESETS, Scope(namespace=self.stage.namespace))
        return [one.metadata.name for one in found.items]


# What the rules say at the end


class Auditor:
    """The controller's own rules on stores of its own, and a simpler rule beside them."""

    def __init__(self, stage: Stage, recorder: Recorder) -> None:
        self._stage = stage
        setting = Setting(stage.client, recorder, lambda: False, namespaces=(stage.namespace,))
        self._nodes = Collection(stage.client, NODES)
        self._pods = Collection(stage.client, PODS, indexes={"node": by_node, "owner": by_owner})
        self._sets = Scoped(setting, NODESETS, indexes={"uid": lambda one: (one.metadata.uid,)})
        self._slices = Scoped(setting, NODESLICES, indexes={"owner": by_owner, "node": by_member})
        self._observer = Observer(sets=self._sets, slices=self._slices, nodes=self._nodes, pods=self._pods)
        self._builders = PodBuilders(stage.client)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        follows: list[Collection[Any]] = [self._nodes, self._pods, *self._sets.collections, *self._slices.collections]
        async with running({one.store.name: one.run() for one in follows}):
            for one in follows:
                await one.store.complete()
            yield

    async def left_to_do(self) -> list[str]:
        """What the pure rules would still do, and what the simple rule misses."""
        found: list[str] = []
        now = self._stage.client.clock.now()
        moment = Moment(now, since=now - timedelta(hours=1))
        for one in self._sets.all():
            prepared = await self._builders.prepare(one)
            snapshot = self._observer.snapshot(one, prepared.demand)
            todo = plan(
                one, snapshot, revision=prepared.revision, usable=not prepared.problem, batch=500, moment=moment
            )
            entries = [member.entry for member in todo.membership.members]
            doing = {
                "joins": todo.joins,
                "strays": todo.stray_nodes,
                "dropped": todo.membership.dropped,
                "held": todo.membership.held,
                "create": todo.pods.create,
                "mark": todo.pods.mark,
                "remove": todo.pods.remove,
                "recreate": todo.pods.recreate,
                "slices": spread(shards(snapshot.slices), entries).shards,
                "finished": todo.finished,
            }
            found += [f"{one.metadata.name}: {what}: {some}" for what, some in doing.items() if some]
            found += [f"{one.metadata.name}: {wrong}" for wrong in self._unexpected(one.metadata.name)]
        return found + self._unclean()

    def _unexpected(self, name: str) -> list[str]:
        """Compare with what anybody would expect who has not read the rules."""
        one = next(each for each in self._sets.all() if each.metadata.name == name)
        pool = _pool_of(one.spec.template)
        fitting = {node.metadata.name: node for node in self._nodes.store.all() if _fits(node, self._stage, pool)}
        entries = [entry for each in self._slices.by("owner", index_value(one)) for entry in each.spec.entries]
        joined = {entry.node for entry in entries}
        free = {at for at, node in fitting.items() if not node.spec.unschedulable and not claim_of(node)}
        wanted = one.spec.replicas
        pods = {pod.metadata.name: pod for pod in self._pods.store.by("owner", index_value(one))}
        places = {entry.name: entry.node for entry in entries}
        wrong = ["it is still being deleted"] if one.metadata.deletion_timestamp else []
        if joined - fitting.keys():
            wrong.append(f"members that do not fit: {joined - fitting.keys()}")
        if any(entry.state != "joined" for entry in entries):
            wrong.append(f"still leaving: {entries}")
        if wanted is not None and len(joined) > wanted:
            wrong.append(f"{len(joined)} members, {wanted} wanted")
        if free and (wanted is None or len(joined) < wanted):
            wrong.append(f"{len(joined)} members of {wanted} wanted, and {free} are free")
        if {name: pod.spec.node_name for name, pod in pods.items()} != places:
            wrong.append(f"Pods {pods.keys()}, members {places}")
        wrong += [f"{pod.metadata.name} is not ready" for pod in pods.values() if not says(pod, "Ready")]
        if one.status.members != len(joined) or one.status.number_ready != len(pods):
            wrong.append(f"the status says {one.status}")
        return wrong

    def _unclean(self) -> list[str]:
        """A Node that is nobody's carries nothing of ours, and nothing is left of NodeSets that are no more."""
        ours = {entry.node for each in self._slices.all() for entry in each.spec.entries}
        idle = [node for node in self._nodes.store.all() if node.metadata.name not in ours]
        left = [node.metadata.name for node in idle if _marks(node) and node.metadata.labels.get(FLEET) == self._fleet]
        return [f"Nodes that nobody has carry our marks: {left}"] if left else []

    @property
    def _fleet(self) -> str:
        return self._stage.fleet


def _marks(node: Node) -> list[str]:
    marks = {**node.metadata.labels, **node.metadata.annotations}
    return [mark for mark in marks if mark.startswith(names.GROUP)]


def _pool_of(template: bytes) -> str:
    text = bytes(template).decode()
    return next((pool for pool in POOLS if pool and f'"{pool}"' in text), "")


def _fits(node: Node, stage: Stage, pool: str) -> bool:
    labels = node.metadata.labels
    here = labels.get(FLEET) == stage.fleet and (not pool or labels.get("pool") == pool)
    return here and not any(taint.key == OUT for taint in node.spec.taints)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what is meant for machines and people, so that the end of a history is near."""
    monkeypatch.setattr(reader, "GRACE", 0.3)
    monkeypatch.setattr(controller, "MENDED", 0.3)
    monkeypatch.setattr(ratelimit, "FIRST", 0.05)
    monkeypatch.setattr(ratelimit, "LONGEST", 0.2)
    monkeypatch.setattr(ratelimit, "PAUSE", 0.1)


@asynccontextmanager
async def elsewhere(kube: Kube) -> AsyncIterator[Kube]:
    """A namespace for one history: hypothesis plays many in one test."""
    name = f"{kube.namespace}-{secrets.token_hex(2)}"
    await kube.client.create(NAMESPACES, {"metadata": {"name": name}})
    await eventually(lambda: served(kube, name), bool)
    yield Kube(kubeconfig=kube.kubeconfig, namespace=name, client=kube.client, cluster=kube.cluster)
    await kube.client.delete(NAMESPACES, name)


async def served(kube: Kube, namespace: str) -> bool:
    """Whether Pods can be made there: each gets an account, which Kubernetes makes in its own time."""
    try:
        await kube.client.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    except NotFound:
        return False
    return True


async def played(kube: Kube, history: list[Act]) -> None:
    async with (
        elsewhere(kube) as here,
        fake_kubelet(fleet_of(here, nodes=NODES_OF), kubeconfig=here.kubeconfig) as kubelet,
        # What a process that was killed has sent may arrive when its NodeSet is gone: only the Node controller mends that.
        Operator(here, builds=(nodesets, nodes)) as operator,
        Recorder(here.client, reporter="sunk.coreweave.com/auditor") as recorder,
    ):
        stage = Stage(here, kubelet)
        witness = Witness(stage)
        # A slow one, so that others see what lies between its answers.
        async with stage.syncer(pause=0.15) as syncer, running(witness.duties()):
            world = World(stage, operator, syncer=syncer, witness=witness)
            for which in (0, 1):
                await world.create_set(which, 2)
            for act in history:
                await world.play(act)
            await world.settled()
            await judged(world, Auditor(stage, recorder))
            await world.leave()


async def judged(world: World, auditor: Auditor) -> None:
    async def left() -> list[str]:
        await world.bury()
        return await auditor.left_to_do()

    async with auditor.at_work():
        try:
            await eventually(left, lambda found: not found)
        finally:
            await world.witness.caught_up()
            breaches = world.witness.judge()
            assert not breaches, "\n".join(breaches)


BUDGET = settings(
    deadline=None,
    phases=[Phase.generate],  # the server has another past at the next try, so a smaller history proves nothing
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=False,
)


@given(history=HISTORIES)
@settings(BUDGET, max_examples=5)
@pytest.mark.usefixtures("hasty")
@pytest.mark.timeout(900)
async def test_a_random_history_breaks_no_law_and_ends_as_the_rules_say(
    kube: Kube, installed: LocalCluster, history: list[Act]
) -> None:
    del installed
    await played(kube, history)


@given(history=HISTORIES)
@settings(BUDGET, max_examples=25)
@pytest.mark.usefixtures("hasty")
@pytest.mark.full
@pytest.mark.timeout(1200)
async def test_many_random_histories_break_no_law_and_end_as_the_rules_say(
    kube: Kube, installed: LocalCluster, history: list[Act]
) -> None:
    del installed
    await played(kube, history)
