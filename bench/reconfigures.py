"""How often slurmctld is told to reconfigure while labels of Nodes change, one after the other.

Each change gives one Slurm node another feature. Partitions that are made of a feature follow only upon a reconfigure,
which makes slurmctld and every slurmd start over. First the feature is one that a partition is made of, then one that
none is. Everything is real but the kubelets, and the Slurm nodes are external ones. Each reconfigure gives slurmctld
another boot time, and those are counted.
"""

import argparse
import asyncio
from typing import Final

from bench.report import Figure, report
from bench.sync import played
from bench.sync.stage import Stage
from sunk.kube.api.patch import Merge
from sunk.kube.core import NODES
from sunk.local.progress import step
from sunk.local.slurm.configuration import PARTITIONS

MEMBERS: Final = 10
CHANGES: Final = 50
EVERY: Final = 4.0
AFTERWARDS: Final = 70.0
"""Seconds after the last change: longer than any reconfigure is put off."""
OFTEN: Final = 0.5
PARTED, PLAIN = "bench/parted", "bench/plain"
LINES: Final = (*PARTITIONS, "NodeSet=green Feature=parted-green", "PartitionName=green Nodes=green State=UP")
FEATURES: Final = {PARTED: {"prefix": "parted-"}, PLAIN: {"prefix": "plain-"}}


async def boots(stage: Stage, *, until: asyncio.Event) -> int:
    """Count how often slurmctld starts over."""
    seen = {await stage.ask("boot", int)} - {0}
    while not until.is_set():
        await asyncio.sleep(OFTEN)
        seen |= {await stage.ask("boot", int)} - {0}
    return len(seen) - 1


async def changed(stage: Stage, label: str, *, changes: int) -> int:
    """Change a label of one Node after the other; give how often slurmctld was told to reconfigure for it."""
    over = asyncio.Event()
    counting = asyncio.create_task(boots(stage, until=over), name="bench: count boots")
    for number in range(changes):
        value = ("green", "blue")[number // stage.count % 2]
        await stage.client.patch(
            NODES, stage.nodes[number % stage.count], Merge({"metadata": {"labels": {label: value}}})
        )
        await asyncio.sleep(EVERY)
    await asyncio.sleep(AFTERWARDS)
    over.set()
    return await counting


async def main(*, changes: int) -> None:
    found: list[Figure] = []
    async with played.staged(MEMBERS, version="26.05", lines=LINES, dynamic_features=FEATURES) as stage:
        for label, words in ((PARTED, "that a partition is made of"), (PLAIN, "that no partition is made of")):
            with step(f"Change {changes} features {words}, in {changes * EVERY:.0f} s"):
                count = await changed(stage, label, changes=changes)
            goal = 0 if label == PLAIN else None
            found.append(Figure(f"reconfigures for {changes} changes of features {words}", count, "reconfigures", goal))
            report("reconfigures", found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=CHANGES, help="of one label, one every four seconds")
    asyncio.run(main(**vars(parser.parse_args())))
