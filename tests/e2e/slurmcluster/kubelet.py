"""Stop the kubelet of a node and start it again. What it had started runs on meanwhile, as on a real machine."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import Kubectl
from tests.e2e.slurmcluster.release import LABEL
from tests.waiting import eventually

from sunk.local.kubernetes import assets, node as nodes
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.process import running, start


@contextmanager
def stopped(cluster: LocalCluster, node: str) -> Iterator[None]:
    name = f"{node}-kubelet"
    os.kill(running(cluster.home)[name], signal.SIGTERM)
    eventually(lambda: name not in running(cluster.home))
    try:
        yield
    finally:
        machine = next(one for one in cluster.machines if one.name == node)
        mounts = running(cluster.home)[f"{node}-anchor"]
        start(nodes.kubelet(machine, parts=assets.fill(images=False).parts, mounts=mounts), home=cluster.home)


def restart(cluster: LocalCluster, node: str) -> None:
    with stopped(cluster, node):
        pass


def register(kubectl: Kubectl, cluster: LocalCluster, node: str, *, kind: str) -> None:
    """Have a Node that was deleted register again: a kubelet does it when it starts, and knows nothing of our label."""
    restart(cluster, node)
    eventually(lambda: kubectl("get", "node", node, "--ignore-not-found", "-o", "name") != "", seconds=120)
    kubectl("label", "node", node, f"{LABEL}={kind}", "--overwrite")
