"""Which Nodes join, what they are called, and what their Pods look like."""

import asyncio
from typing import Any

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Operator, Stage, eventually, says

from sunk.kube.api.client import Deletion
from sunk.kube.api.patch import Json, Merge
from sunk.kube.core import NODES, PODS, Taint
from sunk.kube.resource import Record, Resource
from sunk.local.fakekubelet import NodeTraits, steer
from sunk.model import names
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import claim_of
from sunk.operator.nodeset import controller

DAEMON_SETS = Resource(Record, group="apps", version="v1", plural="daemonsets")
QUOTAS = Resource(Record, version="v1", plural="resourcequotas")
PRESSURES = ("disk-pressure", "memory-pressure", "pid-pressure", "network-unavailable")


# Who joins


async def test_every_node_that_fits_gets_one_pod_and_a_name_by_its_address(stage: Stage, operator: Operator) -> None:
    made = await stage.create(cluster="c")
    await stage.settled(3)
    wanted = {f"gpu-000-00{number + 1}": node for number, node in enumerate(stage.nodes)}
    assert {name: pod.spec.node_name for name, pod in (await stage.pods()).items()} == wanted
    assert await stage.entries() == {name: Entry(name=name, node=node) for name, node in wanted.items()}
    for name, node in wanted.items():
        found = (await stage.node(node)).metadata
        assert found.annotations[names.CLAIM] == made.metadata.uid
        ours = {key: value for key, value in found.labels.items() if key.startswith(names.GROUP)}
        assert ours == {
            names.NODESET: "gpu",
            names.NAMESPACE: stage.namespace,
            names.CLUSTER: "c",
            names.POD: name,
        }
    assert operator.deleted() == []


async def test_a_pod_stays_through_troubles_of_its_node_and_is_left_alone_by_others(
    stage: Stage, operator: Operator
) -> None:
    del operator
    await stage.create(template=stage.template(spec={"tolerations": [{"key": "mine", "operator": "Exists"}]}))
    await stage.settled(3)
    pod = (await stage.pods())["gpu-000-001"]
    unlimited = {
        (one.key, one.effect)
        for one in pod.spec.tolerations
        if one.operator == "Exists" and one.toleration_seconds is None
    }
    troubles = {(f"node.kubernetes.io/{key}", "") for key in ("not-ready", "unreachable", "unschedulable")}
    troubles |= {(f"node.kubernetes.io/{key}", "NoSchedule") for key in PRESSURES}
    assert unlimited >= troubles | {(names.LOCK, ""), ("mine", "")}
    assert pod.metadata.annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert pod.metadata.labels.items() >= {names.COMPONENT: names.COMPUTE, names.NODESET: "gpu"}.items()


async def test_a_node_that_is_labelled_in_or_added_joins(stage: Stage, operator: Operator) -> None:
    del operator
    await stage.create(template=stage.template(pool="blue"))
    await stage.settled(0)
    await stage.label(stage.nodes[1], pool="blue")
    await stage.settled(1)
    await stage.add_node(f"{stage.fleet}-new", pool="blue")
    await stage.settled(2)
    assert {entry.node for entry in (await stage.entries()).values()} == {stage.nodes[1], f"{stage.fleet}-new"}


async def test_so_many_join_as_are_wanted_the_first_by_name(stage: Stage, operator: Operator) -> None:
    del operator
    await stage.create(replicas=2)
    found = await stage.settled(2)
    assert {entry.node for entry in (await stage.entries()).values()} == set(stage.nodes[:2])
    assert (found.status.desired_number_scheduled, found.status.number_feasible) == (2, 3)


async def test_a_tainted_or_cordoned_node_joins_when_it_is_free_or_tolerated(stage: Stage, operator: Operator) -> None:
    await stage.taint(stage.nodes[0], "special")
    await stage.cordon(stage.nodes[1])
    await stage.taint(stage.nodes[2], names.LOCK, effect="NoExecute")
    await operator.caught_up()
    await stage.create()
    await stage.settled(1)
    assert [entry.node for entry in (await stage.entries()).values()] == [stage.nodes[2]], "our own lock is no obstacle"
    await stage.cordon(stage.nodes[1], on=False)
    await stage.settled(2)
    await stage.change(template=stage.template(spec={"tolerations": [{"key": "special", "operator": "Exists"}]}))
    async with stage.syncer():
        await stage.settled(3)


