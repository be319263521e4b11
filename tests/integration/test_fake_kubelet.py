"""The fake kubelet on a real API server, beside the real node, taint and garbage collection controllers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pytest
from msgspec import json
from msgspec.structs import replace
from tests.conftest import Kube

from sunk.kube.api.client import Deletion, Scope
from sunk.kube.api.patch import Json, Merge, Strategic
from sunk.kube.core import LEASES, NODES, PODS, Node, Pod, Taint, condition
from sunk.kube.errors import NotFound
from sunk.local.fakekubelet import (
    FLEET,
    Behaviour,
    FakeKubelet,
    NodeTraits,
    Settings,
    annotations,
    fake_kubelet,
    spawned,
    steer,
)
from sunk.model.refusal import Refusal

PATIENCE = 90.0

T = TypeVar("T")


class Fleet:
    """A small fleet of its own for each test, and what tests ask of it."""

    def __init__(self, kube: Kube, kubelet: FakeKubelet) -> None:
        self.client = kube.client
        self.namespace = kube.namespace
        self.kubelet = kubelet
        self.nodes = [kubelet.settings.name_of(number) for number in range(kubelet.settings.nodes)]

    async def create(self, name: str = "p", *, on: int = 0, grace: int = 30, spec: Any = None, **overrides: str) -> Pod:
        body = {
            "metadata": {"name": name, "annotations": annotations(**overrides)},
            "spec": {
                "nodeName": self.nodes[on],
                "terminationGracePeriodSeconds": grace,
                "containers": [{"name": "main", "image": "none"}],
            }
            | (spec or {}),
        }
        return await self.client.create(PODS, body, namespace=self.namespace)

    async def pod(self, name: str = "p") -> Pod:
        return await self.client.get(PODS, name, namespace=self.namespace)

    async def host(self, name: str = "p") -> Any:
        """The address of its Node, as its kubelet has written it: nobody but people reads it."""
        return json.decode(await self.client.request("GET", PODS.path(self.namespace, name)))["status"]["hostIP"]

    async def node(self, number: int = 0) -> Node:
        return await self.client.get(NODES, self.nodes[number])

    async def running(self, name: str = "p") -> Pod:
        return await eventually(lambda: self.pod(name), lambda pod: pod.status.phase == "Running")

    async def taint(self, taints: list[dict[str, str]]) -> None:
        """Taint the first Node.

        A new one has a taint of Kubernetes' own, which goes by a write of the whole list: ours would go with it.
        """
        nodes = self.kubelet.state.nodes
        await eventually(_now(lambda: nodes[self.nodes[0]]), lambda node: not node.spec.taints)
        await self.client.patch(NODES, self.nodes[0], Merge({"spec": {"taints": taints}}))

    async def heard(self, node: Node) -> None:
        """Wait until the kubelet knows a Node as it was written: it hears of Pods by another watch."""
        nodes, wanted = self.kubelet.state.nodes, int(node.metadata.resource_version)
        version = _now(lambda: int(nodes[node.metadata.name].metadata.resource_version))
        await eventually(version, lambda known: known >= wanted)

    async def gone(self, name: str = "p") -> set[str]:
        """Wait until a Pod is no more; return the phases it was seen in."""
        phases: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    phases.add((await self.pod(name)).status.phase)
                except NotFound:
                    return phases
                await asyncio.sleep(0.02)


async def eventually(read: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """Read until it is so; fail with what was read last."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not holds(found := await read()):
        assert asyncio.get_running_loop().time() < deadline, f"still {found}"
        await asyncio.sleep(0.02)
    return found


def settings(kube: Kube, **changes: Any) -> Settings:
    return replace(Settings(nodes=2, fleet=kube.namespace), **changes)


def says(pod_or_node: Pod | Node, kind: str) -> str:
    found = condition(pod_or_node.status.conditions, kind)
    return found.status if found else ""


@pytest.fixture
async def fleet(kube: Kube) -> AsyncIterator[Fleet]:
    async with fake_kubelet(settings(kube), kubeconfig=kube.kubeconfig) as kubelet:
        yield Fleet(kube, kubelet)


async def test_nodes_are_registered_with_all_that_was_asked_for(kube: Kube) -> None:
    wanted = settings(kube, resources={"nvidia.com/gpu": "8"}, labels={"class": "H100"}, address="10.7.{high}.{low}")
    async with fake_kubelet(wanted, kubeconfig=kube.kubeconfig) as kubelet:
        first, second = [await kube.client.get(NODES, wanted.name_of(number)) for number in (0, 1)]
        assert len(kubelet.state.nodes) == 2
    assert says(first, "Ready") == "True"
    assert first.metadata.labels["class"] == "H100"
    assert first.status.allocatable["nvidia.com/gpu"] == "8"
    assert [node.status.addresses[0].address for node in (first, second)] == ["10.7.0.1", "10.7.0.2"]


