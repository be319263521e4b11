"""Which changes of Nodes and Pods make a NodeSet be looked at."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.operator.nodeset.factories import UID, node, nodeset, pod
from tests.unit.operator.nodeset.stores import Stores

from sunk.kube.core import Node, Pod
from sunk.model import names
from sunk.operator.nodeset.observe.triggers import Triggers

pytestmark = pytest.mark.looptime

OURS, OTHER = nodeset(), nodeset("other", uid="another uid")
ALL = ["gpu", "other"]


class Lookout:
    """Two NodeSets, and which of them were looked at since last asked."""

    def __init__(self) -> None:
        self.stores = Stores()
        self._seen: list[str] = []
        triggers = Triggers(self.stores.sets, enqueue=lambda key: self._seen.append(key.name))
        triggers.listen(nodes=self.stores.nodes.store, pods=self.stores.pods.store)
        self.stores.put(OURS, OTHER)

    def after(self, *records: Any) -> list[str]:
        self._seen.clear()
        self.stores.put(*records)
        return sorted(set(self._seen))


@pytest.fixture
async def lookout() -> AsyncIterator[Lookout]:
    made = Lookout()
    yield made
    await made.stores.close()


def daemon(phase: str = "Running", *, at: str = "a") -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    metadata = {"name": "daemon", "namespace": "kube-system", "ownerReferences": [owner]}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": at}, "status": {"phase": phase}}, Pod)


async def test_a_free_node_concerns_everybody_and_one_with_an_owner_him_alone(lookout: Lookout) -> None:
    assert lookout.after(node("a")) == ALL
    assert lookout.after(node("b", claim=UID)) == ["gpu"]
    assert lookout.after(node("c", claim="of nobody")) == ALL


async def test_a_node_that_changes_hands_concerns_both_sides(lookout: Lookout) -> None:
    lookout.after(node("a", claim=UID))
    assert lookout.after(node("a")) == ALL
    assert lookout.after(node("a", claim="another uid")) == ALL
    assert lookout.after(node("a", claim=UID)) == ALL


async def test_a_kubelet_that_only_reports_concerns_nobody(lookout: Lookout) -> None:
    lookout.after(node("a"))
    reported: Node = replace(node("a"), status=replace(node("a").status, capacity={"cpu": "17"}))
    assert lookout.after(reported) == []


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"pool": "gpu"}},
        {"address": "10.0.0.1"},
        {"unschedulable": True},
        {"taints": [{"key": "fan", "effect": "NoSchedule"}]},
    ],
    ids=str,
)
async def test_whatever_a_decision_depends_on_is_seen(lookout: Lookout, change: dict[str, Any]) -> None:
    lookout.after(node("a"))
    assert lookout.after(node("a", **change)) == ALL


async def test_a_pod_that_takes_room_on_a_free_node_concerns_everybody(lookout: Lookout) -> None:
    lookout.after(node("a"))
    assert lookout.after(daemon()) == ALL
    assert lookout.after(daemon()) == []
    assert lookout.after(daemon("Failed")) == ALL


async def test_a_pod_of_another_set_is_in_the_way_as_well(lookout: Lookout) -> None:
    lookout.after(node("a"))
    assert lookout.after(pod("other-0", at="a", owner=OTHER)) == ALL


async def test_a_pod_on_a_node_that_has_an_owner_concerns_nobody(lookout: Lookout) -> None:
    lookout.after(node("a", claim=UID))
    assert lookout.after(daemon()) == []
    lookout.after(node("b", claim="of nobody"))
    assert lookout.after(daemon(at="b")) == ALL


async def test_a_pod_that_would_be_evicted_concerns_nobody(lookout: Lookout) -> None:
    lookout.after(node("a"))
    assert lookout.after(pod("web-0", at="a")) == []


LOCKED: dict[str, Any] = {
    "labels": {names.LOCK: "locked"},
    "taints": [{"key": names.LOCK, "value": "true", "effect": "NoExecute"}],
}


async def test_the_lock_of_a_member_concerns_nobody_and_what_is_left_of_one_does(lookout: Lookout) -> None:
    """It comes and goes with every job, and a Node may join others only when it is gone."""
    lookout.after(node("a", claim=UID), node("b"))
    assert lookout.after(node("a", claim=UID, **LOCKED)) == []
    assert lookout.after(node("a", claim=UID)) == []
    assert lookout.after(node("b", **LOCKED)) == ALL
    assert lookout.after(node("b")) == ALL
    more = LOCKED | {"taints": [*LOCKED["taints"], {"key": "fan", "effect": "NoSchedule"}]}
    assert lookout.after(node("a", claim=UID, **more)) == ["gpu"]
