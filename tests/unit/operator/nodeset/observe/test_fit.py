"""Which Nodes may join a NodeSet, and which members are still meant."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from sunk.kube.core import Node, Pod, Taint, Toleration
from sunk.model.kubernetes.quantity import ONE
from sunk.model.kubernetes.selection import Expression, NodeSelector, Term
from sunk.model.names import GROUP, LOCK
from sunk.operator.nodeset.observe.fit import Demand, demand, occupancy, ready, unfit, unfit_to_join
from sunk.operator.nodeset.observe.template import read

ROOM = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"}
LOCKED = {"key": LOCK, "value": "true", "effect": "NoExecute"}
FAN = {"key": "fan", "value": "bad", "effect": "NoSchedule"}
KUBERNETES = [
    {"key": f"node.kubernetes.io/{name}", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("unschedulable", "NoSchedule"),
        ("disk-pressure", "NoSchedule"),
    )
]
IN_ZONE_A = NodeSelector((Term((Expression("zone", "In", ("a",)),)),))


def node(
    *taints: dict[str, str], labels: dict[str, str] | None = None, room: dict[str, str] | None = None, **spec: Any
) -> Node:
    tree = {
        "metadata": {"name": "node-1", "labels": labels or {}},
        "spec": {"taints": list(taints)} | spec,
        "status": {"allocatable": ROOM if room is None else room},
    }
    return msgspec.convert(tree, Node)


def pod(
    *, owner: tuple[str, str] | None = None, cpu: str = "1", phase: str = "Running", mirror: bool = False, **spec: Any
) -> Pod:
    metadata: dict[str, Any] = {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"} if mirror else {}}
    if owner:
        version, kind = owner
        reference = {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": True}
        metadata["ownerReferences"] = [reference]
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    tree = {"metadata": metadata, "spec": {"containers": containers} | spec, "status": {"phase": phase}}
    return msgspec.convert(tree, Pod)


DAEMON = ("apps/v1", "DaemonSet")
HOLDING_OUT = [{"key": LOCK, "operator": "Exists"}]
CPU = Demand(requests={"cpu": 8 * ONE, "pods": ONE})


# Joining


def test_a_plain_node_fits_a_plain_demand() -> None:
    assert unfit_to_join(node(), CPU, taken={}) is None


def test_a_node_that_is_not_selected_may_neither_join_nor_stay() -> None:
    asked = Demand(selector=IN_ZONE_A)
    assert unfit(node(labels={"zone": "a"}), asked) is None
    assert unfit_to_join(node(labels={"zone": "a"}), asked, taken={}) is None
    for why in (unfit(node(), asked), unfit_to_join(node(), asked, taken={})):
        assert why == "the template's required node affinity does not match"


def test_a_cordoned_node_may_stay_but_not_join() -> None:
    cordoned = node(KUBERNETES[2], unschedulable=True)
    assert unfit_to_join(cordoned, CPU, taken={}) == "it is cordoned"
    assert unfit(cordoned, CPU) is None
    assert unfit_to_join(cordoned, Demand(tolerations=(Toleration(operator="Exists"),)), taken={}) == "it is cordoned"


@pytest.mark.parametrize("taint", KUBERNETES)
def test_a_node_that_kubernetes_finds_ill_may_stay_but_not_join(taint: dict[str, str]) -> None:
    assert unfit(node(taint), CPU) is None
    assert taint["key"] in (unfit_to_join(node(taint), CPU, taken={}) or "")


def test_the_lock_keeps_nobody_from_joining_or_staying() -> None:
    assert unfit_to_join(node(LOCKED), CPU, taken={}) is None
    assert unfit(node(LOCKED), CPU) is None


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_foreign_taint_ends_membership_unless_it_is_tolerated(effect: str) -> None:
    tainted = node(LOCKED, FAN | {"effect": effect})
    willing = Demand(tolerations=(Toleration(key="fan", value="bad"),))
    for why in (unfit(tainted, CPU), unfit_to_join(tainted, CPU, taken={})):
        bounded = " without tolerationSeconds" if effect == "NoExecute" else ""
        assert why == f"the template needs a toleration for the Node's taint fan=bad:{effect}{bounded}"
    assert unfit(tainted, willing) is None
    assert unfit_to_join(tainted, willing, taken={}) is None


def test_a_taint_that_is_only_a_wish_keeps_nobody_away() -> None:
    wish = node(FAN | {"effect": "PreferNoSchedule"})
    assert unfit(wish, CPU) is None
    assert unfit_to_join(wish, CPU, taken={}) is None


def test_a_bounded_toleration_is_none_since_the_pod_would_be_evicted_with_its_jobs() -> None:
    bounded = Demand(tolerations=(Toleration("fan", "Exists", effect="NoExecute", toleration_seconds=300),))
    tainted = node(FAN | {"effect": "NoExecute"})
    assert unfit(tainted, bounded)
    assert unfit_to_join(tainted, bounded, taken={})


def test_a_node_that_is_being_deleted_may_not_join() -> None:
    leaving = msgspec.structs.replace(
        node(), metadata=msgspec.structs.replace(node().metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    )
    assert unfit_to_join(leaving, CPU, taken={}) == "it is being deleted"
    assert unfit(leaving, CPU) is None


# Room


def test_requests_must_fit_beside_what_stays() -> None:
    assert unfit_to_join(node(), CPU, taken={"cpu": 8 * ONE}) is None
    why = unfit_to_join(node(), CPU, taken={"cpu": 8 * ONE + 10**6})
    assert why == "cpu: 8 requested, 7999m of 16 free (Pods that will not be evicted use the rest)"


def test_a_full_node_may_stay() -> None:
    assert unfit(node(room={}), CPU) is None


def test_a_resource_that_the_node_does_not_have_does_not_fit() -> None:
    asked = Demand(requests={"nvidia.com/gpu": ONE})
    assert unfit_to_join(node(), asked, taken={}) is None
    why = unfit_to_join(node(room={"cpu": "16", "pods": "110"}), asked, taken={})
    assert why == "nvidia.com/gpu: 1 requested, 0 of 0 free"


def test_the_places_for_pods_are_counted() -> None:
    assert unfit_to_join(node(room=ROOM | {"pods": "3"}), CPU, taken={"pods": 2 * ONE}) is None
    assert "pods: 1 requested, 0 of 3" in (
        unfit_to_join(node(room=ROOM | {"pods": "3"}), CPU, taken={"pods": 3 * ONE}) or ""
    )


def test_a_node_that_has_reported_nothing_yet_does_not_fit() -> None:
    assert unfit_to_join(node(room={}), demand(read(b'{"spec":{"containers":[{"name":"slurmd"}]}}')), taken={})


def test_the_demand_of_a_template_leaves_out_what_is_asked_for_as_nothing() -> None:
    asked = demand(
        read(
            b'{"spec":{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"slurmd",'
            b'"resources":{"requests":{"cpu":"2","x.y/z":0}}}]}}'
        )
    )
    assert asked == Demand(tolerations=(Toleration(operator="Exists"),), requests={"cpu": 2 * ONE, "pods": ONE})


# What stays


def test_pods_of_daemon_sets_and_static_ones_take_room() -> None:
    taken = occupancy([pod(owner=DAEMON, cpu="250m"), pod(mirror=True, cpu="100m")])
    assert taken == {"cpu": 350 * 10**6, "pods": 2 * ONE}


def test_pods_that_the_lock_evicts_take_none() -> None:
    bounded = HOLDING_OUT[0] | {"effect": "NoExecute", "tolerationSeconds": 300}
    assert occupancy([pod(), pod(owner=("apps/v1", "ReplicaSet")), pod(tolerations=[bounded])]) == {}


def test_pods_that_tolerate_the_lock_for_good_take_room() -> None:
    assert occupancy([pod(tolerations=HOLDING_OUT, cpu="3")]) == {"cpu": 3 * ONE, "pods": ONE}


def test_a_pod_that_only_says_it_is_of_a_nodeset_takes_room_like_any_other() -> None:
    assert not occupancy([pod(owner=(f"{GROUP}/v1alpha1", "NodeSet"))])
    assert occupancy([pod(owner=(f"{GROUP}/v1alpha1", "NodeSet"), tolerations=HOLDING_OUT)])


def test_a_foreign_kind_that_is_called_like_ours_takes_room() -> None:
    assert occupancy([pod(owner=("example.com/v1", "NodeSet"), tolerations=HOLDING_OUT)])
    assert not occupancy([pod(owner=("example.com/v1", "DaemonSet"))])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_take_none(phase: str) -> None:
    assert occupancy([pod(owner=DAEMON, phase=phase)]) == {}


@pytest.mark.parametrize("phase", ["Pending", "Unknown", ""])
def test_pods_that_have_not_ended_take_room_whatever_they_do(phase: str) -> None:
    assert occupancy([pod(owner=DAEMON, phase=phase)])


def test_sidecars_overhead_and_pod_requests_of_a_pod_count() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    assert occupancy([pod(owner=DAEMON, initContainers=[sidecar], overhead={"cpu": "100m"})])["cpu"] == 3100 * 10**6
    assert occupancy([pod(owner=DAEMON, resources={"requests": {"cpu": "5"}})])["cpu"] == 5 * ONE


# Both questions


@given(
    taints=st.lists(st.sampled_from([LOCKED, FAN, *KUBERNETES]), max_size=3),
    zone=st.sampled_from(["a", "b"]),
    selector=st.sampled_from([None, IN_ZONE_A, NodeSelector()]),
    tolerant=st.booleans(),
    cordoned=st.booleans(),
    cpus=st.integers(0, 20),
)
def test_whoever_may_join_may_also_stay(  # noqa: PLR0913 - one for each thing that can be so or not
    *,
    taints: list[dict[str, str]],
    zone: str,
    selector: NodeSelector | None,
    tolerant: bool,
    cordoned: bool,
    cpus: int,
) -> None:
    found = node(*taints, labels={"zone": zone}, unschedulable=cordoned)
    tolerations = (Toleration("fan", "Exists"),) if tolerant else ()
    asked = Demand(selector=selector, tolerations=tolerations, requests={"cpu": cpus * ONE, "pods": ONE})
    if unfit_to_join(found, asked, taken={}) is None:
        assert unfit(found, asked) is None


@pytest.mark.parametrize(("status", "wanted"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_a_node_is_ready_if_it_says_so(status: str | None, *, wanted: bool) -> None:
    conditions = [{"type": "DiskPressure", "status": "False"}]
    if status:
        conditions.append({"type": "Ready", "status": status})
    assert ready(msgspec.convert({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, Node)) is wanted


def test_a_taint_of_a_key_that_only_resembles_kubernetes_is_foreign() -> None:
    assert unfit(node({"key": "node.kubernetes.iox/y", "effect": "NoSchedule"}), CPU)
    assert Taint(key=f"{LOCK}ed", effect="NoExecute").key in (
        unfit(node({"key": f"{LOCK}ed", "effect": "NoExecute"}), CPU) or ""
    )


# What cannot be read

NONSENSE = ["1e99", "9" * 200, "1e-999999999999999999", "", "m", "٣", "0x10", "1 2"]


@pytest.mark.parametrize("text", NONSENSE)
def test_an_unreadable_amount_of_what_nobody_asks_for_is_nothing(text: str) -> None:
    evil = {"name": "evil", "resources": {"requests": {"evil.example/x": text}}}
    stays = pod(owner=DAEMON, containers=[evil], overhead={"evil.example/y": text})
    there = node(room=ROOM | {"evil.example/x": text})
    assert unfit_to_join(there, CPU, taken=occupancy([stays])) is None


@pytest.mark.parametrize("text", ["1e99", "9" * 200])
def test_an_unreadable_amount_of_what_is_asked_for_makes_that_node_unfit_and_says_so(text: str) -> None:
    taken = occupancy([pod(owner=DAEMON, cpu=text), pod(owner=DAEMON)])
    why = unfit_to_join(node(), CPU, taken=taken)
    assert why is not None
    assert why.startswith("cannot be read: cpu: a Pod")
    why = unfit_to_join(node(room=ROOM | {"cpu": text}), CPU, taken={})
    assert why is not None
    assert why.startswith(f"cannot be read: cpu: its allocatable amount '{text[:40]}")


@given(st.text(), st.sampled_from(("cpu", "memory", "evil.example/x")))
def test_whatever_others_write_as_an_amount_is_never_an_error(text: str, name: str) -> None:
    evil = {"name": "evil", "resources": {"requests": {name: text}}}
    stays = pod(owner=DAEMON, initContainers=[evil], containers=[evil], resources={"requests": {name: text}})
    unfit_to_join(node(room=ROOM | {name: text}), CPU, taken=occupancy([stays]))
