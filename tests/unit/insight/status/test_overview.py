"""From objects to a page: what is shown, what is counted, what is left out."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from rich.console import Console

from sunk.insight.status.overview import Overview, overview
from sunk.insight.status.snapshot import ClusterSnapshot
from sunk.insight.status.tables import draw
from sunk.kube.core import Node, Pod
from sunk.kube.resource import Metadata
from sunk.model import names
from sunk.model.nodeslice import Entry
from sunk.objects.nodesets import NODESETS, NODESLICES, NodeSet, NodeSlice
from sunk.objects.slurmclusters import SLURMCLUSTERS, SlurmCluster
from sunk.operator.slurmcluster.rollout.status import Workload

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SINCE = (NOW - timedelta(hours=3)).isoformat()
OWNER = [
    {
        "apiVersion": "sunk.coreweave.com/v1alpha1",
        "kind": "SlurmCluster",
        "name": "slurm",
        "uid": "1",
        "controller": True,
    }
]


def condition(kind: str, status: str, reason: str = "Because", message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def slurm(*conditions: dict[str, Any], meta: dict[str, Any] | None = None, **status: Any) -> SlurmCluster:
    metadata = {"name": "slurm", "namespace": "team", "uid": "1", "generation": 2} | (meta or {})
    told = {"observedGeneration": 2, "conditions": list(conditions)} | status
    found: SlurmCluster = decoded({"metadata": metadata, "spec": {}, "status": told}, SLURMCLUSTERS.record)
    return found


def decoded(tree: dict[str, Any], kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(tree), type=kind)


def part(name: str, *, ready: int, wanted: int = 1, updated: int = 1, owned: bool = True) -> Workload:
    metadata = {"name": name, "namespace": "team", "ownerReferences": OWNER if owned else []}
    status = {"readyReplicas": ready, "updatedReplicas": updated}
    return msgspec.convert({"metadata": metadata, "spec": {"replicas": wanted}, "status": status}, Workload)


def nodeset(name: str, *conditions: dict[str, Any], owned: bool = True, **status: Any) -> NodeSet:
    metadata = {"name": name, "namespace": "team", "uid": name, "ownerReferences": OWNER if owned else []}
    tree = {"metadata": metadata, "spec": {"template": {}}, "status": {"conditions": list(conditions)} | status}
    found: NodeSet = decoded(tree, NODESETS.record)
    return found


def members(owner: str, *entries: Entry, number: int = 0) -> NodeSlice:
    spec = {"nodeSet": owner, "nodeSetUid": owner, "entries": msgspec.to_builtins(entries)}
    found: NodeSlice = decoded(
        {"metadata": {"name": f"{owner}-{number}", "namespace": "team"}, "spec": spec}, NODESLICES.record
    )
    return found


def pod(name: str, *, namespace: str = "team") -> Pod:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "status": status}, Pod)


def node(name: str, **spec: Any) -> Node:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Node)


def entries(count: int) -> list[Entry]:
    return [Entry(f"gpu-{number}", node=f"node-{number}") for number in range(count)]


def lines(found: Overview, *, width: int = 400, **how: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(draw(found, now=NOW, **how))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def page(found: ClusterSnapshot, **how: Any) -> str:
    return "\n".join(lines(overview(found), **how))


def test_a_cluster_that_is_well_takes_few_lines() -> None:
    one = slurm(condition("Ready", "True"), configWanted="a" * 32, configApplied="a" * 32, slurmVersion="24.11.5")
    parts = (part("slurm-login", ready=1), part("slurm-controller", ready=1), part("other-login", ready=0, owned=False))
    numbers: dict[str, Any] = {
        "desiredNumberScheduled": 2,
        "numberFeasible": 2,
        "currentNumberScheduled": 2,
        "numberReady": 2,
    }
    sets = (
        nodeset("gpu", condition("Ready", "True"), condition("Held", "False"), updatedNumberScheduled=2, **numbers),
    )
    found = ClusterSnapshot(
        (one,),
        parts,
        sets,
        (members("gpu", *entries(2)),),
        (pod("gpu-0"), pod("gpu-1")),
        tuple(map(node, ("node-0", "node-1"))),
    )
    shown = lines(overview(found))
    assert shown[:3] == [
        "SlurmCluster team/slurm  ready",
        "  Slurm 24.11.5  configuration aaaaaaaaaa applied",
        "  controller 1/1  login 1/1",
    ]
    assert shown[-2].split() == ["gpu", "2", "2", "2", "2", "0", "2", "0", "0", "0"]
    assert shown[-1] == "  2 members are healthy, 0 not"


def test_only_conditions_that_do_not_hold_are_shown_and_what_sums_them_up_is_not() -> None:
    lacking = slurm(
        condition("Ready", "False", "Lacking", "ConfigApplied: a slurmctld tries it"),
        condition("LoginAvailable", "True"),
        condition("ConfigApplied", "False", "Trying", "a slurmctld tries it"),
        configWanted="b" * 32,
        configApplied="a" * 32,
    )
    shown = page(ClusterSnapshot((lacking,)))
    assert "ConfigApplied: Trying  a slurmctld tries it (3h)" in shown
    assert "configuration bbbbbbbbbb not applied yet, running aaaaaaaaaa" in shown
    assert "Lacking" not in shown
    assert "LoginAvailable" not in shown


def test_what_several_conditions_say_alike_is_said_once() -> None:
    told = "compute.nodes.gpu: no layer h10."
    refused = slurm(condition("Ready", "False", "Refused", told), condition("ConfigApplied", "False", "Refused", told))
    assert page(ClusterSnapshot((refused,))).count(told) == 1


def test_a_spec_that_nobody_has_acted_upon_is_not_ready_whatever_the_conditions_say() -> None:
    one = slurm(condition("Ready", "True"), observedGeneration=1)
    (view,) = overview(ClusterSnapshot((one,))).clusters
    assert not view.ready
    assert "Observed: Waiting  the operator has not processed the spec yet" in page(ClusterSnapshot((one,)))


def test_conditions_of_a_nodeset_that_should_be_false_are_shown_when_they_are_true() -> None:
    one = nodeset(
        "gpu",
        condition("Ready", "False", "NodesMissing", "1 of 2 nodes ready"),
        condition("Progressing", "True", "Changing", "1 joining"),
        condition("TemplateValid", "True"),
        condition("Held", "False"),
    )
    shown = page(ClusterSnapshot(sets=(one,)))
    assert "gpu  Ready: NodesMissing  1 of 2 nodes ready (3h)" in shown
    assert "gpu  Progressing: Changing  1 joining (3h)" in shown
    assert "TemplateValid" not in shown
    assert "Held" not in shown


def test_members_that_are_not_well_are_shown_and_the_others_counted() -> None:
    some = (*entries(3), Entry("gpu-3", node="node-3", state="leaving", reason="scaled in"))
    pods = tuple(pod(f"gpu-{number}") for number in (0, 1, 3))
    nodes = (node("node-0"), node("node-1", unschedulable=True), node("node-2"), node("node-3"))
    found = ClusterSnapshot(sets=(nodeset("gpu"),), slices=(members("gpu", *some),), pods=pods, nodes=nodes)
    (view,) = overview(found).node_sets
    assert (view.well, view.leaving, [one.pod for one in view.members]) == (1, 1, ["gpu-1", "gpu-2", "gpu-3"])
    shown = lines(overview(found))
    assert [line.split()[:4] for line in shown[-4:-1]] == [
        ["node-2", "gpu-2", "joined", "no"],
        ["node-1", "gpu-1", "joined", "cordoned"],
        ["node-3", "gpu-3", "leaving", "scaled"],
    ]
    assert shown[-1] == "  1 member is healthy, 3 not"


def test_a_member_that_moves_between_slices_is_one() -> None:
    twice = (members("gpu", *entries(1)), members("gpu", *entries(1), number=1))
    (view,) = overview(
        ClusterSnapshot(sets=(nodeset("gpu"),), slices=twice, pods=(pod("gpu-0"),), nodes=(node("node-0"),))
    ).node_sets
    assert (view.well, view.members) == (1, ())


def test_a_pod_of_the_same_name_elsewhere_is_not_its_pod() -> None:
    found = ClusterSnapshot(
        sets=(nodeset("gpu"),), slices=(members("gpu", *entries(1)),), pods=(pod("gpu-0", namespace="other"),)
    )
    (view,) = overview(found).node_sets
    assert [note.text for note in view.members[0].notes] == ["no Pod"]


def test_nodesets_stand_below_their_cluster_and_others_below_none() -> None:
    found = ClusterSnapshot((slurm(),), sets=(nodeset("gpu"), nodeset("lone", owned=False)))
    seen = overview(found)
    assert [one.name for one in seen.clusters[0].node_sets] == ["gpu"]
    assert [one.name for one in seen.node_sets] == ["lone"]
    assert "NodeSets without a SlurmCluster" in page(found)


def test_where_nodes_may_not_be_read_it_is_said_and_nobody_is_called_lost() -> None:
    found = ClusterSnapshot(
        sets=(nodeset("gpu"),), slices=(members("gpu", *entries(1)),), pods=(pod("gpu-0"),), nodes=None
    )
    shown = page(found)
    assert "You may not read Nodes" in shown
    assert "1 member is healthy, 0 not" in shown


def test_locks_are_counted_and_pending_ones_are_named_with_their_age() -> None:
    states = ("locked", "pending", "locked_strict", "false")
    nodes = tuple(
        replace(node(f"node-{number}"), metadata=said(f"node-{number}", LOCK=state))
        for number, state in enumerate(states)
    )
    asks = replace(pod("gpu-1"), metadata=said("gpu-1", "team", LOCK_REQUEST='{"number":3,"jobs":["7/0","9/1"]}'))
    pods = (pod("gpu-0"), asks, pod("gpu-2"), pod("gpu-3"))
    found = ClusterSnapshot(
        sets=(nodeset("gpu"),),
        slices=(members("gpu", *entries(4)),),
        pods=pods,
        nodes=nodes,
        lock_times={"node-0": NOW, "node-1": NOW - timedelta(minutes=4)},
    )
    (view,) = overview(found).node_sets
    assert (view.locked, view.lock_pending, view.well) == (2, 1, 3)
    assert "lock pending, jobs 7, 9 waiting for other work to leave (4m)" in page(found)


def test_without_nodes_the_copy_on_the_pod_tells_of_the_lock() -> None:
    shown = replace(pod("gpu-0"), metadata=said("gpu-0", "team", LOCK="locked"))
    found = ClusterSnapshot(sets=(nodeset("gpu"),), slices=(members("gpu", *entries(1)),), pods=(shown,), nodes=None)
    assert overview(found).node_sets[0].locked == 1


def said(name: str, namespace: str = "", **annotations: str) -> Metadata:
    return Metadata(
        name=name, namespace=namespace, annotations={getattr(names, key): text for key, text in annotations.items()}
    )


def test_a_screen_without_room_says_how_many_are_not_shown() -> None:
    found = ClusterSnapshot(sets=(nodeset("gpu"),), slices=(members("gpu", *entries(9)),), nodes=())
    shown = page(found, most=4)
    assert shown.count("no Pod") == 4
    assert "0 members are healthy, 9 not; 5 of these not shown (screen too small)" in shown


def test_where_there_is_nothing_it_is_said_where_was_looked() -> None:
    assert page(ClusterSnapshot()) == "No SlurmCluster and no NodeSet anywhere."
    told = page(ClusterSnapshot(), where="in namespace team")
    assert told == "No SlurmCluster and no NodeSet in namespace team. -A shows all namespaces."


def test_what_is_deleted_and_what_is_updated_is_said() -> None:
    # The deletion itself is a new generation, which nobody acts upon.
    one = slurm(condition("Ready", "True"), meta={"deletionTimestamp": SINCE, "generation": 3})
    shown = page(ClusterSnapshot((one,), (part("slurm-login", ready=1, updated=0), part("slurm-rest", ready=0))))
    assert "SlurmCluster team/slurm  being deleted" in shown
    assert "Observed" not in shown
    assert "login 1/1 updating  rest 0/1" in shown


def test_nothing_that_people_write_steers_the_terminal() -> None:
    one = slurm(condition("Ready", "False", "Refused", "\x1b[2J[bold]no\nway"))
    assert "Ready: Refused   [2J[bold]no way (3h)" in page(ClusterSnapshot((one,)))


def test_a_program_gets_the_same() -> None:
    found = ClusterSnapshot(
        (slurm(condition("Ready", "True")),), sets=(nodeset("gpu"),), slices=(members("gpu", *entries(1)),)
    )
    plain = msgspec.json.decode(msgspec.json.encode(overview(found)))
    assert plain["clusters"][0]["nodeSets"][0]["members"][0] == {
        "node": "node-0",
        "pod": "gpu-0",
        "state": "joined",
        "notes": [{"text": "no Pod", "grave": True}],
    }
