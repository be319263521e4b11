"""Who would be evicted by the lock, in which order that is told, and what is advised."""

import io
import shlex
from typing import Any

import msgspec
import pytest
from msgspec import json
from rich.console import Console

from sunk.insight.check.evictions import DAEMON_SET, TOLERATION, Eviction, evictions
from sunk.insight.check.page import advice, overview
from sunk.insight.check.survey import DaemonSet, Survey, candidates, places
from sunk.insight.nodepods import NodePod
from sunk.kube.core import Node
from sunk.model import names
from sunk.objects.nodesets import NODESETS, NodeSet

LASTING: dict[str, Any] = {"key": names.LOCK, "operator": "Exists"}
BOUNDED = LASTING | {"tolerationSeconds": 300}
EVERYTHING = {"operator": "Exists"}


def node(name: str = "node-1", *taints: dict[str, str], claim: str = "", **labels: str) -> Node:
    notes = {names.CLAIM: claim} if claim else {}
    metadata = {"name": name, "labels": labels, "annotations": notes}
    return msgspec.convert({"metadata": metadata, "spec": {"taints": list(taints)}}, Node)


def pod(  # noqa: PLR0913 - one for each trait
    kind: str,
    owner: str,
    *tolerations: dict[str, Any],
    namespace: str = "web",
    on: str = "node-1",
    labels: dict[str, str] | None = None,
    grace: int = 30,
) -> NodePod:
    hashed = {"pod-template-hash": "abc"} if kind == "ReplicaSet" else {}
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}]
    metadata = {
        "name": f"{owner}-x",
        "namespace": namespace,
        "labels": (labels or {}) | hashed,
        "ownerReferences": owners if kind != "Pod" else [],
    }
    spec = {"nodeName": on, "tolerations": list(tolerations), "terminationGracePeriodSeconds": grace}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, NodePod)


def agent(name: str, *tolerations: dict[str, Any], namespace: str = "logging", **spec: Any) -> DaemonSet:
    tree = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"tolerations": list(tolerations)} | spec}},
    }
    return msgspec.convert(tree, DaemonSet)


def told(*pods: NodePod, agents: tuple[DaemonSet, ...] | None = (), nodes: int = 1, **more: Any) -> list[Eviction]:
    every = tuple(node(f"node-{number + 1}") for number in range(nodes))
    return [*evictions(Survey(every, pods, daemon_sets=agents, **more))]


def named(found: list[Eviction]) -> list[str]:
    return [f"{one.kind} {one.namespace}/{one.name}" for one in found]


def test_what_tolerates_the_lock_for_good_stays() -> None:
    assert told(pod("DaemonSet", "agent", LASTING), pod("ReplicaSet", "web-abc", EVERYTHING)) == []


def test_pods_are_told_by_what_a_person_would_change() -> None:
    pods = [pod("ReplicaSet", "web-abc"), pod("ReplicaSet", "web-abc", on="node-2"), pod("Pod", "alone")]
    first, second = told(*pods, nodes=2)
    assert (first.kind, first.name, first.pods, first.nodes) == ("Deployment", "web", 2, ("node-1", "node-2"))
    assert (second.kind, second.name) == ("Pod", "alone-x")
    assert not first.command


def test_ourselves_come_first_then_daemonsets_then_kube_system() -> None:
    pods = [
        pod("ReplicaSet", "shop-abc"),
        pod("Job", "night"),
        pod("Pod", "alone"),
        pod("StatefulSet", "db"),
        pod("ReplicaSet", "dns-abc", namespace="kube-system"),
        pod("DaemonSet", "logs", namespace="logging"),
        pod("DaemonSet", "gpu", namespace="kube-system"),
        pod("ReplicaSet", "slurm-login-abc", namespace="slurm", labels={names.MANAGED_BY: names.SUNK}),
        pod("ReplicaSet", "sunk-controller-manager-abc", namespace="sunk", labels={names.PART_OF: names.SUNK}),
    ]
    found = told(*pods)
    assert named(found) == [
        "Deployment slurm/slurm-login",
        "Deployment sunk/sunk-controller-manager",
        "DaemonSet kube-system/gpu",
        "DaemonSet logging/logs",
        "Deployment kube-system/dns",
        "Deployment web/shop",
        "StatefulSet web/db",
        "Job web/night",
        "Pod web/alone-x",
    ]
    assert [one.infrastructure for one in found] == [True] * 5 + [False] * 4


def test_a_bounded_toleration_is_none_and_is_named() -> None:
    (found,) = told(pod("DaemonSet", "agent", BOUNDED, LASTING))
    assert found.bounded == 300
    assert told(pod("DaemonSet", "agent", LASTING, BOUNDED)) == [], "the first that matches decides"


