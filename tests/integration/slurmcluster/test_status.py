"""`sunk status` as a person runs it, on a real API server."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Kubectl
from tests.slurm.terminal import terminal
from tests.waiting import eventually

PROGRAM = str(Path(sys.executable).with_name("sunk"))
GROUP = "sunk.coreweave.com/v1alpha1"
SINCE = "2026-01-01T00:00:00Z"


def sunk(*arguments: str, kubeconfig: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PROGRAM, "status", *arguments, "--kubeconfig", str(kubeconfig)],
        env=os.environ | {"COLUMNS": "160"} | env,  # where lines are wrapped is not for the machine to say
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def shown(kubectl: Kubectl, *arguments: str) -> str:
    done = sunk("-n", kubectl.namespace, *arguments, kubeconfig=kubectl.kubeconfig)
    assert (done.returncode, done.stderr) == (0, "")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


class World:
    """Objects as the operator leaves them, without the operator."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.nodes: list[str] = []

    def put(self, body: dict[str, Any], *, status: dict[str, Any] | None = None) -> str:
        """Create an object, with a status if one is given; returns its uid."""
        made = json.loads(self.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(body)))
        if status is not None:
            name = f"{body['kind'].lower()}/{body['metadata']['name']}"
            patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
            self.kubectl("patch", name, *patch)
        return str(made["metadata"]["uid"])

    def cluster(self, *conditions: dict[str, Any]) -> dict[str, Any]:
        """A SlurmCluster; returns the reference that makes objects its own."""
        status = {
            "observedGeneration": 1,
            "configWanted": "b" * 32,
            "configApplied": "a" * 32,
            "slurmVersion": "24.11.5",
        }
        body = {"apiVersion": GROUP, "kind": "SlurmCluster", "metadata": {"name": "slurm"}, "spec": {}}
        uid = self.put(body, status=status | {"conditions": list(conditions)})
        return {"apiVersion": GROUP, "kind": "SlurmCluster", "name": "slurm", "uid": uid, "controller": True}

    def workload(self, kind: str, part: str, owner: dict[str, Any], *, replicas: int) -> None:
        labels = {"app.kubernetes.io/managed-by": "sunk", "part": part}
        pod = {"metadata": {"labels": {"part": part}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"part": part}}, "template": pod}
        spec |= {"serviceName": part} if kind == "StatefulSet" else {}
        metadata = {"name": f"slurm-{part}", "labels": labels, "ownerReferences": [owner]}
        self.put({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})

    def nodeset(self, owner: dict[str, Any], *entries: dict[str, Any], **status: Any) -> None:
        metadata = {"name": "slurm-gpu", "ownerReferences": [owner]}
        body = {"apiVersion": GROUP, "kind": "NodeSet", "metadata": metadata, "spec": {"template": {"spec": {}}}}
        uid = self.put(body, status={"observedGeneration": 1} | status)
        spec = {"nodeSet": "slurm-gpu", "nodeSetUid": uid, "entries": list(entries)}
        self.put({"apiVersion": GROUP, "kind": "NodeSlice", "metadata": {"name": "slurm-gpu-0"}, "spec": spec})

    def node(self, name: str, **spec: Any) -> str:
        named = f"{name}-{self.kubectl.namespace}"
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _now(), "lastTransitionTime": SINCE}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": named}, "spec": spec}
        self.put(body, status={"conditions": [ready]})
        self.nodes.append(named)
        return named

    def pod(self, name: str, node: str, *conditions: dict[str, Any], annotations: dict[str, str] | None = None) -> None:
        labels = {"app.kubernetes.io/component": "compute"}
        spec = {"nodeName": node, "containers": [{"name": "slurmd", "image": "x"}]}
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        found = [condition("Ready", "True", "Ready", ""), *conditions]
        self.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
            status={"phase": "Running", "conditions": found},
        )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@pytest.fixture
def world(kubectl: Kubectl) -> Iterator[World]:
    made = World(kubectl)
    yield made
    for name in made.nodes:
        kubectl("delete", "node", name)


def entry(name: str, node: str, **more: str) -> dict[str, Any]:
    return {"name": name, "node": node} | more


