"""A person's drain outlives the Node object (D14), on a real API server."""

import asyncio
from contextlib import suppress

import pytest
from tests.conftest import Kube
from tests.integration.nodeset.conftest import Staging
from tests.integration.nodeset.stage import Stage, eventually
from tests.integration.operator.scene import (
    POD,
    drain,
    drain_by_us,
    give_reason,
    node_carries,
    node_says,
    pod_carries,
    undrain,
    whole,
    with_reason_in,
)

from sunk.kube.api.client import Deletion, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import CONFIG_MAPS, NODES, PODS
from sunk.kube.errors import NotFound
from sunk.local.fakekubelet import NodeTraits
from sunk.model import names
from sunk.model.cluster.kind import SLURMCLUSTER
from sunk.model.contract import drains, keptdrains
from sunk.objects.nodesets import NODESETS
from sunk.objects.slurmclusters import SLURMCLUSTERS
from sunk.operator.nodeset.observe import reader

CLUSTER = "slurm"
ADDRESS = "10.80.0.1"


@pytest.fixture(autouse=True)
def _soon_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Node is missed for a minute before its member leaves; nobody wants to wait for that here."""
    monkeypatch.setattr(reader, "GRACE", 0.5)


async def written(stage: Stage) -> dict[str, str]:
    """Nodes of which a drain is written down, and its reason."""
    found = await stage.client.list(CONFIG_MAPS, Scope(namespace=stage.namespace, labels=f"{names.CLUSTER}={CLUSTER}"))
    records = {node: keptdrains.read_record(text) for one in found.items for node, text in one.data.items()}
    return {node: record.reason for node, record in records.items() if record is not None}


async def write_down(stage: Stage, wanted: dict[str, str]) -> None:
    await eventually(lambda: written(stage), lambda found: found == wanted)


async def drained(stage: Stage, reason: str = "bad fan", pod: str = POD) -> None:
    """Have a person drain the node, and wait until that is written down."""
    node = (await stage.running(pod)).spec.node_name
    await drain(stage, reason, pod)
    await write_down(stage, {node: reason})


async def gone(stage: Stage, node: str, pod: str = POD) -> None:
    """Delete the Node and wait until nothing is left of its member."""
    await stage.client.delete(NODES, node, Deletion())
    await eventually(stage.pods, lambda found: all(one.metadata.deletion_timestamp for one in found.values()))
    # As Kubernetes does with what no kubelet ends; but it waits for a minute first.
    with suppress(NotFound):  # it may have waited for so long
        await stage.client.delete(PODS, pod, Deletion(grace_period_seconds=0), namespace=stage.namespace)
    await eventually(stage.entries, lambda found: all(entry.node != node for entry in found.values()))
    assert not await stage.pods()


async def drained_and_gone(stage: Stage) -> str:
    """Have a person drain the only node of a new NodeSet, and then its Node deleted; gives its name."""
    node = stage.nodes[0]
    await stage.create(cluster=CLUSTER)
    await stage.settled(1)
    await drained(stage)
    await gone(stage, node)
    return node


async def test_a_persons_drain_outlives_the_node_object(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1) as stage, whole(kube), stage.syncer():
        node = await drained_and_gone(stage)
        assert await written(stage) == {node: "bad fan"}
        await stage.add_node(node, address=ADDRESS)
        await stage.settled(1)
        born = await stage.running(POD)
        assert born.metadata.annotations[names.KEPT_DRAIN] == "bad fan", "from its first moment"
        await drain_by_us(stage, drains.NEW)
        await node_carries(stage, names.KEPT_DRAIN, f"{stage.namespace}/{CLUSTER}:bad fan")
        await pod_carries(stage, names.KEPT_DRAIN, "bad fan")
        await drain(stage, "bad fan")
        await node_says(stage, names.SLURM_CORDON, "True")
        await undrain(stage)
        await node_carries(stage, names.KEPT_DRAIN, None)
        await pod_carries(stage, names.KEPT_DRAIN, None)
        await write_down(stage, {})


async def test_it_outlives_a_node_that_goes_while_no_operator_runs(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1) as stage, whole(kube) as operator, stage.syncer():
        node = stage.nodes[0]
        await stage.create(cluster=CLUSTER)
        await stage.settled(1)
        await drained(stage)
        await operator.kill()
        await stage.client.delete(NODES, node, Deletion())
        await stage.client.delete(PODS, POD, Deletion(grace_period_seconds=0), namespace=stage.namespace)
        await stage.add_node(node, address=ADDRESS)
        operator.start()
        await eventually(lambda: stage.node(node), lambda found: names.CLAIM in found.metadata.annotations)
        assert (await stage.running(POD)).metadata.annotations[names.KEPT_DRAIN] == "bad fan"
        await undrain(stage)
        await node_carries(stage, names.KEPT_DRAIN, f"{stage.namespace}/{CLUSTER}:bad fan")


async def test_the_machine_may_come_back_to_another_nodeset_of_the_cluster(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1, traits={0: NodeTraits(labels={"pool": "a"})}) as stage, whole(kube), stage.syncer():
        node = stage.nodes[0]
        await stage.create("one", template=stage.template(pool="a"), cluster=CLUSTER)
        await stage.create("two", template=stage.template(pool="b"), cluster=CLUSTER)
        await stage.create("other", template=stage.template(pool="c"), cluster="other")
        await stage.settled(1, "one")
        await drained(stage, pod="one-000-001")
        await gone(stage, node, "one-000-001")
        await stage.annotate("one", force_deletion="true")
        await stage.client.delete(NODESETS, "one", namespace=stage.namespace)
        await stage.add_node(node, address=ADDRESS, pool="c")
        assert names.KEPT_DRAIN not in (await stage.running("other-000-001")).metadata.annotations
        await stage.label(node, pool="b")
        assert (await stage.running("two-000-001")).metadata.annotations[names.KEPT_DRAIN] == "bad fan"


async def test_whoever_takes_the_line_off_the_node_has_lifted_it(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1, traits={0: NodeTraits(labels={"pool": "a"})}) as stage, whole(kube), stage.syncer():
        node = stage.nodes[0]
        await stage.create(template=stage.template(pool="a"), cluster=CLUSTER)
        await stage.settled(1)
        await drained(stage)
        await stage.label(node, pool=None)
        await eventually(stage.entries, lambda found: not found)
        await stage.client.patch(NODES, node, Merge({"metadata": {"annotations": {names.KEPT_DRAIN: None}}}))
        await stage.label(node, pool="a")
        await stage.settled(1)
        await undrain(stage)
        await write_down(stage, {})
        assert names.KEPT_DRAIN not in (await stage.running(POD)).metadata.annotations


async def test_lines_are_followed_on_a_node_that_is_in_no_nodeset(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1) as stage, whole(kube):
        node, kind = stage.nodes[0], {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name, "spec": {}}
        await stage.client.create(SLURMCLUSTERS, kind | {"metadata": {"name": CLUSTER}}, namespace=stage.namespace)

        async def says(*lines: str) -> None:
            text = "\n".join(f"{stage.namespace}/{line}" for line in lines) or None
            await stage.client.patch(NODES, node, Merge({"metadata": {"annotations": {names.KEPT_DRAIN: text}}}))

        await says(f"{CLUSTER}:bad fan", "gone:bad disk")
        await write_down(stage, {node: "bad fan"})
        await says(f"{CLUSTER}:bad cable", "gone:bad disk")
        await write_down(stage, {node: "bad cable"})
        await says()
        await write_down(stage, {})
        maps = await stage.client.list(CONFIG_MAPS, Scope(namespace=stage.namespace, labels=names.CLUSTER))
        assert {one.metadata.labels[names.CLUSTER] for one in maps.items} == {CLUSTER}, (
            "none for a cluster that is gone"
        )


async def test_whoever_takes_the_key_out_has_lifted_it_too(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1) as stage, whole(kube) as operator, stage.syncer():
        node = await drained_and_gone(stage)
        name = f"{CLUSTER}-kept-drains-0"
        await stage.client.patch(CONFIG_MAPS, name, Merge({"data": {node: None}}), namespace=stage.namespace)
        await operator.caught_up()
        await stage.add_node(node, address=ADDRESS)
        assert names.KEPT_DRAIN not in (await stage.running(POD)).metadata.annotations


async def test_it_ends_with_the_cluster(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=1) as stage, whole(kube):
        kind = {"apiVersion": SLURMCLUSTER.api_version, "kind": SLURMCLUSTER.name, "spec": {}}
        made = await stage.client.create(
            SLURMCLUSTERS, kind | {"metadata": {"name": CLUSTER}}, namespace=stage.namespace
        )
        await stage.create(cluster=CLUSTER)
        await stage.settled(1)
        await drained(stage)
        found = await stage.client.get(CONFIG_MAPS, f"{CLUSTER}-kept-drains-0", namespace=stage.namespace)
        assert [one.uid for one in found.metadata.owner_references] == [made.metadata.uid]


async def test_many_drains_at_once_are_few_writes_and_all_of_them_are_written(kube: Kube, staging: Staging) -> None:
    async with staging(nodes=60) as stage, whole(kube) as operator:
        await stage.create(cluster=CLUSTER)
        await stage.settled(60)
        pods = await stage.pods()
        await asyncio.gather(*(drain(stage, "row 7", pod) for pod in pods))
        await write_down(stage, dict.fromkeys(stage.nodes, "row 7"))
        writes = [one for one in operator.writes if one.resource == "configmaps"]
        assert len(writes) <= len(stage.nodes) + 1


BAD = (
    pytest.param("x" * 70_000, "x" * keptdrains.LONGEST, id="over 64 KiB"),
    pytest.param("bad\0fan \x1b[31m", "bad fan [31m", id="NUL"),
    pytest.param("\ufffd\u202e bad fan", "\ufffd bad fan", id="odd letters"),
)


@pytest.mark.parametrize(("said", "wanted"), BAD)
async def test_a_kept_drain_that_is_odd_goes_on_as_a_text_of_a_certain_length(
    kube: Kube, stage: Stage, said: str, wanted: str
) -> None:
    node = stage.nodes[0]
    lines = "\n".join(f"nobody/{number}:x" for number in range(3000))
    value = f"{stage.namespace}/{CLUSTER}:{said}\n{lines}\nno line\n:::\n"
    await stage.client.patch(NODES, node, Merge({"metadata": {"annotations": {names.KEPT_DRAIN: value}}}))
    async with whole(kube):
        await stage.create(cluster=CLUSTER)
        await stage.settled(3)
        await pod_carries(stage, names.KEPT_DRAIN, wanted)
        await drain(stage, wanted)  # as the syncer does; one that was never on stays kept whatever covers it
        await eventually(lambda: stage.node(node), lambda found: found.metadata.annotations.get(names.DRAIN) == wanted)
        await drain(stage, "bad disk")
        shown = await eventually(
            lambda: stage.node(node),
            lambda found: keptdrains.on_node(found.metadata.annotations, f"{stage.namespace}/{CLUSTER}") == "bad disk",
        )
        assert len(shown.metadata.annotations[names.KEPT_DRAIN].splitlines()) <= keptdrains.MOST_CLUSTERS
        await write_down(stage, {node: "bad disk"})


async def test_a_pod_is_born_with_the_reason_from_another_key(kube: Kube, stage: Stage) -> None:
    node = stage.nodes[0]
    only_sets = (with_reason_in("example.com/why")[1],)
    async with whole(kube, builds=only_sets) as operator:
        await stage.create()
        await stage.settled(3)
        before = await stage.running(POD)
        await give_reason(stage, node, "not this")
        await give_reason(stage, node, "bad fan", key="example.com/why")
        await stage.cordon(node)
        await operator.caught_up()
        await stage.client.delete(PODS, POD, Deletion(grace_period_seconds=0), namespace=stage.namespace)
        born = await eventually(lambda: stage.running(POD), lambda pod: pod.metadata.uid != before.metadata.uid)
        assert born.metadata.annotations[names.CORDON] == "bad fan"
