"""Calls of prologs, and both sides as they see them: a store of Pods, and the mirror of a slurmctld by a script."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import json
from tests.unit.slurm.blank import blank
from tests.unit.slurm.scripted import Server, node
from tests.unit.syncer.builders import HERE, pod
from tests.unit.syncer.stores import put

from sunk.kube.cache.store import Store
from sunk.model.contract import lock
from sunk.model.contract.lock import JobRun, LockRequest
from sunk.service.hooks.server import HookCall
from sunk.service.hooks.tokens import Caller
from sunk.slurm.mirror.mirror import Mirror
from sunk.slurm.records import Job
from sunk.slurm.states import JobBase, JobFlag
from sunk.syncer.hooks.announced import Announced
from sunk.syncer.hooks.prehook import PreHook
from sunk.syncer.jobs import JobsByNode
from sunk.syncer.pods import ComputePod

RUN = JobRun(7)
PERIOD = 1.5
"""Within so many seconds a read that is beyond doubt begins and ends."""


def job(number: int = 7, nodes: str = "n1", base: JobBase = JobBase.RUNNING, *flags: JobFlag, **fields: object) -> Job:
    bits = base.value | sum(flag.value for flag in flags)
    return blank(Job, **{"id": number, "nodes": nodes, "state_bits": bits, "time_limit": None} | fields)


def call(name: str = "n1", *, uid: str = "", body: bytes | None = None, **asked: Any) -> HookCall:
    caller = Caller(namespace=HERE, pod=name, uid=uid or f"uid-of-{name}")
    return HookCall(caller=caller, node=name, body=json.encode({"job": 7} | asked) if body is None else body)


def asking(name: str, *runs: JobRun, number: int = 1, strict: bool = False, **annotations: str) -> ComputePod:
    """A Pod that asks for the lock; `lock="locked"` and the like say what was answered, to this request unless told."""
    text = lock.write(LockRequest(number=number, strict=strict, runs=runs))
    answered = {"lock_number": str(number), "lock_owner": f"uid-of-{name}"} if "lock" in annotations else {}
    said: dict[str, Any] = answered | annotations
    return pod(name, lock_request=text, **said)


class World:
    """Both sides, and the hook between them."""

    def __init__(self, *jobs: Job, longest: float = 300.0) -> None:
        self.slurm = Server(*(node(f"n{number}") for number in range(1, 4)), *jobs)
        self.mirror = Mirror(self.slurm)
        self.announced = Announced(self.mirror, JobsByNode(self.mirror.jobs))
        self.pods: Store[ComputePod] = Store("pods")
        self.hook = PreHook(self.pods, self.announced, namespace=HERE, timeout=longest)
        self.told: list[str] = []
        self.over: list[tuple[str, JobRun]] = []
        self.announced.subscribe(self.told.append)
        self.announced.when_over(lambda name, run: self.over.append((name, run)))

    def put(self, *pods: ComputePod) -> None:
        put(self.pods, *pods)


@asynccontextmanager
async def world(*jobs: Job, longest: float = 300.0) -> AsyncIterator[World]:
    made = World(*jobs, longest=longest)
    async with made.mirror.running():
        await made.mirror.read_after()
        yield made