def test_a_daemonset_counts_on_nodes_where_it_has_no_pod_yet() -> None:
    (found,) = told(pod("DaemonSet", "agent", namespace="logging"), agents=(agent("agent"),), nodes=3)
    assert (found.pods, found.nodes) == (1, ("node-1", "node-2", "node-3"))
    (fresh,) = told(agents=(agent("agent", BOUNDED),))
    assert (fresh.kind, fresh.pods, fresh.nodes, fresh.bounded) == (DAEMON_SET, 0, ("node-1",), 300)


def test_a_daemonset_whose_pods_tolerate_it_all_the_same_stays() -> None:
    assert told(pod("DaemonSet", "agent", LASTING, namespace="logging"), agents=(agent("agent"),), nodes=2) == []


def test_a_daemonset_elsewhere_is_no_concern() -> None:
    assert told(agents=(agent("agent", nodeSelector={"zone": "b"}),)) == []


@pytest.mark.parametrize(
    ("there", "path"),
    [((), "/spec/template/spec/tolerations"), ((BOUNDED,), "/spec/template/spec/tolerations/0")],
)
def test_the_command_puts_the_toleration_first(there: tuple[dict[str, Any], ...], path: str) -> None:
    (found,) = told(agents=(agent("agent", *there),))
    words = shlex.split(found.command)
    assert words[:5] == ["kubectl", "-n", "logging", "patch", "daemonset"]
    ((change),) = json.decode(words[-1])
    assert (change["op"], change["path"]) == ("add", path)
    assert change["value"] in (TOLERATION, [TOLERATION])


def test_pods_that_are_older_than_their_template_have_to_be_restarted() -> None:
    (found,) = told(pod("DaemonSet", "agent", namespace="logging"), agents=(agent("agent", LASTING),))
    assert found.command == "kubectl -n logging rollout restart daemonset/agent"


def test_a_grace_period_beyond_the_wait_of_prologs_is_named() -> None:
    (found,) = told(pod("ReplicaSet", "web-abc", grace=600), timeout=300)
    assert found.outlasts
    (unknown,) = told(pod("ReplicaSet", "web-abc", grace=600))
    assert not unknown.outlasts


def test_where_daemonsets_may_not_be_listed_their_pods_tell() -> None:
    (found,) = told(pod("DaemonSet", "agent"), agents=None)
    assert (found.kind, found.command) == (DAEMON_SET, "")


# Which Nodes


def node_set(**required: Any) -> NodeSet:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}} if required else {}
    template = {"spec": {"containers": [{"name": "slurmd"}], "affinity": affinity}}
    tree = {"metadata": {"name": "gpu", "namespace": "team", "uid": "set"}, "spec": {"template": template}}
    return msgspec.json.decode(msgspec.json.encode(tree), type=NODESETS.record)


GPU = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}


def test_members_count_and_nodes_that_fit() -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    nodes = [node("a", gpu="yes"), node("b"), node("c", claim="set"), node("d", taint, gpu="yes")]
    assert [one.metadata.name for one in candidates(nodes, [node_set(**GPU)])] == ["a", "c"]
    assert [one.metadata.name for one in candidates(nodes, [])] == ["c"]
    broken = msgspec.structs.replace(node_set(), spec=msgspec.structs.replace(node_set().spec, template=b"{}"))
    assert [one.metadata.name for one in candidates(nodes, [broken])] == ["c"]


def test_where_a_daemonset_runs() -> None:
    control = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    locked = {"key": names.LOCK, "value": "true", "effect": "NoExecute"}
    silent = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": GPU}}
    assert places(agent("a"), node("n", locked, silent))
    assert not places(agent("a"), node("n", control))
    assert places(agent("a", EVERYTHING), node("n", control))
    assert places(agent("a", affinity=affinity), node(gpu="yes"))
    assert not places(agent("a", affinity=affinity), node())


# The page


def drawn(found: Survey) -> str:
    screen = Console(width=300, record=True, file=io.StringIO())
    screen.print(overview(found, evictions(found)))
    return "\n".join((screen.export_text(), *advice(found, evictions(found))))


def test_the_page_has_the_toleration_and_the_commands_to_paste() -> None:
    pods = (
        pod("DaemonSet", "gpu", BOUNDED, namespace="kube-system"),
        pod("ReplicaSet", "web-abc", grace=600),
        pod("ReplicaSet", "sunk-controller-manager-abc", labels={names.PART_OF: names.SUNK}),
    )
    agents = (agent("gpu", BOUNDED, namespace="kube-system"),)
    text = drawn(Survey((node(),), pods, daemon_sets=agents, timeout=300))
    assert "1 Node checked. Evicted" in text
    assert "but for 300 s only" in text
    assert "part of SUNK" in text
    assert "longer than prologs wait" in text
    lines = ("  tolerations:", f"    - key: {names.LOCK}", "      operator: Exists", "      effect: NoExecute")
    assert "\n".join(lines) in text
    assert "kubectl -n kube-system patch daemonset gpu --type json -p '[" in text


def test_the_page_says_that_all_is_well_and_what_was_not_seen() -> None:
    text = drawn(Survey((node(),), (), daemon_sets=None))
    assert "everything there stays" in text
    assert "may not list DaemonSets" in text
