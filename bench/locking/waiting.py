"""What those cost that wait: calls whose Node does not become free, and connections on which nobody says anything."""

import asyncio
import time
from statistics import median
from typing import Final

from bench.fake_kubelet import cpu_of, megabytes_of
from bench.locking.caller import Calls
from bench.locking.stage import LockStage
from bench.locking.tenants import tenants
from bench.report import Figure
from sunk.local.slurm.component import Component
from sunk.model import hostlist
from sunk.model.contract import lock

JOBS: Final = 2
"""Of each node: 1,000 nodes make 2,000 calls."""
CALM: Final = 10.0
QUIET: Final = 30.0
CONNECTIONS: Final = 10_000
FRESH: Final = 10


# Blocked calls


async def blocked(stage: LockStage) -> list[Figure]:
    """Call for two jobs on every node while a Pod that stays is on each Node; weigh the syncer before and after."""
    async with tenants(stage) as there:
        await there.settle(stays=True)
        nodes = hostlist.compress(stage.members)
        jobs = [await stage.call("allocate", int, nodes=nodes, count=stage.count) for _ in range(JOBS)]
        # The jobs alone are known to the syncer, and the locks under way, before anybody calls.
        await stage.all_are(lock.PENDING)
        await asyncio.sleep(CALM)
        before = megabytes_of(stage.process)
        held = await stage.call("hold", int, names=stage.members, jobs=jobs)
        await asyncio.sleep(CALM)
        grown = megabytes_of(stage.process) - before
        shares = await shares_of(stage.syncer, stage.operator)
        await require(stage, held)
        await there.remove()
        gone = time.monotonic()
        calls = stage.checked(await stage.call("answered", Calls))
        await stage.end(jobs)
    what = f"{held} calls that wait"
    return [
        Figure(f"{what}, memory of the syncer for each", grown * 1e3 / held, "kB", goal=100),
        Figure("the same, CPU of the syncer", shares[0] * 100, "% of a core"),
        Figure("the same, CPU of the operator", shares[1] * 100, "% of a core"),
        Figure("the same, all answered after the last Pod was gone", max(calls.ended - gone, 0.0), "s"),
        Figure("the same, calls that had to be repeated", calls.repeated, "calls"),
    ]


async def require(stage: LockStage, held: int) -> None:
    """An answer while the Nodes are taken would be a lock beside other work."""
    waiting = await stage.call("waiting", int)
    if held != JOBS * stage.count or waiting != held:
        raise SystemExit(f"{JOBS * stage.count} calls should wait; {held} were sent, and {waiting} wait.")


async def shares_of(*processes: Component) -> list[float]:
    """What processes take of a core."""
    pids = [each.process or 0 for each in processes]
    spent, began = [cpu_of(pid) for pid in pids], time.monotonic()
    await asyncio.sleep(QUIET)
    took = time.monotonic() - began
    return [(cpu_of(pid) - before) / took for pid, before in zip(pids, spent, strict=True)]


# Connections


async def connections(stage: LockStage) -> list[Figure]:
    """Lock some Nodes without anybody else, beside connections that say nothing, and beside those that have done TLS."""
    alone, jobs = await fresh(stage, first=0)
    figures = [Figure(f"lock of an empty Node of {stage.count}, again", median(alone) * 1e3, "ms")]
    for turn, (tls, kind) in enumerate(((False, "silent"), (True, "idle TLS")), start=1):
        before = megabytes_of(stage.process)
        made = await stage.call("open", int, count=CONNECTIONS, tls=tls)
        took, more = await fresh(stage, first=turn * FRESH)
        jobs += more
        still = await stage.call("still_open", int)
        grown = megabytes_of(stage.process) - before
        await stage.call("close", type(None))
        figures += [
            Figure(f"lock beside {CONNECTIONS} {kind} connections, to one without", median(took) / median(alone), "×"),
            Figure("the same, worst", max(took) * 1e3, "ms"),
            Figure("the same, connections that came about", made, "connections"),
            Figure("the same, of them open at the end", still, "connections"),
            Figure("the same, memory of the syncer for each of these", grown * 1e3 / max(still, 1), "kB"),
        ]
    await stage.end(jobs)
    return figures


async def fresh(stage: LockStage, *, first: int) -> tuple[list[float], list[int]]:
    """Seconds of some locks, each with a job and a connection of its own, and the jobs."""
    found = [await stage.lock([stage.members[number]]) for number in range(first, first + FRESH)]
    return [each.ended - each.began for each in found], [job for each in found for job in each.jobs]
