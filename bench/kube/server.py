"""The one real API server of a run: started, filled with Pods, and kept on a core of its own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.kube import pods
from bench.kube.writer import Written
from sunk.kube.api.client import Client
from sunk.kube.auth import access
from sunk.kube.core import NAMESPACES, Namespace
from sunk.kube.errors import NotFound
from sunk.kube.resource import Resource
from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.process import running
from sunk.local.kubernetes.spec import ClusterSpec

PROJECT = Path(__file__).resolve().parents[2]
NAMESPACE = "bench"
OURS, THEIRS = 0, 1
"""The core of the client that is measured, and that of everything else."""
ACCOUNTS = Resource(Namespace, version="v1", plural="serviceaccounts")
PATIENCE = 60.0


class Server(Struct, frozen=True):
    """Where it is and what it holds."""

    cluster: LocalCluster
    pods: int

    @property
    def where(self) -> tuple[str, str]:
        return str(self.cluster.kubeconfig), NAMESPACE

    def pin(self, *cores: int) -> None:
        """Keep the server's processes to these cores."""
        for pid in running(self.cluster.home).values():
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)

    def writers(self, act: str, *, count: int, seconds: float = 0.0, processes: int = 2) -> list[Written]:
        """Have some processes write to equal parts of the first `count` Pods, and wait for them."""
        each = count // processes
        began = [self._writer(act, first=number * each, count=each, seconds=seconds) for number in range(processes)]
        return [msgspec.json.decode(heard(writer), type=Written) for writer in began]

    def _writer(self, act: str, *, first: int, count: int, seconds: float) -> "subprocess.Popen[bytes]":
        kubeconfig, namespace = self.where
        part = f"--first={first}", f"--count={count}", f"--seconds={seconds}"
        return program("bench.kube.writer", act, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", *part)

    async def one_pod(self) -> bytes:
        """Give a Pod as the server writes it, not decoded."""
        async with Client(access.from_kubeconfig(self.cluster.kubeconfig)) as client:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pods.name(self.pods - 1)}"
            return (await client.request("GET", path)).strip()


def program(
    module: str, *arguments: str, python: str = sys.executable, core: int | None = None
) -> "subprocess.Popen[bytes]":
    """Start a program of ours in a process of its own, on one core if that is named."""
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    command = [*pinned, python, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def heard(child: "subprocess.Popen[bytes]") -> bytes:
    """Wait for the end of a program, and give what it said."""
    said, _ = child.communicate()
    if child.returncode:
        raise SystemExit(f"{_words(child.args)} exited with code {child.returncode}; see its output above")
    return said


def _words(command: object) -> str:
    return (
        " ".join(map(str, command)) if isinstance(command, Sequence) and not isinstance(command, str) else "a program"
    )


@contextmanager
def filled(count: int) -> Iterator[Server]:
    """Start a server with `count` Pods in one namespace, for as long as the block lasts."""
    name = f"bench-kube-{os.getpid()}"
    try:
        server = Server(clusters.up(ClusterSpec(name=name, nodes=()), assets=assets.fill(images=False)), pods=count)
        asyncio.run(_prepare(server))
        server.writers("fill", count=count)
        yield server
    finally:
        clusters.remove(name)


async def _prepare(server: Server) -> None:
    """Make the namespace, then end the controllers: only the writers may change Pods, or the counts mean nothing."""
    async with Client(access.from_kubeconfig(server.cluster.kubeconfig)) as client, asyncio.timeout(PATIENCE):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        while not await _has_account(client):  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.1)
    os.kill(running(server.cluster.home)["kube-controller-manager"], signal.SIGKILL)


async def _has_account(client: Client) -> bool:
    """Tell whether Pods may be created: not before their account is there."""
    try:
        await client.get(ACCOUNTS, "default", namespace=NAMESPACE)
    except NotFound:
        return False
    return True