async def test_a_bounded_toleration_is_none(stage: Stage, operator: Operator) -> None:
    await stage.taint(stage.nodes[0], "special", effect="NoExecute")
    await operator.caught_up()
    bounded = {"key": "special", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    await stage.create(template=stage.template(spec={"tolerations": [bounded]}))
    await stage.settled(2)
    assert stage.nodes[0] not in {entry.node for entry in (await stage.entries()).values()}


async def test_only_pods_that_the_lock_would_leave_take_room(stage: Stage, operator: Operator) -> None:
    """M11: whatever else is there is evicted when the Node is locked, and must not keep it from joining."""
    huge = {"resources": {"requests": {"cpu": "127500m"}}, "image": "none"}
    for number, marks in ((0, {}), (1, {"kubernetes.io/config.mirror": "x"})):
        body = {
            "metadata": {"name": f"other-{number}", "annotations": marks},
            "spec": {"nodeName": stage.nodes[number], "containers": [{"name": "main"} | huge]},
        }
        await stage.client.create(PODS, body, namespace=stage.namespace)
    await _daemons(stage, on=stage.nodes[2], container={"name": "main"} | huge)
    await operator.caught_up()
    await stage.create()
    await stage.settled(1)
    assert [entry.node for entry in (await stage.entries()).values()] == [stage.nodes[0]]
    await stage.client.delete(PODS, "other-1", Deletion(grace_period_seconds=0), namespace=stage.namespace)
    await stage.settled(2)


async def test_what_a_tenant_asks_for_that_cannot_be_read_stops_no_set(stage: Stage, operator: Operator) -> None:
    """M20: Kubernetes takes amounts that we do not read. Who asks for that resource too leaves that Node out."""
    for number, what in ((0, "evil.example/x"), (1, "cpu")):
        asked = {"requests": {what: "1e99"}, "limits": {what: "1e99"}}
        body = {
            "metadata": {"name": f"evil-{number}"},
            "spec": {
                "nodeName": stage.nodes[number],
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "none", "resources": asked}],
            },
        }
        await stage.client.create(PODS, body, namespace=stage.namespace)
    await operator.caught_up()
    await stage.create()
    await stage.settled(2)
    assert stage.nodes[1] not in {entry.node for entry in (await stage.entries()).values()}
    assert f"{stage.nodes[1]}: cannot be read: cpu" in await stage.event("Unreadable")
    await stage.client.delete(PODS, "evil-1", Deletion(grace_period_seconds=0), namespace=stage.namespace)
    await stage.settled(3)


async def _daemons(stage: Stage, *, on: str, container: dict[str, Any]) -> None:
    pod = {"nodeSelector": {"kubernetes.io/hostname": on}, "containers": [container]}
    labels = {"app": "agent"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    await stage.client.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec}, namespace=stage.namespace)

    async def bound() -> list[str]:
        found = await stage.client.list(PODS)
        return [pod.metadata.name for pod in found.items if pod.spec.node_name == on and pod.status.phase == "Running"]

    await eventually(bound, bool)


async def test_a_selector_that_matches_nothing_is_said(stage: Stage, operator: Operator) -> None:
    del operator
    await stage.create(template=stage.template(pool="nowhere"), replicas=2)
    told = await stage.told("Ready", holds=False)
    assert "only 0 Nodes fit" in told
    assert (await stage.nodeset()).status.number_feasible == 0
    assert await stage.pods() == {}


# Names


async def test_of_two_nodes_with_one_name_the_second_is_refused_until_the_name_is_free(
    kube: Kube, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "MENDED", 0.2)
    twins = {0: NodeTraits(address="10.1.7.7"), 1: NodeTraits(address="10.2.7.7")}
    async with staging(nodes=2, traits=twins) as stage, Operator(kube), stage.syncer():
        await stage.create()
        await stage.settled(1)
        assert "gpu-007-007" in await stage.told("NamesUnique", holds=False)
        assert "gpu-007-007" in await stage.event("NameRefused")
        await stage.taint(stage.nodes[0], "sick")
        await eventually(stage.entries, lambda found: [one.node for one in found.values()] == [stage.nodes[1]])
        await stage.told("NamesUnique", holds=True)


