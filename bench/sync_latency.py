"""How long it takes from Kubernetes to Slurm and back, and what the syncer costs while nothing happens.

Everything is real: API server, operator, syncer, slurmctld. Only kubelets are played, and the thousands of Slurm nodes
have one slurmd among them. What is timed ends when a reader that does nothing else sees it: for Slurm one that asks
libslurm every millisecond, for Kubernetes a watch. Bare calls are timed in turns with ours, in the same run.

A cordon counts from before the Node is patched. A thousand of them are five thousand writes by three parties (the Node,
its taint by Kubernetes itself, the Pod, and the conditions of both), which keep the API server busy for as long as it
takes cordons. The goal is for the whole; what comes after the last was sent stands beside it.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from bench.fake_kubelet import cpu_of, megabytes_of
from bench.kube.writer import in_parallel
from bench.nodesets.stage import POOL
from bench.report import Figure, report
from bench.sync.stage import NAMESPACE, Stage, staged
from bench.sync.watching import watching
from bench.sync.witness import UPDATE_NODES
from sunk.kube.client import Scope
from sunk.kube.core import NODES, PODS
from sunk.kube.patch import Merge
from sunk.local.progress import step
from sunk.model import hostlist, names
from sunk.slurm.rpcs import NAMES
from sunk.syncer.pods import COMPUTE_PODS

FEW: Final = 3
NODES_WANTED: Final = 1000
MANY: Final = 5000
CORDONS: Final = 30
DRAINS: Final = 20
TURNS: Final = 3
STARTS: Final = 5
QUIET: Final = 60.0
PAUSE: Final = 1.3
"""Seconds between two cordons: longer than what the syncer gathers for, and than the second after a change in which
slurmctld answers every read with the whole table."""
ASLEEP: Final = 2.6
"""Seconds after which the syncer reads an unchanged Slurm as seldom as it ever does."""
OFTEN: Final = 0.1
"""Seconds between two looks at a thousand nodes of Slurm, which take their time."""
BESIDES: Final = frozenset({"REQUEST_STATS_INFO", "MESSAGE_NODE_REGISTRATION_STATUS"})
"""What others than the syncer ask of slurmctld: this bench, and slurmd."""


# One cordon


async def cordons(stage: Stage) -> list[Figure]:
    """Cordon a Node and see its Slurm node drained, again and again; and in turns the three calls that it takes."""
    ours: list[float] = []
    bare: list[float] = []
    some = range(min(CORDONS, stage.count - 1))
    while len(ours) < CORDONS:
        for number in some:
            bare.append(await three_calls(stage, stage.count - 1))
            ours.append(await cordoned(stage, number))
        await take_back(stage, some)
    await stage.settled()
    what = f"cordon to DRAIN, {stage.count} nodes"
    return [
        Figure(f"{what}, median", median(ours) * 1e3, "ms", goal=50),
        Figure("the same, worst", max(ours) * 1e3, "ms"),
        Figure("the same, to its three calls without anybody", median(ours) / median(bare), "×"),
        Figure("the three calls", median(bare) * 1e3, "ms"),
    ]


async def take_back(stage: Stage, cordoned: Sequence[int]) -> None:
    """Uncordon several at once, never one by one.

    Each time slurmctld asks all nodes for a sign of life, and the one slurmd behind thousands is busy for seconds.
    """
    await in_parallel(lambda number: stage.cordon(number, on=False), cordoned)
    await stage.until([stage.members[number] for number in cordoned], draining=False)


async def cordoned(stage: Stage, number: int) -> float:
    looking = asyncio.create_task(stage.until([stage.members[number]], draining=True), name="bench: look")
    await asyncio.sleep(PAUSE)
    began = time.monotonic()
    await stage.cordon(number)
    return (await looking).when - began


async def three_calls(stage: Stage, number: int) -> float:
    """Patch a Node, then its Pod, then the Slurm node, and see that: in a way that nobody minds."""
    await asyncio.sleep(PAUSE)
    began = time.monotonic()
    change = Merge({"metadata": {"annotations": {"bench/at": str(began)}}})
    await stage.client.patch(NODES, stage.nodes[number], change)
    await stage.client.patch(PODS, stage.members[number], change, namespace=NAMESPACE)
    patched = time.monotonic() - began
    return patched + await stage.ask("bare", float, name=stage.members[number], pause=0.001)


# All at once


class Burst(Struct, frozen=True):
    """Seconds until all were drained, and until all cordons were sent; and how often Slurm was written to."""

    drained: float
    sent: float
    writes: int


async def bursts(stage: Stage) -> list[Figure]:
    """Cordon all Nodes; and in turns patch as many Pods that are nobody's."""
    await make_bare(stage)
    found, bare = [], []
    for turn in range(TURNS):
        bare.append(await patched(stage, turn))
        found.append(await burst(stage))
    drained, after = median(each.drained for each in found), median(each.drained - each.sent for each in found)
    what = f"{stage.count} cordons at once to all drained"
    return [
        Figure(f"{what}, after the last was sent, to as many bare Pod patches", after / median(bare), "×"),
        Figure("the same, from the first on", drained / median(bare), "×", goal=1.5),
        Figure("the same, in seconds", drained, "s"),
        Figure("the same, after the last was sent", after, "s"),
        Figure("as many bare Pod patches", median(bare), "s"),
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


async def patched(stage: Stage, turn: int) -> float:
    change = Merge({"metadata": {"annotations": {"bench/turn": str(turn)}}})

    async def patch(number: int) -> None:
        await stage.client.patch(PODS, f"bare-{number}", change, namespace="default")

    began = time.monotonic()
    await in_parallel(patch, range(stage.count))
    return time.monotonic() - began


# The way back


async def drains(stage: Stage) -> list[Figure]:
    """Drain one Slurm node at a time, when the syncer reads least often, and see its Pod and its Node say so."""
    pods, nodes = [], []
    some = list(zip(stage.members, stage.nodes, strict=True))[:DRAINS]
    here, ours = Scope(namespace=NAMESPACE), Scope(labels=POOL)
    async with (
        watching(stage.client, PODS, here, kind=names.SLURM_DRAIN) as pod_says,
        watching(stage.client, NODES, ours, kind=names.SLURM_CORDON) as node_says,
    ):
        for member, node in some:
            await asyncio.sleep(ASLEEP + random.random())  # noqa: S311 - at any time between two reads
            began = await stage.ask("drain", float, name=member, reason="bench: drained by a person")
            pods.append(await pod_says.when(member) - began)
            nodes.append(await node_says.when(node) - began)
    await stage.ask("undrain", type(None), names=hostlist.compress(member for member, _ in some))
    figures = []
    for what, found in (("the Pod's condition SlurmDrain", pods), ("the Node's condition SlurmCordon", nodes)):
        figures.append(Figure(f"drain in Slurm to {what}, {stage.count} nodes, median", median(found), "s", goal=0.5))
        figures.append(Figure("the same, worst", max(found), "s", goal=1.5))
    return figures


# At rest, and at the start


async def at_rest(stage: Stage, *, seconds: float, goals: tuple[float, float] | None) -> list[Figure]:
    await stage.settled()
    pid = stage.process
    asked, written = await stage.ask("requests", dict[int, int]), await stage.ask("writes", float)
    spent, began = cpu_of(pid), time.monotonic()
    await asyncio.sleep(seconds)
    spent, took = cpu_of(pid) - spent, time.monotonic() - began
    held, written = megabytes_of(pid), await stage.ask("writes", float) - written
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


async def starts(stage: Stage) -> list[Figure]:
    """Cordon a Node while no syncer runs, start one, and see the drain; and in turns list all Pods."""
    ours, bare = [], []
    for number in range(STARTS):
        began = time.monotonic()
        await stage.client.list(COMPUTE_PODS, Scope(namespace=NAMESPACE))
        bare.append(time.monotonic() - began)
        ours.append(await first_decision(stage, number))
    await take_back(stage, range(STARTS))
    return [
        Figure(f"start of the syncer to its first drain, {stage.count} nodes", median(ours), "s", goal=3),
        Figure("the same, worst", max(ours), "s"),
        Figure("a bare list of these Pods", median(bare), "s"),
    ]


async def first_decision(stage: Stage, number: int) -> float:
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

Part = Callable[[Stage], Awaitable[list[Figure]]]


async def main(*, few: int, nodes: int, many: int, quiet: float) -> None:
    async def rest(stage: Stage) -> list[Figure]:
        return await at_rest(stage, seconds=quiet, goals=(3, 200) if stage.count == many else None)

    parts: dict[int, dict[str, Part]] = {
        few: {"Cordon one at a time": cordons},
        nodes: {
            "Look at it rest": rest,
            "Cordon one at a time": cordons,
            "Drain one at a time in Slurm": drains,
            "Cordon all at once": bursts,
        },
        many: {"Look at it rest": rest, "Start it": starts},
    }
    found: list[Figure] = []
    for count, some in parts.items():
        async with staged(count) as stage:
            for words, part in some.items():
                with step(words):
                    found += await part(stage)
                report("sync_latency", found)  # what is known by now, for whoever cannot wait or will not see the end


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--nodes", type=int, default=NODES_WANTED)
    parser.add_argument("--many", type=int, default=MANY)
    parser.add_argument("--quiet", type=float, default=QUIET, help="seconds of rest to measure")
    asyncio.run(main(**vars(parser.parse_args())))
