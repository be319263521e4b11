"""What those cost that wait: calls whose Node does not become free, and connections on which nobody says anything."""

import asyncio
import time
from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from bench.fake_kubelet import cpu_of, megabytes_of
from bench.locking.caller import Calls
from bench.locking.stage import LockStage
from bench.locking.tenants import tenants
from bench.report import Figure
from sunk.local.slurm.component import Component
from sunk.model.contract import lock

JOBS: Final = 2
"""Of each node: 1,000 nodes make 2,000 calls."""
CALM: Final = 10.0
QUIET: Final = 30.0
CONNECTIONS: Final = 10_000
FRESH: Final = 20
"""Locks beside them, at most."""
FLOOD: Final = 15.0
"""Seconds in which they are opened, at least. Those that say nothing are cut after some seconds."""


# Blocked calls


async def blocked(stage: LockStage) -> list[Figure]:
    """Call for two jobs on every node while a Pod that stays is on each Node; weigh the syncer before and after."""
    async with tenants(stage) as there:
        await there.settle(stays=True)
        jobs = [await stage.submit(stage.members) for _ in range(JOBS)]
        # The jobs alone are known to the syncer, and the locks under way, before anybody calls.
        await stage.all_are(lock.PENDING)
        await asyncio.sleep(CALM)
        before = megabytes_of(stage.process)
        held = await stage.call("hold", int, calls=[(name, job) for job in jobs for name in stage.members])
        await asyncio.sleep(CALM)
        grown = megabytes_of(stage.process) - before
        shares = await shares_of(stage.syncer, stage.operator)
        await require(stage, held)
        await there.remove()
        gone = time.monotonic()
        found = stage.checked(await stage.call("answered", Calls))
        await stage.end(jobs)
    what = f"{held} calls that wait"
    return [
        Figure(f"{what}, memory of the syncer for each", grown * 1e3 / held, "kB", goal=100),
        Figure("the same, CPU of the syncer", shares[0] * 100, "% of a core"),
        Figure("the same, CPU of the operator", shares[1] * 100, "% of a core"),
        Figure("the same, all answered after the last Pod was gone", max(found.ended - gone, 0.0), "s"),
        Figure("the same, calls that had to be repeated", found.repeated, "calls"),
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


class Flood(Struct, frozen=True):
    """What was seen while strangers opened connections."""

    seconds: list[float]
    """Of each lock meanwhile."""
    jobs: list[int]
    made: int
    open: int
    """At the end."""
    grown: float
    """Megabytes that the syncer had more, at most."""


async def connections(stage: LockStage) -> list[Figure]:
    """Lock some Nodes without anybody else, and while strangers open connections on which they say nothing."""
    alone = [await stage.lock([member]) for member in stage.members[:FRESH]]
    usual, jobs = median(seconds(calls) for _, calls in alone), [job for job, _ in alone]
    figures = [Figure(f"lock of an empty Node of {stage.count}, again", usual * 1e3, "ms")]
    for turn, (tls, kind) in enumerate(((False, "silent"), (True, "idle TLS")), start=1):
        found = await flood(stage, stage.members[turn * FRESH : (turn + 1) * FRESH], tls=tls)
        jobs += found.jobs
        what = f"lock while {CONNECTIONS} {kind} connections are opened"
        figures += [
            Figure(f"{what}, to one without", median(found.seconds) / usual, "×"),
            Figure("the same, median", median(found.seconds) * 1e3, "ms"),
            Figure("the same, worst", max(found.seconds) * 1e3, "ms"),
            Figure("the same, connections that came about", found.made, "connections"),
            Figure("the same, of them open at the end", found.open, "connections"),
            Figure("the same, memory that the syncer has more, at most", found.grown, "MB"),
        ]
    await stage.end(jobs)
    return figures


async def flood(stage: LockStage, members: Sequence[str], *, tls: bool) -> Flood:
    by, before = stage.strangers, megabytes_of(stage.process)
    opening = asyncio.create_task(
        stage.call("open", int, by=by, count=CONNECTIONS, seconds=FLOOD, tls=tls), name="bench: strangers"
    )
    found, held = [], [before]
    for member in members:
        await asyncio.sleep(FLOOD / FRESH)
        found.append(await stage.lock([member]))
        held.append(megabytes_of(stage.process))
        if opening.done():
            break
    made, still = await opening, await stage.call("still_open", int, by=by)
    await stage.call("close", type(None), by=by)
    return Flood(
        seconds=[seconds(calls) for _, calls in found],
        jobs=[job for job, _ in found],
        made=made,
        open=still,
        grown=max(held) - before,
    )


def seconds(calls: Calls) -> float:
    return calls.ended - calls.began
