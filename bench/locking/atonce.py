"""How long prologs wait for locks of Nodes on which nobody is in the way, or nobody for long: one at a time, and all.

In turns with the same writes by somebody who waits for nobody.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Final

from msgspec import Struct

from bench.locking.bare import BareLocks
from bench.locking.caller import Calls
from bench.locking.stage import TO_THE_ANSWER, TO_UNLOCK, LockStage, Writes
from bench.locking.tenants import tenants
from bench.report import Figure

SINGLES: Final = 30
TURNS: Final = 3
PAUSE: Final = 0.7
"""Seconds between two locks, and up to twice that, so that they come at any time between two reads of Slurm."""


# One at a time


async def singles(stage: LockStage) -> list[Figure]:
    """Lock one Node after the other, and in turns do the four writes; and a call that is answered without any."""
    bare, last = BareLocks(stage.client, stage.nodes), stage.count - 1
    await bare.prepare()
    ours, writes, hellos, jobs = [], [], [], []
    for number in range(min(SINGLES, last)):
        await asyncio.sleep(PAUSE * (1 + random.random()))  # noqa: S311 - at any time
        writes.append(await four_writes(bare, last))
        hellos.append(await timed(stage.call("hello", int, node=stage.members[last])))
        job, found = await stage.lock([stage.members[number]])
        ours.append(found.ended - found.began)
        jobs.append(job)
    await stage.end(jobs)
    return [
        Figure(
            f"lock of an empty Node of {stage.count}, to its four writes", median(ours) / median(writes), "×", goal=3
        ),
        Figure("the same, from call to answer, median", median(ours) * 1e3, "ms"),
        Figure("the same, worst", max(ours) * 1e3, "ms"),
        Figure("the four writes", median(writes) * 1e3, "ms"),
        Figure("a call that is answered without any write", median(hellos) * 1e3, "ms"),
    ]


async def four_writes(bare: BareLocks, number: int) -> float:
    await bare.read([number])
    took = await timed(bare.lock(number))
    await bare.unlock(number)
    return took


async def timed(act: Awaitable[object]) -> float:
    began = time.monotonic()
    await act
    return time.monotonic() - began


# All at once


class Burst(Struct, frozen=True):
    """Locks of all Nodes at once, and what was written until the last was there, and until all were gone again."""

    calls: Calls
    locking: Writes
    unlocking: Writes

    @property
    def took(self) -> float:
        return self.calls.ended - self.calls.began


async def bursts(stage: LockStage) -> list[Figure]:
    """Lock all Nodes at once, on which there is nobody."""
    bare = BareLocks(stage.client, stage.nodes)
    await bare.prepare()
    ours, others = [], []
    for _ in range(TURNS):
        others.append(await bare_burst(bare))
        ours.append(await burst(stage))
    return [*times(f"{stage.count} locks at once", ours, others), *writes(stage, ours)]


async def bursts_with_tenants(stage: LockStage) -> list[Figure]:
    """The same with a Pod on every Node, which Kubernetes evicts upon either taint."""
    bare = BareLocks(stage.client, stage.nodes)
    await bare.prepare()
    ours, others = [], []
    async with tenants(stage) as there:
        for _ in range(TURNS):
            await there.settle()
            others.append(await bare_burst(bare, left=there.left))
            await there.remove()
            await there.settle()
            ours.append(await burst(stage))
            await there.remove()
    return times(f"{stage.count} locks at once with a Pod to evict on each Node", ours, others)


async def burst(stage: LockStage) -> Burst:
    before = await stage.counted()
    job, calls = await stage.lock(stage.members)
    locked = await stage.counted()
    await stage.end([job])
    return Burst(calls, locked.since(before), (await stage.counted()).since(locked))


async def bare_burst(bare: BareLocks, left: Callable[[int], Awaitable[None]] | None = None) -> float:
    await bare.read_all()
    took = await timed(bare.lock_all(left))
    await bare.unlock_all()
    return took


def times(what: str, ours: list[Burst], bare: list[float]) -> list[Figure]:
    took = median(each.took for each in ours)
    return [
        Figure(f"{what}, to the same writes by as many workers", took / median(bare), "×", goal=1.5),
        Figure("the same, from the first call to the last answer", took, "s"),
        Figure("the same, a call among them, median", median(median(each.calls.seconds) for each in ours), "s"),
        Figure("the same writes", median(bare), "s"),
        Figure("calls that had to be repeated, most", max(each.calls.repeated for each in ours), "calls"),
    ]


def writes(stage: LockStage, found: list[Burst]) -> list[Figure]:
    """Of each lock, in the worst of all turns."""
    asked = max(each.locking.statuses + each.locking.of(*TO_THE_ANSWER) for each in found)
    ended = max(each.unlocking.of(*TO_UNLOCK) for each in found)
    everything = max(each.locking.everything + each.unlocking.everything for each in found)
    return [
        Figure("writes of a lock to its answer", asked / stage.count, "writes", goal=4),
        Figure("writes of its end", ended / stage.count, "writes", goal=2),
        Figure("all writes of operator and syncer from job to idle Node", everything / stage.count, "writes"),
    ]
