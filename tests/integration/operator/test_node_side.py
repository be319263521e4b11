"""The Node's side of it on a real API server: cordons go to Pods, what Slurm says goes to Nodes, and Nodes leave clean."""

import asyncio
from contextlib import suppress

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Stage, eventually
from tests.integration.operator.scene import (
    BESIDE,
    POD,
    clean,
    drain,
    drain_by_us,
    give_reason,
    joined,
    left_behind,
    node_carries,
    node_says,
    pod_carries,
    says,
    undrain,
    whole,
    with_reason_in,
)

from sunk.kube.api.client import Deletion, Preconditions
from sunk.kube.api.patch import Merge
from sunk.kube.core import NODES, PODS, Condition, condition
from sunk.kube.errors import NotFound
from sunk.local.fakekubelet import NodeTraits
from sunk.model import names
from sunk.objects.nodesets import owned_by
from sunk.operator.node.plan import NO_POD, NOT_TOLD, OURS

REASON = names.CORDON_REASON


# Cordons


async def test_a_cordon_goes_to_the_pod_with_its_reason_and_comes_off_again(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await stage.cordon(node)
        await pod_carries(stage, names.CORDON, "")
        await give_reason(stage, node, "bad fan")
        await pod_carries(stage, names.CORDON, "bad fan")
        await give_reason(stage, node, "bad fan, second one")
        await pod_carries(stage, names.CORDON, "bad fan, second one")
        await stage.cordon(node, on=False)
        await pod_carries(stage, names.CORDON, None)
        assert not [pod for pod in (await stage.pods()).values() if names.CORDON in pod.metadata.annotations]


async def test_a_pod_that_only_says_that_a_nodeset_owns_it_is_told_nothing(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    async with whole(kube):
        owner = await stage.create()
        await stage.settled(3)
        invented = owned_by(owner) | {"uid": "invented", "blockOwnerDeletion": False}
        # The garbage collector deletes it for having no such owner; by the finalizer it stays to be looked at.
        at = {"name": "forged", "ownerReferences": [invented], "finalizers": ["example.com/stay"]}
        spec = {
            "nodeName": node,
            "containers": [{"name": "x", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
        }
        await stage.client.create(PODS, {"metadata": at, "spec": spec}, namespace=stage.namespace)
        await give_reason(stage, node, "bad fan")
        await stage.cordon(node)
        await pod_carries(stage, names.CORDON, "bad fan")
        await asyncio.sleep(0.5)
        found = await stage.client.get(PODS, "forged", namespace=stage.namespace)
        assert found.metadata.annotations == {}
        free = Merge({"metadata": {"finalizers": None}})
        await stage.client.patch(PODS, "forged", free, namespace=stage.namespace)
        with suppress(NotFound):
            await stage.client.delete(PODS, "forged", Deletion(grace_period_seconds=0), namespace=stage.namespace)


async def test_the_reason_may_stand_under_another_key(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    async with whole(kube, builds=with_reason_in("example.com/why")):
        await stage.create()
        await stage.settled(3)
        await give_reason(stage, node, "not this")
        await give_reason(stage, node, "bad fan", key="example.com/why")
        await stage.cordon(node)
        await pod_carries(stage, names.CORDON, "bad fan")


async def test_a_pod_recreated_on_a_cordoned_node_carries_it_too(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await give_reason(stage, node, "bad fan")
        await stage.cordon(node)
        before = await pod_carries(stage, names.CORDON, "bad fan")
        await stage.client.delete(PODS, POD, Deletion(grace_period_seconds=0), namespace=stage.namespace)
        await eventually(lambda: stage.running(POD), lambda pod: pod.metadata.uid != before.metadata.uid)
        await pod_carries(stage, names.CORDON, "bad fan")


async def test_cordons_from_the_time_without_an_operator_are_found(kube: Kube, stage: Stage) -> None:
    async with whole(kube) as operator:
        await stage.create()
        await stage.settled(3)
        await stage.cordon(stage.nodes[0])
        await pod_carries(stage, names.CORDON, "")
        await operator.kill()
        await stage.cordon(stage.nodes[0], on=False)
        await stage.cordon(stage.nodes[1])
        operator.start()
        await pod_carries(stage, names.CORDON, None)
        await pod_carries(stage, names.CORDON, "", pod="gpu-000-002")


# What Slurm says


async def test_what_the_pod_says_of_slurm_is_said_by_its_node(kube: Kube, stage: Stage) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await says(stage, Condition(names.SLURM_RUNNING, "True", "Busy", "MIXED"))
        for kind in (names.SLURM_DRAIN, names.SLURM_NOT_RESPONDING, names.SLURM_CORDON):
            await node_says(stage, kind, "Unknown", NOT_TOLD)
        await says(stage, Condition(names.SLURM_NOT_RESPONDING, "False", "Responding"))
        await undrain(stage)
        assert (await node_says(stage, names.SLURM_RUNNING, "True", "Busy")).message == "MIXED"
        await node_says(stage, names.SLURM_NOT_RESPONDING, "False", "Responding")
        await node_says(stage, names.SLURM_DRAIN, "False", names.NOT_DRAINED)
        await node_says(stage, names.SLURM_CORDON, "False", names.NOT_DRAINED)
        assert condition((await stage.node(stage.nodes[0])).status.conditions, "Ready") is not None


async def test_only_a_drain_from_slurm_makes_a_cordon_of_it(kube: Kube, stage: Stage) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await drain_by_us(stage, "k8s: cordon: disk")
        await node_carries(stage, names.DRAIN, "k8s: cordon: disk")
        await node_says(stage, names.SLURM_DRAIN, "True", names.FROM_KUBERNETES)
        await node_says(stage, names.SLURM_CORDON, "False", names.FROM_KUBERNETES)
        await drain(stage, "alice: bad fan")
        await node_carries(stage, names.DRAIN, "alice: bad fan")
        assert (await node_says(stage, names.SLURM_CORDON, "True")).message == "alice: bad fan"
        await undrain(stage)
        await node_carries(stage, names.DRAIN, None)
        await node_says(stage, names.SLURM_CORDON, "False", names.NOT_DRAINED)
        assert not (await stage.node(stage.nodes[0])).spec.unschedulable, "people decide on that"


async def test_the_time_of_transition_stays_while_the_status_does(kube: Kube, stage: Stage) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await drain(stage, "bad fan")
        since = (await node_says(stage, names.SLURM_DRAIN, "True")).last_transition_time
        await asyncio.sleep(1.1)  # times are written in whole seconds: a later one must be able to show
        await drain(stage, "bad disk")
        node = await node_carries(stage, names.DRAIN, "bad disk")
        found = condition(node.status.conditions, names.SLURM_DRAIN)
        assert found is not None
        assert (found.message, found.last_transition_time) == ("bad disk", since)


async def test_a_change_is_one_write_and_rest_is_none(kube: Kube, stage: Stage) -> None:
    async with whole(kube, builds=BESIDE) as operator:
        async with whole(kube):
            await stage.create()
            await stage.settled(3)
            await joined(stage, POD, "gpu-000-002", "gpu-000-003")
        await operator.caught_up()
        operator.writes.clear()
        await stage.cordon(stage.nodes[1])
        await pod_carries(stage, names.CORDON, "", pod="gpu-000-002")
        await operator.answered(lambda found: "pods" in [one.resource for one in found])
        operator.writes.clear()
        await drain(stage, "bad fan")
        await node_carries(stage, names.DRAIN, "bad fan")
        # Events about everything, and nothing to do: what comes after shows that they have been looked at.
        for node in stage.nodes:
            await stage.label(node, touched="yes")
        await stage.client.patch(
            PODS, POD, Merge({"metadata": {"labels": {"touched": "yes"}}}), namespace=kube.namespace
        )
        await stage.cordon(stage.nodes[2])
        await pod_carries(stage, names.CORDON, "", pod="gpu-000-003")

        async def writes() -> list[str]:
            return [one.resource for one in operator.writes]

        assert await eventually(writes, lambda found: "pods" in found) == ["nodes/status", "pods"]


async def test_a_pod_that_is_gone_makes_it_unknown_and_keeps_the_last_reason(kube: Kube, stage: Stage) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await drain(stage, "bad fan")
        await node_says(stage, names.SLURM_CORDON, "True")
    async with whole(kube, builds=BESIDE):
        await stage.client.delete(PODS, POD, Deletion(grace_period_seconds=0), namespace=stage.namespace)
        for kind in OURS:
            await node_says(stage, kind, "Unknown", NO_POD)
        await node_carries(stage, names.DRAIN, "bad fan")


async def test_a_pod_of_somebody_else_says_nothing(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    container = {"name": "slurmd", "image": "none"}
    metadata = {
        "name": "impostor",
        "labels": {names.COMPONENT: names.COMPUTE},
        "annotations": {f"{names.GROUP}/node": node},
    }
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        body = {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}
        await stage.client.create(PODS, body, namespace=stage.namespace)
        await drain(stage, "not true", pod="impostor")
        await stage.cordon(node)
        await pod_carries(stage, names.CORDON, "")
        await undrain(stage)
        await node_says(stage, names.SLURM_DRAIN, "False")
        assert names.CORDON not in (await stage.pod("impostor")).metadata.annotations
        await stage.client.delete(PODS, "impostor", Deletion(grace_period_seconds=0), namespace=stage.namespace)


# Leaving


async def test_a_node_that_leaves_is_clean(kube: Kube, staging: Staging) -> None:
    traits = {number: NodeTraits(labels={"pool": "a"}) for number in range(2)}
    async with staging(nodes=2, traits=traits) as stage, whole(kube), stage.syncer():
        await stage.create(template=stage.template(pool="a"))
        await stage.settled(2)
        await drain_by_us(stage, "k8s: cordon")
        await node_carries(stage, names.DRAIN, "k8s: cordon")
        await stage.label(stage.nodes[0], pool=None)
        await clean(stage)
        await joined(stage, "gpu-000-002")


async def test_what_was_left_while_no_operator_ran_is_cleaned_at_the_start(kube: Kube, stage: Stage) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await drain_by_us(stage, "k8s: cordon")
        await node_carries(stage, names.DRAIN, "k8s: cordon")
        await joined(stage, "gpu-000-002")
    marks = (await stage.node(stage.nodes[0])).metadata
    labels = dict.fromkeys(mark for mark in marks.labels if mark.startswith(names.GROUP))
    patch = Merge({"metadata": {"labels": labels, "annotations": {names.CLAIM: None}}})
    await stage.client.patch(NODES, stage.nodes[0], patch)
    async with whole(kube, builds=BESIDE):
        await clean(stage)
        assert left_behind(await stage.node(stage.nodes[1]))


async def test_a_claim_that_somebody_took_off_wipes_nothing_as_long_as_the_nodeset_is_there(
    kube: Kube, stage: Stage
) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await drain(stage, "bad fan")
        await node_says(stage, names.SLURM_CORDON, "True")
    await stage.client.patch(NODES, stage.nodes[0], Merge({"metadata": {"annotations": {names.CLAIM: None}}}))
    async with whole(kube, builds=BESIDE):
        await drain(stage, "bad disk")
        node = await node_carries(stage, names.DRAIN, "bad disk")
        found = condition(node.status.conditions, names.SLURM_CORDON)
        assert found is not None
        assert found.status == "True"


async def test_a_nodeset_that_vanished_leaves_no_claim_behind(kube: Kube, stage: Stage) -> None:
    async with whole(kube) as operator:
        await stage.create()
        await stage.create("other", template=stage.template(pool="none"))
        await stage.settled(3)
        await drain(stage, "bad fan")
        await node_carries(stage, names.DRAIN, "bad fan")
        await operator.kill()
        await stage.close()
        operator.start()
        await clean(stage, names.KEPT_DRAIN)
        for node in stage.nodes[1:]:
            await clean(stage, node=node)


async def test_a_nodeset_that_vanishes_under_a_running_operator_leaves_no_claim_behind(
    kube: Kube, stage: Stage
) -> None:
    async with whole(kube, builds=BESIDE):
        async with whole(kube):
            await stage.create()
            await stage.settled(3)
            await joined(stage)
        await stage.close()
        for node in stage.nodes:
            await clean(stage, node=node)


async def test_an_operator_for_other_namespaces_keeps_its_hands_off(kube: Kube, stage: Stage) -> None:
    async with whole(kube):
        await stage.create()
        await stage.settled(3)
        await joined(stage)
    async with whole(kube, builds=BESIDE, namespaces=("default",)) as stranger:
        await stage.cordon(stage.nodes[0])
        await drain(stage, "bad fan")
        async with whole(kube, builds=BESIDE):
            await pod_carries(stage, names.CORDON, "")
            await node_carries(stage, names.DRAIN, "bad fan")
        assert stranger.writes == []


# Drains that are kept


async def test_a_persons_drain_is_kept_while_the_node_is_away(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1, traits={0: NodeTraits(labels={"pool": "a"})}) as stage, whole(kube):
        kept = f"{stage.namespace}/slurm:bad fan"
        await stage.create(template=stage.template(pool="a"), cluster="slurm")
        await stage.settled(1)
        await drain(stage, "bad fan")
        await node_carries(stage, names.KEPT_DRAIN, kept)
        async with stage.syncer():
            await stage.label(stage.nodes[0], pool=None)
            assert (await clean(stage, names.KEPT_DRAIN)).metadata.annotations[names.KEPT_DRAIN] == kept
        await stage.label(stage.nodes[0], pool="a")
        await pod_carries(stage, names.KEPT_DRAIN, "bad fan")
        await undrain(stage)  # as Slurm has it at first, before the syncer has put it on
        await node_says(stage, names.SLURM_DRAIN, "False")
        await drain(stage, "bad fan")
        await node_says(stage, names.SLURM_CORDON, "True")
        await node_carries(stage, names.KEPT_DRAIN, kept)
        await undrain(stage)
        await node_carries(stage, names.KEPT_DRAIN, None)
        await pod_carries(stage, names.KEPT_DRAIN, None)


async def test_a_drain_that_was_lifted_while_no_operator_ran_does_not_come_back(kube: Kube, stage: Stage) -> None:
    async with whole(kube) as operator:
        await stage.create(cluster="slurm")
        await stage.settled(3)
        await drain(stage, "bad fan")
        await node_carries(stage, names.KEPT_DRAIN, f"{stage.namespace}/slurm:bad fan")
        await operator.kill()
        await undrain(stage)
        operator.start()
        await node_carries(stage, names.KEPT_DRAIN, None)
        await node_says(stage, names.SLURM_CORDON, "False")


async def test_each_of_two_clusters_has_its_own_drains(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1, traits={0: NodeTraits(labels={"pool": "a"})}) as stage, whole(kube), stage.syncer():
        here, node = stage.namespace, stage.nodes[0]
        await stage.create("one", template=stage.template(pool="a"), cluster="one")
        await stage.create("two", template=stage.template(pool="b"), cluster="two")
        await stage.settled(1, "one")
        await drain(stage, "bad fan", pod="one-000-001")
        await node_carries(stage, names.KEPT_DRAIN, f"{here}/one:bad fan")
        await stage.label(node, pool="b")
        await stage.settled(1, "two")
        await drain(stage, "bad disk", pod="two-000-001")
        await node_carries(stage, names.KEPT_DRAIN, f"{here}/one:bad fan\n{here}/two:bad disk")
        assert names.KEPT_DRAIN not in (await stage.pod("two-000-001")).metadata.annotations
        await undrain(stage, pod="two-000-001")
        await node_carries(stage, names.KEPT_DRAIN, f"{here}/one:bad fan")
        await stage.label(node, pool="a")
        await stage.settled(1, "one")
        await pod_carries(stage, names.KEPT_DRAIN, "bad fan", pod="one-000-001")


# Trouble


async def test_a_node_that_registers_again_says_everything_again(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    async with whole(kube):
        await stage.create(cluster="slurm")
        await stage.settled(3)
        await drain(stage, "bad fan")
        await stage.cordon(node)
        await pod_carries(stage, names.CORDON, "")
        before = await node_carries(stage, names.DRAIN, "bad fan")
        await stage.client.delete(NODES, node, Deletion(preconditions=Preconditions(uid=before.metadata.uid)))
        await stage.add_node(node, address="10.80.0.1")
        await node_carries(stage, names.DRAIN, "bad fan")
        await node_carries(stage, names.KEPT_DRAIN, f"{stage.namespace}/slurm:bad fan")
        await node_says(stage, names.SLURM_CORDON, "True")
        await pod_carries(stage, names.CORDON, None)


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.01, 0.03])
async def test_an_operator_killed_at_any_moment_goes_on_where_it_was(kube: Kube, stage: Stage, pause: float) -> None:
    async with whole(kube) as operator:
        await stage.create(cluster="slurm")
        await stage.settled(3)
        for number in range(4):
            on = number % 2 == 0
            await asyncio.gather(*(stage.cordon(node, on=on) for node in stage.nodes))
            await (drain(stage, f"fan {number}") if on else undrain(stage))
            await asyncio.sleep(pause * number)
            await operator.kill()
            operator.start()
        for node in stage.nodes:
            await stage.cordon(node)
        await drain(stage, "the last")
        for number in (1, 2, 3):
            await pod_carries(stage, names.CORDON, "", pod=f"gpu-000-00{number}")
        await node_carries(stage, names.DRAIN, "the last")
        await node_carries(stage, names.KEPT_DRAIN, f"{stage.namespace}/slurm:the last")
        await node_says(stage, names.SLURM_CORDON, "True")
