"""Kill what holds a cluster together, cut ways between Pods, and see who leads again afterwards."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from msgspec import json
from tests.conftest import Kubectl
from tests.waiting import eventually

from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.controlplane import ControlPlane
from sunk.local.kubernetes.process import running, start

BACK = 180.0
"""Within so many seconds whoever was killed is there again, also on a busy machine."""


def pod_of(kubectl: Kubectl, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.decode(kubectl("get", "pod", name, "-o", "json"))
    return found


def container_of(pod: dict[str, Any], name: str) -> dict[str, Any] | None:
    """What the kubelet says of a container, once it says something."""
    found: list[dict[str, Any]] = pod["status"].get("containerStatuses", [])
    return next((one for one in found if one["name"] == name), None)


def kill(cluster: LocalCluster, pod: dict[str, Any], container: dict[str, Any]) -> str:
    """Kill a container from outside: inside, nobody can kill its first process. Gives what speaks against it."""
    machine = next(one for one in cluster.machines if one.name == pod["spec"]["nodeName"])
    number = container["containerID"].removeprefix("containerd://")
    where = ("--address", str(machine.containerd_socket), "--namespace", "k8s.io")
    command = ["ctr", *where, "tasks", "kill", "--signal", "SIGKILL", number]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr.strip() if done.returncode else ""


def kill_and_await(kubectl: Kubectl, cluster: LocalCluster, name: str, container: str) -> None:
    """Kill a container, and wait until the kubelet has started it again in its Pod."""
    pod = pod_of(kubectl, name)
    found = container_of(pod, container)
    assert found is not None
    assert not (trouble := kill(cluster, pod, found)), trouble

    def again() -> bool:
        now = container_of(pod_of(kubectl, name), container)
        return now is not None and now["restartCount"] > found["restartCount"] and bool(now["ready"])

    eventually(again, seconds=BACK)


def lease(kubectl: Kubectl, name: str) -> tuple[str, float]:
    """Who holds a Lease, and when it was renewed."""
    found = json.decode(kubectl("get", "lease", name, "-o", "json"))["spec"]
    return found.get("holderIdentity", ""), datetime.fromisoformat(found["renewTime"]).timestamp()


def restart_api_server(kubectl: Kubectl, cluster: LocalCluster) -> None:
    """Kill it, and wait until another one answers. What it knew is in etcd, which goes on."""
    name, home = "kube-apiserver", cluster.home
    os.kill(running(home)[name], signal.SIGKILL)
    eventually(lambda: name not in running(home))
    parts = assets.fill(images=False).parts
    start(ControlPlane(parts=parts, folder=cluster.folder, network=cluster.network).api_server(), home=home)
    eventually(lambda: _answers(kubectl), seconds=BACK)


def _answers(kubectl: Kubectl) -> bool:
    with suppress(AssertionError, subprocess.TimeoutExpired):
        return kubectl("get", "--raw=/readyz", timeout=30) == "ok"
    return False


@contextmanager
def cut(cluster: LocalCluster, node: str, *, port: int) -> Iterator[None]:
    """Cut the way from all Pods of a node to this port of any other Pod. Packets vanish, and nobody is told."""
    machine = next(one for one in cluster.machines if one.name == node)
    rule = ("FORWARD", "--protocol", "tcp", "--dport", str(port), "--jump", "DROP")

    def say(word: str) -> None:
        # The proxy writes rules here too, and only one at a time can.
        command = ["ip", "netns", "exec", machine.namespace, "iptables", "--wait", "30", word, *rule]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert not done.returncode, done.stderr

    say("--insert")
    try:
        yield
    finally:
        say("--delete")
