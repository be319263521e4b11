"""Stop the kubelet of a node and start it again. What it had started runs on meanwhile, as on a real machine."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

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