async def test_a_node_has_traits_of_its_own(kube: Kube) -> None:
    special = NodeTraits(
        address="10.9.8.7",
        labels={"class": "B200"},
        taints=(Taint("dedicated", "NoSchedule", "slurm"),),
        resources={"cpu": "4", "nvidia.com/gpu": "1"},
    )
    wanted = settings(kube, labels={"class": "H100", "zone": "a"})
    wanted = replace(wanted, traits={wanted.name_of(1): special})
    async with fake_kubelet(wanted, kubeconfig=kube.kubeconfig):
        first, second = [await kube.client.get(NODES, wanted.name_of(number)) for number in (0, 1)]
    assert (first.metadata.labels["class"], second.metadata.labels["class"]) == ("H100", "B200")
    assert second.metadata.labels["zone"] == "a"
    # Kubernetes takes off its own, from one Node before the other.
    own = [
        [taint.key for taint in node.spec.taints if "node.kubernetes.io/" not in taint.key] for node in (first, second)
    ]
    assert own == [[], ["dedicated"]]
    assert [second.status.allocatable[name] for name in ("cpu", "nvidia.com/gpu", "pods")] == ["4", "1", "250"]
    assert second.status.addresses[0].address == "10.9.8.7"


async def test_nodes_that_a_test_makes_get_addresses_that_no_other_has(fleet: Fleet) -> None:
    async def make(name: str) -> str:
        await fleet.client.create(NODES, {"metadata": {"name": name, "labels": {FLEET: fleet.namespace}}})
        node = await eventually(lambda: fleet.client.get(NODES, name), lambda node: bool(node.status.addresses))
        return node.status.addresses[0].address

    names = [f"{fleet.namespace}-own-{number}" for number in range(4)]
    async with asyncio.TaskGroup() as group:
        making = [group.create_task(make(name), name=name) for name in names]
    given = [each.result() for each in making]
    fleets = [(await fleet.node(number)).status.addresses[0].address for number in (0, 1)]
    assert len({*given, *fleets}) == 6
    await fleet.client.delete(NODES, names[1])
    await eventually(_now(lambda: fleet.kubelet.state.nodes), lambda nodes: names[1] not in nodes)
    assert await make(names[1]) == given[1]


def pinned(fleet: Fleet, name: str, *, on: int = 0, **spec: Any) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [fleet.nodes[on]]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": {"name": name}, "spec": {"affinity": affinity, "containers": containers} | spec}


async def test_a_pod_that_is_pinned_to_a_node_is_bound_to_it_and_runs(fleet: Fleet) -> None:
    for name, on in (("p", 0), ("q", 1)):
        await fleet.client.create(PODS, pinned(fleet, name, on=on), namespace=fleet.namespace)
    assert [(await fleet.running(name)).spec.node_name for name in ("p", "q")] == fleet.nodes
    await fleet.client.delete(PODS, "p", namespace=fleet.namespace)
    await fleet.gone()
    assert await eventually(_now(lambda: fleet.kubelet.state.waiting), lambda waiting: not waiting) == {}


