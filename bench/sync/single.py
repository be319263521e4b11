"""One node at a time: a cordon until Slurm says so, and a drain in Slurm until Kubernetes says so. On any stage."""

import asyncio
import random
import time
from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.kube.writer import in_parallel
from bench.report import Figure
from bench.sync.stage import TIGHT, Stage
from bench.sync.watching import drain_watch
from sunk.kube.api.client import EVERYWHERE, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import NODES, PODS
from sunk.model import hostlist, names

FEWEST: Final = 2
CORDONS: Final = 30
DRAINS: Final = 20
PAUSE: Final = 1.3
"""Seconds between two cordons: longer than what the syncer gathers for, and than the second after a change in which
slurmctld answers every read with the whole table."""
ASLEEP: Final = 2.6
"""Seconds after which the syncer reads an unchanged Slurm as seldom as it ever does."""


async def cordons(stage: Stage) -> list[Figure]:
    """Cordon a Node and see its Slurm node drained, again and again; and in turns the three calls that it takes."""
    if stage.count < FEWEST:
        raise SystemExit(f"{FEWEST} nodes are needed, one to cordon and another for the bare calls, not {stage.count}.")
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
        Figure(f"{what}, to its three calls without anybody", median(ours) / median(bare), "×", goal=1.6),
        Figure("the same, median", median(ours) * 1e3, "ms"),
        Figure("the same, worst", max(ours) * 1e3, "ms"),
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
    """Patch a Node, then its Pod, then the Slurm node, and see that: in a way that nobody minds.

    The witness looks all the while, as it does for ours: with a thousand nodes it takes a good part of a core.
    """
    member, text = stage.members[number], f"at {time.monotonic()}"
    looking = asyncio.create_task(
        stage.ask("until_comment", float, name=member, text=text, pause=TIGHT), name="bench: look"
    )
    await asyncio.sleep(PAUSE)
    began = time.monotonic()
    change = Merge({"metadata": {"annotations": {"bench/at": text}}})
    await stage.client.patch(NODES, stage.nodes[number], change)
    await stage.client.patch(PODS, member, change, namespace=stage.namespace)
    await stage.write("comment", name=member, text=text)
    return await looking - began


async def drains(stage: Stage) -> list[Figure]:
    """Drain one Slurm node at a time, when the syncer reads least often, and see its Pod and its Node say so."""
    pods: list[float] = []
    nodes: list[float] = []
    some = list(zip(stage.members, stage.nodes, strict=True))[:DRAINS]
    async with (
        drain_watch(stage.client, PODS, Scope(namespace=stage.namespace), kind=names.SLURM_DRAIN) as pod_says,
        drain_watch(stage.client, NODES, EVERYWHERE, kind=names.SLURM_CORDON) as node_says,
    ):
        while len(pods) < DRAINS:
            for member, node in some:
                await asyncio.sleep(ASLEEP + random.random())  # noqa: S311 - at any time between two reads
                began = await stage.ask("drain", float, name=member, reason="bench: drained by a person")
                pods.append(await pod_says.when(member, after=began) - began)
                nodes.append(await node_says.when(node, after=began) - began)
            await stage.ask("undrain", type(None), names=hostlist.compress(member for member, _ in some))
            await stage.settled()
    figures = []
    for what, found in (("the Pod's condition SlurmDrain", pods), ("the Node's condition SlurmCordon", nodes)):
        figures.append(Figure(f"drain in Slurm to {what}, {stage.count} nodes, median", median(found), "s", goal=0.5))
        figures.append(Figure("the same, worst", max(found), "s", goal=1.5))
    return figures