async def test_a_name_that_another_set_gives_up_is_taken_up(
    kube: Kube, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "MENDED", 0.2)
    twins = {
        0: NodeTraits(address="10.1.7.7", labels={"pool": "a"}),
        1: NodeTraits(address="10.2.7.7", labels={"pool": "b"}),
    }
    async with staging(nodes=2, traits=twins) as stage, Operator(kube), stage.syncer():
        await stage.create("a", template=stage.template(pool="a"), podNamePrefix="n")
        await stage.settled(1, "a")
        await stage.create("b", template=stage.template(pool="b"), podNamePrefix="n")
        await stage.told("NamesUnique", holds=False, name="b")
        await stage.change("a", replicas=0)
        await stage.settled(1, "b")


async def test_nodes_without_an_ipv4_address_are_refused_and_join_by_number(kube: Kube, staging: Staging) -> None:
    traits = {0: NodeTraits(address="fd00::1"), 1: NodeTraits(address="fd00::2")}
    async with staging(nodes=2, traits=traits) as stage, Operator(kube), stage.syncer():
        await stage.create()
        assert "ordinal" in await stage.told("NamesUnique", holds=False)
        await stage.change(naming="ordinal")
        await stage.settled(2)
        assert (await stage.entries()).keys() == {"gpu-0", "gpu-1"}


async def test_two_sets_that_count_with_one_prefix_never_give_a_name_twice(stage: Stage, operator: Operator) -> None:
    """They begin at the same moment, and neither can see yet what the other is about to write."""
    del operator
    await stage.label(stage.nodes[0], pool="a")
    await stage.label(stage.nodes[1], pool="b")
    spec: dict[str, Any] = {"naming": "ordinal", "podNamePrefix": "n", "cluster": "c"}
    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(stage.create(name, template=stage.template(pool=name), **spec))
    for name in ("a", "b"):
        await stage.settled(1, name)
    assert (await stage.pods()).keys() == {"n-0", "n-1"}


async def test_a_node_whose_address_changes_keeps_its_name_and_its_one_pod(stage: Stage, operator: Operator) -> None:
    """M12."""
    await stage.create()
    await stage.settled(3)
    before = await stage.pods()
    moved = [{"op": "replace", "path": "/status/addresses/0/address", "value": "10.80.9.9"}]
    await stage.client.patch(NODES, stage.nodes[0], Json(moved), subresource="status")
    await stage.client.delete(PODS, "gpu-000-001", namespace=stage.namespace)
    await eventually(stage.pods, lambda pods: pods.keys() == before.keys() and pods != before)
    await stage.settled(3)
    assert (await stage.entries())["gpu-000-001"].node == stage.nodes[0]
    assert operator.deleted() == []


