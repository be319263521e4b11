"""How long it takes from Kubernetes to Slurm and back, and what the syncer costs while nothing happens.

On three nodes everything is real, as `make up` installs it. On thousands API server, operator, syncer and slurmctld are;
the kubelets are played, and all Slurm nodes have one slurmd among them. What is timed ends when a reader that does
nothing else sees it: for Slurm one that asks libslurm every millisecond, for Kubernetes a watch. Bare calls are timed in
turns with ours, in the same run and under the same eyes.

A cordon counts from before the Node is patched. A thousand of them are five thousand writes by three parties (the Node,
its taint by Kubernetes itself, the Pod, and the conditions of both) and a few to Slurm. So they are held against the same
writes, by one writer who waits for nobody, in turns.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from os import getloadavg
from statistics import median
from typing import Final, TypeVar

from msgspec import Struct

from bench.fake_kubelet import cpu_of, megabytes_of
from bench.kube.writer import in_parallel
from bench.report import Figure, report
from bench.sync import played, real
from bench.sync.played import Played
from bench.sync.single import PAUSE, cordons, drains, take_back
from bench.sync.stage import Stage
from bench.sync.witness import UPDATE_NODES
from sunk.kube.api.client import Scope
from sunk.kube.api.patch import Merge, Strategic
from sunk.kube.core import NODES, PODS
from sunk.local.progress import step
from sunk.slurm.rpcs import NAMES
from sunk.syncer.pods import COMPUTE_PODS

REAL: Final = 3
NODES_WANTED: Final = 1000
MANY: Final = 5000
TURNS: Final = 3
STARTS: Final = 5
QUIET: Final = 60.0
OFTEN: Final = 0.1
"""Seconds between two looks at a thousand nodes of Slurm, which take their time."""
SLURM_WRITES: Final = 10
"""How often Slurm is written to for a thousand cordons, about."""
BESIDES: Final = frozenset({"REQUEST_STATS_INFO", "MESSAGE_NODE_REGISTRATION_STATUS"})
"""What others than the syncer ask of slurmctld: this bench, and slurmd."""


# All at once


class Burst(Struct, frozen=True):
    """Seconds until all were drained, and until all cordons were sent; and how often Slurm was written to."""

    drained: float
    sent: float
    writes: int


async def bursts(stage: Stage) -> list[Figure]:
    """Cordon all Nodes; and in turns write as often to Nodes, to Pods that are nobody's, and to Slurm."""
    await make_bare(stage)
    found, bare = [], []
    for turn in range(TURNS):
        bare.append(await same_writes(stage, turn))
        found.append(await burst(stage))
    drained, after = median(each.drained for each in found), median(each.drained - each.sent for each in found)
    what = f"{stage.count} cordons at once to all drained"
    return [
        Figure(f"{what}, to the same writes by all parties", drained / median(bare), "×", goal=1.5),
        Figure("the same, in seconds", drained, "s"),
        Figure("the same, after the last was sent", after, "s"),
        Figure("the same writes", median(bare), "s"),
        Figure("Slurm writes for it", max(each.writes for each in found), "writes", goal=20),
    ]


async def burst(stage: Stage) -> Burst:
    before = await stage.updates()
    looking = asyncio.create_task(stage.until(stage.members, draining=True, pause=OFTEN), name="bench: look")
    await asyncio.sleep(PAUSE)
    began = time.monotonic()
    await in_parallel(stage.cordon, range(stage.count))
    done, seen = time.monotonic(), await looking
    if len(seen.reasons) != 1:
        raise SystemExit(f"one reason for all drains was wanted, found {seen.reasons}")
    writes = await stage.updates() - before
    await in_parallel(lambda number: stage.cordon(number, on=False), range(stage.count))
    await stage.settled()
    return Burst(seen.when - began, done - began, writes)


async def make_bare(stage: Stage) -> None:
    """Make as many Pods that only the server looks after."""
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}

    async def create(number: int) -> None:
        await stage.client.create(PODS, {"metadata": {"name": f"bare-{number}"}, "spec": spec}, namespace="default")

    await in_parallel(create, range(stage.count))


async def same_writes(stage: Stage, turn: int) -> float:
    """What a cordon of all Nodes has everybody write, in a way that nobody minds."""
    said = {"type": "BenchTurn", "status": "True", "reason": f"Turn{turn}", "message": ""}
    condition = Strategic({"status": {"conditions": [said]}})

    async def patch(number: int) -> None:
        node, pod = stage.nodes[number], f"bare-{number}"
        for what in ("cordon", "taint"):
            await stage.client.patch(NODES, node, Merge({"metadata": {"annotations": {f"bench/{what}": str(turn)}}}))
        mark = Merge({"metadata": {"annotations": {"bench/turn": str(turn)}}})
        await stage.client.patch(PODS, pod, mark, namespace="default")
        await stage.client.patch(PODS, pod, condition, namespace="default", subresource="status")
        await stage.client.patch(NODES, node, condition, subresource="status")

    began = time.monotonic()
    await in_parallel(patch, range(stage.count))
    took = time.monotonic() - began
    for _ in range(SLURM_WRITES):
        took += await stage.ask("bare", float, name=stage.members[0], pause=0.001)
    return took


