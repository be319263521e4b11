"""How often a drain is lost that a person puts on in the very moment in which ours is lifted, or put on.

Everything is real but the kubelets, and one slurmd stands for all nodes. Each race cordons or uncordons a Node and sends
`scontrol`'s own request with a reason of a person at a random moment, between at once and twice the time that it takes
until Slurm is told. It is lost if the node is not drained a moment later, or drained with another reason.
"""

import argparse
import asyncio
import random
import time
from os import getloadavg
from statistics import median
from typing import Final

from bench.report import Figure, report
from bench.sync import played
from bench.sync.stage import Stage
from bench.sync.witness import State
from sunk.local.artifacts import images
from sunk.local.progress import step

NODES: Final = 6
RACES: Final = 300
CORDONS: Final = 100
TRIES: Final = 8
"""Of each kind without anybody else, to know how long they take."""
QUIET: Final = 0.45
"""Seconds between two changes of ours: longer than what the syncer gathers for."""
SETTLED: Final = 0.6
PERSON: Final = "bob: a fan is broken"


async def undisturbed(stage: Stage, *, on: bool) -> float:
    """How long it takes from the patch of a Node to Slurm."""
    found = []
    for turn in range(TRIES):
        number = turn % stage.count
        await prepared(stage, number, on=not on)
        began = time.monotonic()
        await stage.cordon(number, on=on)
        found.append((await stage.until([stage.members[number]], draining=on)).when - began)
    return median(found)


async def prepared(stage: Stage, number: int, *, on: bool) -> None:
    await stage.cordon(number, on=on)
    await stage.until([stage.members[number]], draining=on)
    await asyncio.sleep(QUIET)


async def races(stage: Stage, count: int, *, on: bool, within: float) -> int:
    """So many races; give how many a person has lost."""
    lost = 0
    for turn in range(count):
        number = turn % stage.count
        member = stage.members[number]
        await prepared(stage, number, on=not on)
        at = time.monotonic() + random.uniform(0.0, within)  # noqa: S311 - at any time
        drained = asyncio.create_task(stage.ask("drain_at", float, name=member, reason=PERSON, at=at), name="a person")
        await stage.cordon(number, on=on)
        await drained
        await asyncio.sleep(SETTLED)
        found = await stage.ask("state", State, name=member)
        if not found.draining or found.reason != PERSON:
            lost += 1
            print(f"race {turn + 1}: lost, {(at - time.monotonic()) * 1e3:.0f} ms: {found}", flush=True)
        await stage.cordon(number, on=False)
        await stage.ask("undrain", type(None), names=member)
    return lost


async def measured(stage: Stage, count: int, *, on: bool) -> list[Figure]:
    within = 2 * await undisturbed(stage, on=on)
    lost = await races(stage, count, on=on, within=within)
    what = "a cordon" if on else "an uncordon"
    return [
        Figure(f"drains by a person lost in {count} races with {what}", lost, "lost", goal=0),
        Figure("the same, spread over", within * 1e3, "ms"),
    ]


async def main(*, count: int, cordons: int, version: str) -> None:
    found: list[Figure] = []
    async with played.staged(NODES, version=version) as stage:
        for words, on, many in (("uncordon", False, count), ("cordon", True, cordons)):
            if many:
                with step(
                    f"Race {many} times against an {words}" if not on else f"Race {many} times against a {words}"
                ):
                    found += await measured(stage, many, on=on)
                report("drain_races", [*found, Figure("load average", getloadavg()[0], "")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=RACES, dest="count", help="against an uncordon")
    parser.add_argument("--cordons", type=int, default=CORDONS, help="races against a cordon")
    parser.add_argument("--version", default=images.DEFAULT, choices=images.SUITES, help="of Slurm")
    asyncio.run(main(**vars(parser.parse_args())))
