"""What the fake kubelet costs: its CPU as a share of one core while 5,000 Nodes register, rest, and take 5,000 Pods.

By default it starts an API-only cluster of its own; `--kubeconfig` takes one that runs already (and is empty).
"""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.kube.writer import in_parallel
from bench.report import Figure, report
from sunk.kube.api.client import Client, Scope
from sunk.kube.api.patch import Strategic
from sunk.kube.auth import access
from sunk.kube.core import CONFIG_MAPS, LEASES, NAMESPACES, NODES, PODS, condition
from sunk.kube.resource import Resource
from sunk.local.fakekubelet import FLEET, Settings, spawned

NAMESPACE = "bench-fake-kubelet"
BARE = 1000


class Span(Struct, frozen=True):
    """How long something took, and how much CPU the process under test used meanwhile."""

    seconds: float
    cpu: float

    @property
    def share(self) -> float:
        return self.cpu / self.seconds


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes_of(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def bare_creates(client: Client) -> Span:
    """Measure creates with nothing behind them, each an empty object."""

    async def create(number: int) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": f"bare-{number}"}}, namespace=NAMESPACE)

    return await span(os.getpid(), in_parallel(create, range(BARE)))


def pod(name: str, *, on: str) -> dict[str, Any]:
    spec = {
        "nodeName": on,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "none"}],
        "tolerations": [{"operator": "Exists"}],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def bare_pods(client: Client) -> Span:
    """Measure Pods, each created and patched to Running by the same hand: what a burst cannot beat."""
    done = Strategic({"status": {"phase": "Running"}})

    async def create(number: int) -> None:
        name = f"bare-{number}"
        await client.create(PODS, pod(name, on="bench-nobody"), namespace=NAMESPACE)
        await client.patch(PODS, name, done, namespace=NAMESPACE, subresource="status")

    return await span(os.getpid(), in_parallel(create, range(BARE)))


async def burst(client: Client, settings: Settings, count: int) -> None:
    async def create(number: int) -> None:
        name = settings.name_of(number % settings.nodes)
        await client.create(PODS, pod(f"pod-{number}", on=name), namespace=NAMESPACE)

    await in_parallel(create, range(count))
    while await any_left(client, PODS, Scope(namespace=NAMESPACE, fields="status.phase=Pending")):  # noqa: ASYNC110
        await asyncio.sleep(0.1)


async def any_left(client: Client, resource: Resource[Any], scope: Scope) -> bool:
    async for page in client.pages(resource, scope, limit=1):
        return bool(page.items)
    return False


async def settled(client: Client, settings: Settings) -> None:
    """Wait for the first lease of every Node, and for the controllers to have written all they want to on Nodes."""
    ours = Scope(labels=f"{FLEET}={settings.fleet}")
    while len((await client.list(LEASES, ours)).items) < settings.nodes:  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(1)
    before: tuple[str, ...] = ()
    while before != (now := tuple(node.metadata.resource_version for node in (await client.list(NODES, ours)).items)):
        before = now
        await asyncio.sleep(5)


async def not_ready(client: Client, settings: Settings) -> int:
    nodes = await client.list(NODES, Scope(labels=f"{FLEET}={settings.fleet}"))
    found = (condition(node.status.conditions, "Ready") for node in nodes.items)
    ready = sum(1 for one in found if one is not None and one.status == "True")
    return settings.nodes - ready


@asynccontextmanager
async def namespace(client: Client) -> AsyncIterator[None]:
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    try:
        yield
    finally:
        await client.delete(NAMESPACES, NAMESPACE)


async def measure(client: Client, settings: Settings, *, kubeconfig: Path, pods: int, rest: float) -> list[Figure]:
    bare, bare_pod = await bare_creates(client), await bare_pods(client)
    start = time.monotonic()
    async with spawned(settings, kubeconfig=kubeconfig) as child:
        registration = Span(time.monotonic() - start, cpu_of(child.pid))
        await settled(client, settings)
        quiet = await span(child.pid, asyncio.sleep(rest))
        lost = await not_ready(client, settings)
        rush = await span(child.pid, burst(client, settings, pods))
        memory = megabytes_of(child.pid)
        lost += await not_ready(client, settings)
    nodes = settings.nodes
    return [
        Figure(f"registration of {nodes} Nodes, CPU", registration.share, "cores", goal=1),
        Figure(
            "CPU of one registration, to that of a bare create",
            (registration.cpu / nodes) / (bare.cpu / BARE),
            "×",
            goal=6,
        ),
        Figure(f"{nodes} quiet Nodes, CPU", quiet.share, "cores", goal=0.05),
        Figure(f"burst of {pods} Pods to Running, CPU", rush.share, "cores", goal=1),
        Figure(
            "CPU of one Pod to Running, to that of a bare create and patch",
            (rush.cpu / pods) / (bare_pod.cpu / BARE),
            "×",
            goal=2,
        ),
        Figure(
            "time of the burst, to that of as many bare creates and patches",
            (rush.seconds / pods) / (bare_pod.seconds / BARE),
            "×",
            goal=2,
        ),
        Figure("Nodes found not ready, at rest and after the burst", lost, "Nodes", goal=0),
        Figure("memory with all Nodes and Pods", memory, "MB", goal=250),
    ]


async def span(pid: int, act: Awaitable[None]) -> Span:
    start, cpu = time.monotonic(), cpu_of(pid)
    await act
    return Span(time.monotonic() - start, cpu_of(pid) - cpu)


@contextmanager
def api_server(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    from sunk.local.kubernetes import assets, cluster as clusters
    from sunk.local.kubernetes.spec import ClusterSpec

    name = f"bench-{os.getpid()}"
    try:
        yield clusters.up(ClusterSpec(name=name, nodes=()), assets=assets.fill(images=False)).kubeconfig
    finally:
        clusters.remove(name)


async def main(kubeconfig: Path, *, nodes: int, pods: int, rest: float, grace: float) -> list[Figure]:
    settings = Settings(nodes=nodes, fleet="bench", grace=grace)
    async with Client(access.from_kubeconfig(kubeconfig)) as client, namespace(client):
        return await measure(client, settings, kubeconfig=kubeconfig, pods=pods, rest=rest)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds of quiet to measure")
    parser.add_argument("--grace", type=float, default=Settings().grace, help="the controller-manager's grace period")
    chosen = vars(parser.parse_args())
    with api_server(chosen.pop("kubeconfig")) as path:
        report("fake_kubelet", asyncio.run(main(path, **chosen)))
