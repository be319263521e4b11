"""Which Pods a fake kubelet binds, decided without any API server."""

from typing import Any

import msgspec
import pytest

from sunk.kube.core import Node
from sunk.local.fakekubelet.binding import UnboundPod, fits, pinned

ONE = {"key": "metadata.name", "operator": "In", "values": ["n"]}


def pod(*terms: dict[str, Any], **spec: Any) -> UnboundPod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    tree = {"metadata": {"name": "p", "namespace": "x"}, "spec": {"affinity": {"nodeAffinity": required}} | spec}
    return msgspec.json.decode(msgspec.json.encode(tree), type=UnboundPod)


def node(*taints: dict[str, str], **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints}}, Node)


def test_affinity_to_one_name_pins_a_pod() -> None:
    assert pinned(pod({"matchFields": [ONE]})) == "n"


@pytest.mark.parametrize(
    "terms",
    [
        (),
        ({"matchFields": [ONE]}, {"matchFields": [ONE]}),
        ({"matchFields": [ONE | {"values": ["n", "m"]}]},),
        ({"matchFields": [ONE | {"operator": "NotIn"}]},),
        ({"matchFields": [ONE], "matchExpressions": [{"key": "zone", "operator": "Exists"}]},),
        ({"matchExpressions": [ONE]},),
    ],
)
def test_affinity_that_leaves_a_choice_or_asks_for_more_does_not(terms: tuple[dict[str, Any], ...]) -> None:
    assert pinned(pod(*terms)) == ""


def test_taints_keep_out_what_does_not_tolerate_them() -> None:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert not fits(pod(), node(cordon))
    assert fits(pod(tolerations=[{"key": cordon["key"], "operator": "Exists"}]), node(cordon))
    assert fits(pod(), node(cordon | {"effect": "PreferNoSchedule"}))


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"zone": "b"}},
        {"schedulerName": "slurm"},
        {"schedulingGates": [{"name": "wait"}]},
    ],
)
def test_a_pod_of_another_scheduler_or_of_other_nodes_is_left_alone(spec: dict[str, Any]) -> None:
    assert not fits(pod(**spec), node(zone="a"))
    assert fits(pod(nodeSelector={"zone": "a"}), node(zone="a"))