async def test_a_pinned_pod_waits_for_its_node_and_for_its_taints_to_go(fleet: Fleet) -> None:
    taints = [{"key": "lock", "value": "true", "effect": "NoSchedule"}]
    await fleet.taint(taints)
    kubelet_knows = fleet.kubelet.state
    await eventually(_now(lambda: kubelet_knows.nodes[fleet.nodes[0]]), lambda node: bool(node.spec.taints))
    unborn = pinned(fleet, "r")
    term = unborn["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["nodeSelectorTerms"][0]["matchFields"][0]["values"] = [f"{fleet.namespace}-late"]
    for body in (pinned(fleet, "p"), pinned(fleet, "q", tolerations=[{"operator": "Exists"}]), unborn):
        await fleet.client.create(PODS, body, namespace=fleet.namespace)
    await fleet.running("q")
    await eventually(_now(lambda: len(kubelet_knows.waiting)), lambda waiting: waiting == 2)
    assert (await fleet.pod("p")).spec.node_name == ""
    await fleet.client.patch(NODES, fleet.nodes[0], Merge({"spec": {"taints": None}}))
    late = {"metadata": {"name": f"{fleet.namespace}-late", "labels": {FLEET: fleet.namespace}}}
    await fleet.client.create(NODES, late)
    await fleet.running("p")
    await fleet.running("r")


async def test_a_kubelet_that_does_not_bind_leaves_pinned_pods_alone(kube: Kube) -> None:
    async with fake_kubelet(settings(kube, binds=False), kubeconfig=kube.kubeconfig) as kubelet:
        fleet = Fleet(kube, kubelet)
        await kube.client.create(PODS, pinned(fleet, "p"), namespace=kube.namespace)
        await fleet.create("q")
        await fleet.running("q")
        assert (await fleet.pod("p")).spec.node_name == ""
        await kube.client.delete(PODS, "p", namespace=kube.namespace)


async def test_at_the_end_nothing_of_the_fleet_is_left(kube: Kube) -> None:
    async with fake_kubelet(settings(kube), kubeconfig=kube.kubeconfig) as kubelet:
        fleet = Fleet(kube, kubelet)
        await fleet.create(stop_after="1h")
        await fleet.running()
    ours = f"{FLEET}={kube.namespace}"
    assert (await kube.client.list(NODES, Scope(labels=ours))).items == ()
    assert (await kube.client.list(LEASES, Scope(labels=ours))).items == ()
    await fleet.gone()


async def test_a_kubelet_that_comes_back_takes_its_nodes_over(kube: Kube) -> None:
    async with fake_kubelet(settings(kube, keep=True), kubeconfig=kube.kubeconfig) as kubelet:
        fleet = Fleet(kube, kubelet)
        await fleet.create()
        before = (await fleet.running()).status.pod_ip
        made = (await fleet.node()).metadata.uid
    async with fake_kubelet(settings(kube), kubeconfig=kube.kubeconfig) as kubelet:
        fleet = Fleet(kube, kubelet)
        assert (await fleet.node()).metadata.uid == made
        await fleet.create("q")
        assert (await fleet.running("q")).status.pod_ip != before


async def test_a_node_of_somebody_else_is_not_touched(kube: Kube) -> None:
    name = settings(kube).name_of(1)
    await kube.client.create(NODES, {"metadata": {"name": name}})
    try:
        with pytest.raises(Refusal, match="does not belong to this fleet"):
            # One after the other: a Node whose registration is on its way when another is refused would be left over.
            async with fake_kubelet(settings(kube, workers=1), kubeconfig=kube.kubeconfig):
                pass
        assert (await kube.client.get(NODES, name)).status.capacity == {}
        assert (await kube.client.list(NODES, Scope(labels=f"{FLEET}={kube.namespace}"))).items == ()
    finally:
        await kube.client.delete(NODES, name)


async def test_a_node_that_a_test_made_is_taken_in_by_its_label(fleet: Fleet) -> None:
    name = f"{fleet.namespace}-own"
    await fleet.client.create(NODES, {"metadata": {"name": name, "labels": {FLEET: fleet.namespace}}})
    node = await eventually(lambda: fleet.client.get(NODES, name), lambda node: says(node, "Ready") == "True")
    assert node.status.capacity["cpu"]


async def test_a_pod_becomes_running_and_ready(fleet: Fleet) -> None:
    await fleet.create()
    pod = await fleet.running()
    assert says(pod, "Ready") == says(pod, "PodReadyToStartContainers") == "True"
    assert await fleet.host() == "10.80.0.1"
    assert pod.status.pod_ip.startswith("100.64.")
    assert pod.status.start_time is not None
    assert pod.status.container_statuses[0].ready


async def test_a_pod_bound_later_is_started_too(fleet: Fleet) -> None:
    await fleet.create(spec={"nodeName": ""})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": fleet.nodes[1]}}
    await fleet.client.post(PODS.path(fleet.namespace, "p", subresource="binding"), binding)
    await fleet.running()
    assert await fleet.host() == "10.80.0.2"


async def test_a_start_is_delayed_as_asked(fleet: Fleet) -> None:
    clock = asyncio.get_running_loop().time
    start = clock()
    await fleet.create(start_after="1s")
    await fleet.running()
    assert clock() - start >= 1


async def test_a_pod_goes_gracefully(fleet: Fleet) -> None:
    await fleet.create(stop_after="1h", grace=3600)
    pod = await fleet.running()
    clock = asyncio.get_running_loop().time
    start = clock()
    await fleet.client.delete(PODS, "p", namespace=fleet.namespace)
    assert (await fleet.pod()).metadata.uid == pod.metadata.uid
    await steer(fleet.client, PODS, "p", namespace=fleet.namespace, stop_after="700ms")
    await fleet.gone()
    assert clock() - start >= 0.7


async def test_a_pod_that_will_not_stop_goes_when_its_grace_is_over(fleet: Fleet) -> None:
    await fleet.create(stop_after="1h", grace=1)
    await fleet.running()
    await fleet.client.delete(PODS, "p", namespace=fleet.namespace)
    await fleet.gone()


async def test_containers_are_seen_terminated_before_the_pod_goes(fleet: Fleet) -> None:
    await fleet.create()
    await fleet.running()
    await fleet.client.patch(PODS, "p", Merge({"metadata": {"finalizers": ["test/hold"]}}), namespace=fleet.namespace)
    await fleet.client.delete(PODS, "p", namespace=fleet.namespace)
    pod = await eventually(fleet.pod, lambda pod: pod.status.phase == "Succeeded")
    assert pod.status.container_statuses[0].state.terminated is not None
    await eventually(fleet.pod, lambda pod: pod.metadata.deletion_grace_period_seconds == 0)
    patch = Json([{"op": "remove", "path": "/metadata/finalizers"}])
    await fleet.client.patch(PODS, "p", patch, namespace=fleet.namespace)
    await fleet.gone()


async def test_a_pod_of_the_same_name_is_another_pod(fleet: Fleet) -> None:
    for _ in range(5):
        await fleet.create()
        await fleet.running()
        await fleet.client.delete(PODS, "p", Deletion(grace_period_seconds=0), namespace=fleet.namespace)


async def test_a_pod_is_refused_on_demand(fleet: Fleet) -> None:
    await fleet.create(refuse="OutOfcpu")
    pod = await eventually(fleet.pod, lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "OutOfcpu"


async def test_a_node_refuses_all_pods_on_demand(fleet: Fleet) -> None:
    await fleet.heard(await steer(fleet.client, NODES, fleet.nodes[0], refuse="UnexpectedAdmissionError"))
    await fleet.create()
    pod = await eventually(fleet.pod, lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "UnexpectedAdmissionError"


async def test_a_wish_that_cannot_be_understood_is_told(fleet: Fleet) -> None:
    await fleet.create(start_after="soon")
    pod = await eventually(fleet.pod, lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "BadAnnotation"


async def test_a_container_exits_on_demand(fleet: Fleet) -> None:
    await fleet.create(exit_after="200ms", exit_code="3", spec={"restartPolicy": "Never"})
    pod = await eventually(fleet.pod, lambda pod: pod.status.phase == "Failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert terminated.exit_code == 3


async def test_a_container_that_exits_is_restarted_where_the_policy_says_so(fleet: Fleet) -> None:
    await fleet.create(exit_after="200ms")
    await eventually(fleet.pod, lambda pod: sum(one.restart_count for one in pod.status.container_statuses) >= 2)


async def test_a_running_pod_is_made_not_ready_and_ready_again(fleet: Fleet) -> None:
    await fleet.create()
    await fleet.running()
    await steer(fleet.client, PODS, "p", namespace=fleet.namespace, ready="false")
    await eventually(fleet.pod, lambda pod: says(pod, "Ready") == "False")
    await steer(fleet.client, PODS, "p", namespace=fleet.namespace, ready=None)
    await eventually(fleet.pod, lambda pod: says(pod, "Ready") == "True")


async def test_a_pod_that_does_not_tolerate_the_taint_of_its_node_never_runs(fleet: Fleet) -> None:
    taints = [{"key": "lock", "value": "true", "effect": "NoExecute"}]
    kubelet_knows = fleet.kubelet.state.nodes
    await fleet.taint(taints)
    await eventually(_now(lambda: kubelet_knows[fleet.nodes[0]]), lambda node: bool(node.spec.taints))
    await fleet.create()
    assert "Running" not in await fleet.gone()  # evicted, before or after the kubelet refused it


def _now(read: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    async def reading() -> Any:
        return read()

    return reading


async def test_a_pod_evicted_by_a_taint_is_stopped(fleet: Fleet) -> None:
    await fleet.create()
    await fleet.running()
    taints = [{"key": "lock", "value": "true", "effect": "NoExecute"}]
    await fleet.taint(taints)
    await fleet.gone()


async def renewals(fleet: Fleet) -> list[Any]:
    leases = [await fleet.client.get(LEASES, name, namespace="kube-node-lease") for name in fleet.nodes]
    return [lease.spec.renew_time for lease in leases]


async def leased(fleet: Fleet) -> bool:
    """Whether both Nodes have been heard of."""
    with suppress(NotFound):
        return bool(await renewals(fleet))
    return False


async def renewed(fleet: Fleet) -> None:
    """Wait until the second Node has renewed its lease twice: a whole period has passed."""
    for _ in range(2):
        await eventually(partial(renewals, fleet), partial(_is_later, await renewals(fleet)))


def _is_later(before: list[Any], now: list[Any]) -> bool:
    return bool(now[1] > before[1])


async def test_a_silent_node_stops_its_lease_and_its_pods_and_comes_back(kube: Kube) -> None:
    quick = settings(kube, grace=1.0)
    async with fake_kubelet(quick, kubeconfig=kube.kubeconfig) as kubelet:
        fleet = Fleet(kube, kubelet)
        await eventually(lambda: leased(fleet), bool)
        await fleet.heard(await steer(kube.client, NODES, fleet.nodes[0], silent="true"))
        await renewed(fleet)  # by then a renewal that was on its way has arrived
        before = await renewals(fleet)
        await fleet.create()
        await fleet.create("q", on=1)
        await fleet.running("q")
        await renewed(fleet)
        after = await renewals(fleet)
        assert after[0] == before[0]
        assert (await fleet.pod()).status.phase == "Pending"
        await steer(kube.client, NODES, fleet.nodes[0], silent=None)
        await fleet.running()
        await eventually(lambda: renewals(fleet), lambda now: now[0] > after[0])


async def test_a_node_given_up_by_the_node_controller_says_that_it_lives(fleet: Fleet) -> None:
    unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    await fleet.client.patch(NODES, fleet.nodes[0], Strategic(unknown), subresource="status")
    await eventually(fleet.node, lambda node: says(node, "Ready") == "True")


async def test_a_node_is_not_ready_on_demand_while_its_pods_run_on(fleet: Fleet) -> None:
    await fleet.create(spec={"tolerations": [{"operator": "Exists"}]})
    await fleet.running()
    await steer(fleet.client, NODES, fleet.nodes[0], ready="false")
    await eventually(fleet.node, lambda node: says(node, "Ready") == "False")
    assert (await fleet.pod()).status.phase == "Running"
    await steer(fleet.client, NODES, fleet.nodes[0], ready=None)
    await eventually(fleet.node, lambda node: says(node, "Ready") == "True")


async def test_a_deleted_node_stays_deleted(fleet: Fleet) -> None:
    await fleet.client.delete(NODES, fleet.nodes[0])
    await asyncio.sleep(1)
    with pytest.raises(NotFound):
        await fleet.node()


async def test_habits_of_the_fleet_hold_where_nothing_else_is_said(kube: Kube) -> None:
    wanted = settings(kube, behaviour=Behaviour(refuse="OutOfmemory"))
    async with fake_kubelet(wanted, kubeconfig=kube.kubeconfig) as kubelet:
        fleet = Fleet(kube, kubelet)
        await fleet.create()
        pod = await eventually(fleet.pod, lambda pod: pod.status.phase == "Failed")
        assert pod.status.reason == "OutOfmemory"


async def test_a_child_process_does_the_same(kube: Kube) -> None:
    wanted = settings(kube)
    async with spawned(wanted, kubeconfig=kube.kubeconfig):
        body = {"containers": [{"name": "main", "image": "none"}], "nodeName": wanted.name_of(0)}
        await kube.client.create(PODS, {"metadata": {"name": "p"}, "spec": body}, namespace=kube.namespace)
        await eventually(
            lambda: kube.client.get(PODS, "p", namespace=kube.namespace), lambda pod: pod.status.phase == "Running"
        )
    assert (await kube.client.list(NODES, Scope(labels=f"{FLEET}={kube.namespace}"))).items == ()


async def test_a_child_process_without_a_cluster_is_told_to_be_so(kube: Kube, tmp_path: Any) -> None:
    with pytest.raises(Refusal, match="exited with code 2"):
        async with spawned(settings(kube), kubeconfig=tmp_path / "none"):
            pass


async def test_a_hundred_pods_run_and_go(fleet: Fleet) -> None:
    names = [f"p-{number}" for number in range(100)]
    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(names):
            group.create_task(fleet.create(name, on=number % 2), name=f"create {name}")
    for name in names:
        await fleet.running(name)
    await fleet.client.delete_all(PODS, Scope(namespace=fleet.namespace, fields="status.phase=Running"))
    for name in names:
        await fleet.gone(name)