def test_a_cluster_is_shown_with_what_is_wrong_with_it_and_its_members(world: World) -> None:
    bad = condition("ConfigApplied", "False", "BadConfiguration", "keeping the previous configuration: Unknown key Foo")
    owner = world.cluster(condition("Ready", "False", "Lacking", "ConfigApplied: …"), bad)
    world.workload("Deployment", "controller", owner, replicas=1)
    world.workload("StatefulSet", "login", owner, replicas=0)
    well, cordoned, leaving = (
        world.node(name, **spec) for name, spec in (("a", {}), ("b", {"unschedulable": True}), ("c", {}))
    )
    world.nodeset(
        owner,
        entry("gpu-1", well),
        entry("gpu-2", cordoned),
        entry("gpu-3", leaving, state="leaving", reason="scaled in"),
        entry("gpu-4", "gone"),
        desiredNumberScheduled=3,
        numberFeasible=3,
        currentNumberScheduled=3,
        numberReady=3,
        numberDrain=1,
        updatedNumberScheduled=3,
    )
    world.pod("gpu-1", well)
    world.pod("gpu-2", cordoned, condition("SlurmDrain", "True", "Drained", "alice: bad fan"))
    world.pod("gpu-3", leaving, annotations={"sunk.coreweave.com/pending-deletion": "scaled in"})

    out = shown(world.kubectl)
    namespace = world.kubectl.namespace
    assert out.startswith(f"SlurmCluster {namespace}/slurm  not ready\n")
    assert "  Slurm 24.11.5  configuration bbbbbbbbbb not applied yet, running aaaaaaaaaa\n" in out
    assert "ConfigApplied: BadConfiguration  keeping the previous configuration: Unknown key Foo (" in out
    assert "  controller 0/1  login 0/0" in out
    rows = {words[0]: words for words in map(str.split, out.splitlines()) if words}
    assert rows["slurm-gpu"] == ["slurm-gpu", "3", "3", "3", "3", "1", "3", "1", "0", "0"]
    assert rows["gone"][:3] == ["gone", "gpu-4", "joined"]
    assert "cordoned; drained in Slurm: alice: bad fan (" in out
    assert "gpu-3   leaving   scaled in\n" in out
    assert "Node is gone; no Pod\n" in out
    assert out.endswith("  1 member is healthy, 3 not\n")
    assert "\x1b" not in out

    found = json.loads(shown(world.kubectl, "--json"))
    assert [one["pod"] for one in found["clusters"][0]["nodeSets"][0]["members"]] == ["gpu-2", "gpu-3", "gpu-4"]
    assert namespace in sunk("-A", kubeconfig=world.kubectl.kubeconfig).stdout


def test_a_cluster_that_no_operator_has_seen_says_so(world: World) -> None:
    body = {"apiVersion": GROUP, "kind": "SlurmCluster", "metadata": {"name": "slurm"}, "spec": {}}
    world.put(body)
    out = shown(world.kubectl)
    assert "slurm  not ready" in out
    assert "the operator has not processed the spec yet" in out


def test_where_there_is_nothing_that_is_said_and_no_error(kubectl: Kubectl) -> None:
    told = f"No SlurmCluster and no NodeSet in namespace {kubectl.namespace}. -A shows all namespaces.\n"
    assert shown(kubectl) == told


def test_a_watch_follows_and_ends_with_ctrl_c(world: World) -> None:
    where = ("-n", world.kubectl.namespace, "--kubeconfig", str(world.kubectl.kubeconfig))
    with terminal(PROGRAM, "status", "--watch", *where) as screen:
        screen.until("No SlurmCluster")
        world.cluster(condition("Ready", "True", "Available", "All components are available"))
        seen = screen.until("ready")
        assert "\x1b[" in seen
        assert screen.interrupt() == 0


def test_a_watch_for_programs_writes_a_line_a_change(world: World, tmp_path: Path) -> None:
    where = ("-n", world.kubectl.namespace, "--kubeconfig", str(world.kubectl.kubeconfig))
    file = tmp_path / "out"
    with (
        file.open("w") as out,
        subprocess.Popen([PROGRAM, "status", "--watch", "--json", *where], stdout=out) as process,
    ):
        try:
            eventually(lambda: file.read_text().endswith("\n"))
            world.cluster(condition("Ready", "True", "Available", "All components are available"))
            eventually(lambda: '"ready":true' in file.read_text())
        finally:
            process.kill()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [len(line["overview"]["clusters"]) for line in (lines[0], lines[-1])] == [0, 1]
    assert {line["trouble"] for line in lines} == {""}


def elsewhere(kubectl: Kubectl, folder: Path, server: str) -> Path:
    """A kubeconfig that leads to another address."""
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = server.format(config["clusters"][0]["cluster"]["server"])
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize(
    ("server", "told"),
    [
        # Below this path the server knows nothing at all, as one without our CRDs does not know ours.
        (
            "{}/nothing",
            'sunk: the cluster has no resource slurmclusters: install the chart "sunk", or use another context\n',
        ),
        ("https://127.0.0.1:1", "127.0.0.1:1"),
    ],
)
def test_without_a_server_or_crds_it_ends_with_a_sentence(
    kubectl: Kubectl, tmp_path: Path, server: str, told: str
) -> None:
    for more in ((), ("--watch",), ("--json",)):
        done = sunk(*more, kubeconfig=elsewhere(kubectl, tmp_path, server))
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_kubeconfig_that_is_not_there_ends_with_a_sentence(tmp_path: Path) -> None:
    done = sunk(kubeconfig=tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


def test_who_may_not_read_nodes_sees_the_rest(world: World, tmp_path: Path) -> None:
    world.cluster(condition("Ready", "True", "Available", "All components are available"))
    kubectl = world.kubectl
    kubectl("create", "serviceaccount", "reader")
    kinds = "slurmclusters,nodesets,nodeslices,pods,deployments,statefulsets"
    kubectl("create", "role", "reader", "--verb=get,list,watch", f"--resource={kinds}")
    kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={kubectl.namespace}:reader")
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", "reader").strip()}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    out: list[str] = []

    def granted() -> bool:
        done = sunk("-n", kubectl.namespace, kubeconfig=file)
        out[:] = [done.stdout]
        return done.returncode == 0

    eventually(granted)
    assert "slurm  ready" in out[0]
    assert "You may not read Nodes" in out[0]