async def test_a_pod_of_somebody_else_with_the_name_is_said_and_stops_nobody_else(
    stage: Stage, operator: Operator
) -> None:
    body = {"metadata": {"name": "gpu-000-001"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    stranger = await stage.client.create(PODS, body, namespace=stage.namespace)
    await stage.create()
    await stage.settled(2)
    assert "gpu-000-001" in await stage.told("NamesUnique", holds=False)
    assert (await stage.pod("gpu-000-001")).metadata.uid == stranger.metadata.uid
    assert operator.deleted() == []


# Two sets


async def test_two_sets_that_want_one_node_never_share_it(stage: Stage, operator: Operator) -> None:
    del operator
    async with stage.syncer(), asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(stage.create(name, podNamePrefix=name))

        async def shared() -> list[str]:
            return sorted(entry.node for one in await stage.slices() for entry in one.spec.entries)

        await eventually(shared, lambda found: len(found) == 3)
        assert await shared() == stage.nodes
        await stage.change("a", replicas=0)
        await stage.settled(3, "b")
        await stage.settled(0, "a")


async def test_the_claim_of_a_set_that_is_no_more_is_void(stage: Stage, operator: Operator) -> None:
    del operator
    for node in stage.nodes:
        patch = Merge(
            {"metadata": {"annotations": {names.CLAIM: "gone"}, "labels": {names.NAMESPACE: stage.namespace}}}
        )
        await stage.client.patch(NODES, node, patch)
    await stage.create()
    await stage.settled(3)


async def test_the_claim_of_a_set_that_we_would_not_see_holds(stage: Stage, operator: Operator) -> None:
    del operator
    mark = {"annotations": {names.CLAIM: "elsewhere"}, "labels": {names.NAMESPACE: "elsewhere"}}
    await stage.client.patch(NODES, stage.nodes[0], Merge({"metadata": mark}))
    await stage.create()
    await stage.settled(2)
    assert claim_of(await stage.node(stage.nodes[0])) == "elsewhere"


# Pods that come again


async def test_a_member_gets_its_pod_again_on_a_cordoned_and_on_a_sick_node(stage: Stage, operator: Operator) -> None:
    """M1: neither ends a membership, and neither keeps a Pod from coming back."""
    await stage.create()
    await stage.settled(3)
    await stage.cordon(stage.nodes[0])
    await steer(stage.client, NODES, stage.nodes[1], ready="false")
    await eventually(lambda: stage.node(stage.nodes[1]), _is_evicting)
    before = await stage.pods()
    for name in ("gpu-000-001", "gpu-000-002"):
        await stage.client.delete(PODS, name, namespace=stage.namespace)
    again = await eventually(
        stage.pods,
        lambda pods: (
            pods.keys() == before.keys()
            and all(says(pod, "Ready") for pod in pods.values())
            and len({pod.metadata.uid for pod in (*pods.values(), *before.values())}) == 5
        ),
    )
    assert again["gpu-000-001"].spec.node_name == stage.nodes[0]
    assert set((await stage.states()).values()) == {"joined"}
    assert operator.deleted() == []


def _is_evicting(node: Any) -> bool:
    return Taint("node.kubernetes.io/not-ready", "NoExecute") in [
        Taint(one.key, one.effect) for one in node.spec.taints
    ]


async def test_features_of_the_set_and_of_labels_are_on_the_pod_and_follow_them(
    stage: Stage, operator: Operator
) -> None:
    del operator
    await stage.label(stage.nodes[0], driver="550")
    dynamic = {"staticFeatures": ["ib"], "dynamicFeatures": {"driver": {"prefix": "driver-"}}}
    await stage.create(features=dynamic)
    await stage.settled(3)

    async def features() -> list[str]:
        return [pod.metadata.annotations[names.FEATURES] for _, pod in sorted((await stage.pods()).items())]

    uids = {pod.metadata.uid for pod in (await stage.pods()).values()}
    assert await features() == ["ib,driver-550", "ib", "ib"]
    await stage.label(stage.nodes[0], driver="560")
    await eventually(features, lambda found: found == ["ib,driver-560", "ib", "ib"])
    await stage.change(features={"staticFeatures": ["eth"]})
    await eventually(features, lambda found: found == ["eth,driver-560", "eth", "eth"])
    assert {pod.metadata.uid for pod in (await stage.pods()).values()} == uids, "no Pod was replaced for it"


# What the API server refuses


async def test_a_quota_that_refuses_costs_few_tries_and_is_said(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=20) as stage:
        await _quota(stage, pods=2)
        async with Operator(kube) as operator:
            await stage.create()
            told = await eventually(lambda: stage.event("Troubled"), lambda note: "exceeded quota" in note)
            assert "gpu-" in told
            await eventually(stage.nodeset, lambda one: "exceeded quota" in _progress(one))
            await eventually(stage.pods, lambda pods: len(pods) == 2)
            assert operator.creations() < 15, "20 Nodes, and hardly more than one try at a time"
            await stage.client.delete(QUOTAS, "few", namespace=stage.namespace)


async def _quota(stage: Stage, *, pods: int) -> None:
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}}
    await stage.client.create(QUOTAS, body, namespace=stage.namespace)

    async def counted() -> bytes:
        return await stage.client.request("GET", QUOTAS.path(stage.namespace, "few"))

    await eventually(counted, lambda found: b'"used"' in found)


def _progress(one: Any) -> str:
    return next((each.message for each in one.status.conditions if each.type == "Progressing"), "")


async def test_a_quota_that_is_full_is_no_fault_of_the_template(stage: Stage, operator: Operator) -> None:
    """A trial run makes one Pod more than there may be, and says nothing about the template."""
    del operator
    await stage.create()
    await stage.settled(3)
    await _quota(stage, pods=3)
    await stage.change(template=stage.template(colour="red"))
    async with stage.syncer():
        await eventually(
            stage.pods,
            lambda pods: (
                len(pods) == 3 and all(pod.metadata.annotations.get("colour") == "red" for pod in pods.values())
            ),
        )
    assert says(await stage.nodeset(), "TemplateValid")
