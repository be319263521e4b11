"""What the fake kubelet costs: its CPU as a share of one core while 5,000 Nodes register, rest, and take 5,000 Pods.

By default it starts an API-only cluster of its own; `--kubeconfig` takes one that runs already (and is empty).
"""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sunk.kube import access
from sunk.kube.client import Client, Scope
from sunk.kube.core import CONFIG_MAPS, NAMESPACES, NODES, PODS, condition
from sunk.local.fakekubelet import FLEET, Settings, spawned

RESULTS = Path(__file__).parent / "results" / "fake_kubelet.json"
NAMESPACE = "bench-fake-kubelet"
HANDS = 16
BARE = 1000


class Result(Struct, frozen=True):
    name: str
    value: float
    unit: str
    goal: str
    ok: bool


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


async def in_parallel(act: Callable[[int], Awaitable[Any]], numbers: Iterable[int]) -> None:
    todo = iter(numbers)

    async def hand() -> None:
        for number in todo:
            await act(number)

    async with asyncio.TaskGroup() as group:
        for number in range(HANDS):
            group.create_task(hand(), name=f"bench: hand {number}")


async def bare_creates(client: Client) -> float:
    """Measure creates per second of this server, with nothing behind them."""

    async def create(number: int) -> None:
        await client.create(CONFIG_MAPS, {"metadata": {"name": f"bare-{number}"}}, namespace=NAMESPACE)

    start = time.monotonic()
    await in_parallel(create, range(BARE))
    return BARE / (time.monotonic() - start)


async def create_pods(client: Client, settings: Settings, count: int) -> None:
    async def create(number: int) -> None:
        spec = {
            "nodeName": settings.name_of(number % settings.nodes),
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
        }
        await client.create(PODS, {"metadata": {"name": f"pod-{number}"}, "spec": spec}, namespace=NAMESPACE)

    await in_parallel(create, range(count))


async def running(client: Client) -> int:
    pods = await client.list(PODS, Scope(namespace=NAMESPACE, fields="status.phase=Running"))
    return len(pods.items)


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


async def measure(client: Client, settings: Settings, *, kubeconfig: Path, pods: int, rest: float) -> list[Result]:
    bare = await bare_creates(client)
    start = time.monotonic()
    async with spawned(settings, kubeconfig=kubeconfig) as child:
        registration = Span(time.monotonic() - start, cpu_of(child.pid))
        await asyncio.sleep(20)  # first leases, and the node controller's own writes
        quiet = await span(child.pid, asyncio.sleep(rest))
        lost = await not_ready(client, settings)
        burst = await span(child.pid, _burst(client, settings, pods))
        memory = megabytes_of(child.pid)
        lost += await not_ready(client, settings)
    return [
        at_most(1.0, name=f"registration of {settings.nodes} Nodes, CPU", value=registration.share, unit="cores"),
        at_least(
            0.5,
            name="Nodes registered per second, to bare creates per second",
            value=settings.nodes / registration.seconds / bare,
            unit="ratio",
        ),
        at_most(0.08, name=f"{settings.nodes} quiet Nodes, CPU", value=quiet.share, unit="cores"),
        at_most(1.0, name=f"burst of {pods} Pods to Running, CPU", value=burst.share, unit="cores"),
        at_least(
            0.25,
            name="Pods created and Running per second, to bare creates per second",
            value=pods / burst.seconds / bare,
            unit="ratio",
        ),
        at_most(0, name="Nodes found not ready, at rest and after the burst", value=lost, unit="Nodes"),
        at_most(250, name="memory with all Nodes and Pods", value=memory, unit="MB"),
    ]


async def span(pid: int, act: Awaitable[None]) -> Span:
    start, cpu = time.monotonic(), cpu_of(pid)
    await act
    return Span(time.monotonic() - start, cpu_of(pid) - cpu)


async def _burst(client: Client, settings: Settings, pods: int) -> None:
    await create_pods(client, settings, pods)
    while await running(client) < pods:
        await asyncio.sleep(0.2)


def at_most(goal: float, *, name: str, value: float, unit: str) -> Result:
    return Result(name=name, value=round(value, 4), unit=unit, goal=f"≤ {goal:g}", ok=value <= goal)


def at_least(goal: float, *, name: str, value: float, unit: str) -> Result:
    return Result(name=name, value=round(value, 4), unit=unit, goal=f"≥ {goal:g}", ok=value >= goal)


def report(results: list[Result]) -> None:
    wide = max(len(one.name) for one in results)
    for one in results:
        print(f"{one.name:<{wide}}  {one.value:>9.3f} {one.unit:<6} goal {one.goal:<7} {'ok' if one.ok else 'MISSED'}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")


@contextmanager
def api_server(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    from sunk.local import cluster as clusters, stock
    from sunk.local.spec import Spec

    name = f"bench-{os.getpid()}"
    try:
        yield clusters.up(Spec(name=name, nodes=()), stock=stock.fill(images=False)).kubeconfig
    finally:
        clusters.remove(name)


async def main(kubeconfig: Path, *, nodes: int, pods: int, rest: float, grace: float) -> list[Result]:
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
        report(asyncio.run(main(path, **chosen)))