# At rest, and at the start


async def at_rest(stage: Played, *, seconds: float, goals: tuple[float, float] | None) -> list[Figure]:
    await stage.settled()
    pid = stage.process
    asked, written = await stage.ask("requests", dict[int, int]), await stage.written()
    spent, began = cpu_of(pid), time.monotonic()
    await asyncio.sleep(seconds)
    spent, took = cpu_of(pid) - spent, time.monotonic() - began
    held, written = megabytes_of(pid), await stage.written() - written
    after = await stage.ask("requests", dict[int, int])
    calls = {NAMES.get(key, str(key)): count - asked.get(key, 0) for key, count in after.items()}
    print(f"at rest, {stage.count} nodes: { ({name: each for name, each in calls.items() if each}) }")
    total = sum(each for name, each in calls.items() if name not in BESIDES)
    share, memory = goals or (None, None)
    return [
        Figure(f"syncer at rest, {stage.count} nodes, CPU", spent / took * 100, "% of a core", goal=share),
        Figure("the same, resident memory", held, "MB", goal=memory),
        Figure("the same, requests to slurmctld", total * 60 / took, "a minute"),
        Figure("the same, writes to Kubernetes", written, "writes", goal=0),
        Figure("the same, changes of Slurm's nodes", calls.get(NAMES[UPDATE_NODES], 0), "writes", goal=0),
    ]


async def starts(stage: Played) -> list[Figure]:
    """Cordon a Node while no syncer runs, start one, and see the drain; and in turns list all Pods."""
    ours, bare = [], []
    for number in range(STARTS):
        began = time.monotonic()
        await stage.client.list(COMPUTE_PODS, Scope(namespace=stage.namespace))
        bare.append(time.monotonic() - began)
        ours.append(await first_decision(stage, number))
    await take_back(stage, range(STARTS))
    return [
        Figure(f"start of the syncer to its first drain, {stage.count} nodes", median(ours), "s", goal=3),
        Figure("the same, worst", max(ours), "s"),
        Figure("a bare list of these Pods", median(bare), "s"),
    ]


async def first_decision(stage: Played, number: int) -> float:
    await asyncio.to_thread(stage.syncer.stop)
    await stage.cordon(number)
    member = stage.members[number]
    while not await stage.is_told(member):  # noqa: ASYNC110 - the server is asked
        await asyncio.sleep(0.1)
    looking = asyncio.create_task(stage.until([member], draining=True), name="bench: look")
    await asyncio.sleep(PAUSE)
    began = time.monotonic()
    await asyncio.to_thread(stage.syncer.start)
    return (await looking).when - began


# All of it

S = TypeVar("S", bound=Stage)


async def measure(
    made: AbstractAsyncContextManager[S],
    parts: Mapping[str, Callable[[S], Awaitable[list[Figure]]]],
    *,
    name: str,
    found: list[Figure],
) -> None:
    async with made as stage:
        for words, part in parts.items():
            with step(words):
                found += [*await part(stage), Figure("load average then", getloadavg()[0], "")]
            report(name, found)  # what is known by now, for whoever cannot wait or will not see the end


async def main(*, real_nodes: int, nodes: int, many: int, quiet: float, only: str | None) -> None:
    async def rest(stage: Played) -> list[Figure]:
        return await at_rest(stage, seconds=quiet, goals=(3, 200) if stage.count == many else None)

    one: dict[str, Callable[[Stage], Awaitable[list[Figure]]]] = {
        "Cordon one at a time": cordons,
        "Drain one at a time in Slurm": drains,
    }
    stages = {
        "real": partial(measure, real.staged(real_nodes), one),
        "nodes": partial(measure, played.staged(nodes), {"Look at it rest": rest, **one, "Cordon all at once": bursts}),
        "many": partial(measure, played.staged(many), {"Look at it rest": rest, "Start it": starts}),
    }
    found: list[Figure] = []
    for each in [only] if only else stages:
        await stages[each](name=f"sync_latency_{only}" if only else "sync_latency", found=found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=int, default=REAL, dest="real_nodes", help="how many nodes with nothing played")
    parser.add_argument("--nodes", type=int, default=NODES_WANTED, help="how many played nodes for most figures")
    parser.add_argument("--many", type=int, default=MANY, help="how many played nodes to rest and start with")
    parser.add_argument("--quiet", type=float, default=QUIET, help="seconds of rest to measure")
    parser.add_argument("--only", choices=("real", "nodes", "many"), help="one of these, in a results file of its own")
    asyncio.run(main(**vars(parser.parse_args())))
