"""How long a job waits for the lock of its Nodes, and what locks cost those who give them.

API server, operator, syncer and slurmctld are real. With a thousand nodes the kubelets are played, and so are the prologs:
the Slurm nodes are external ones, which jobs get and hold and on which nothing runs. A caller beside the syncer does what
they would: one HTTPS call for each, with a token of that node's Pod made by TokenRequest, when the job has its nodes. It runs on the CPUs of what it measures, which a thousand machines would not.

A lock counts from the call to the answer, connection and TLS included, and is held against its own four writes in a row.
A thousand at once are held against the same writes, by as many workers as ours have; once on empty Nodes, and once with a
Pod on each that Kubernetes evicts by its own writes, on both sides.

With 40 nodes each has its slurmd, in a box that has the name of its Pod, and the prolog is the product's (`boxes`). How
long a whole job takes to start under the lock, in real Pods, is measured by `bench.job_start`.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from bench.locking import boxes
from bench.locking.atonce import bursts, bursts_with_tenants, singles
from bench.locking.stage import LockStage, staged
from bench.locking.waiting import blocked, connections
from bench.report import Figure
from bench.sync_latency import measure
from sunk.local.artifacts import images

NODES: Final = 1000
BOXES: Final = 40
FEWEST: Final = 60
"""Nodes that some parts need, each for a lock of its own."""
PARTS: Final[Mapping[str, Callable[[LockStage], Awaitable[list[Figure]]]]] = {
    "Lock one Node at a time": singles,
    "Lock all Nodes at once": bursts,
    "Lock all Nodes at once, with a Pod to evict on each": bursts_with_tenants,
    "Let calls wait": blocked,
    "Open connections": connections,
}
PARTS_WITH_SLURMDS: Final[Mapping[str, Callable[[LockStage], Awaitable[list[Figure]]]]] = {
    "Run one job at a time": boxes.prologs,
    "Run an array of short tasks": boxes.arrays,
}


async def main(*, nodes: int, slurmds: int, version: str, only: str | None) -> None:
    if nodes < FEWEST:
        raise SystemExit(f"{FEWEST} nodes are needed, not {nodes}.")
    stages = {
        "nodes": partial(measure, staged(nodes), PARTS),
        "slurmds": partial(measure, boxes.stage_of(slurmds, version=version), PARTS_WITH_SLURMDS),
    }
    found: list[Figure] = []
    for each in [only] if only else stages:
        await stages[each](name=f"lock_{only}" if only else "lock", found=found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="how many nodes without a slurmd each")
    parser.add_argument("--slurmds", type=int, default=BOXES, help="how many nodes with one")
    parser.add_argument("--version", default=images.DEFAULT, choices=images.SUITES, help="of Slurm with slurmds")
    parser.add_argument("--only", choices=("nodes", "slurmds"), help="one of these, in a results file of its own")
    asyncio.run(main(**vars(parser.parse_args())))
