"""What is measured on: the stage of `bench.sync.played`, tokens of all its Pods, and a caller that plays their prologs.

The Slurm nodes are external ones, which only Slurm 26.05 has: jobs get them and let them go, and nothing runs there. On
24.11 all nodes of a crowd have one slurmd, and that lets a job end on one of its nodes after the other, every half
minute. Tokens are made by TokenRequest, each bound to its compute Pod, as a kubelet does it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from bench.kube.writer import in_parallel
from bench.locking import caller
from bench.locking.caller import Calls
from bench.slurm.testbed import Program
from bench.sync import played
from bench.sync.played import CLUSTER, NAMESPACE, OPERATOR, SYNCER, Played, SlurmOf
from bench.sync.witness import WRITES, Request
from sunk.kube.api.client import EVERYWHERE, Scope
from sunk.kube.core import NODES, PODS, Node
from sunk.local.progress import step
from sunk.local.slurm import Slurm, many_nodes
from sunk.local.slurm.boxes.box import PEOPLE, SLURM_USER
from sunk.local.slurm.running import PYTHON
from sunk.local.slurm.simulated import ADDRESS
from sunk.model import hostlist, names
from sunk.model.contract import clusterobjects, hooks, lock

T = TypeVar("T")
LASTING: Final = 6 * 3600
"""Seconds of a token's life: longer than any run."""
ACCOUNT: Final = "default"
"""Of the Pods."""
CALLER: Final = (PYTHON, "-c", Path(caller.__file__).read_text())
# A connection of asyncio has a buffer of 256 kB, of which it uses little. This gives what is unused no memory.
ENVIRONMENT: Final = {"MALLOC_MMAP_THRESHOLD_": "65536"}
PATIENCE: Final = 60.0
VERSION: Final = "26.05"
ALICE: Final = PEOPLE[0]
TO_THE_ANSWER: Final = ("take", "answer", "copy")
TO_UNLOCK: Final = ("release", "copy")


class Writes(Struct, frozen=True):
    """How often was written to Kubernetes: by operator and syncer in all, and what of it belongs to the lock."""

    everything: float
    statuses: float
    """Of Pods, by the syncer: conditions and the request."""
    locks: dict[str, float]
    """By the operator, by kind."""

    def since(self, before: "Writes") -> "Writes":
        locks = {kind: count - before.locks.get(kind, 0.0) for kind, count in self.locks.items()}
        return Writes(self.everything - before.everything, self.statuses - before.statuses, locks)

    def of(self, *kinds: str) -> float:
        return sum(self.locks.get(kind, 0.0) for kind in kinds)


class LockStage(Played, frozen=True):
    caller: Program
    strangers: Program
    """Another one, for connections that are in the caller's way."""

    async def call(self, what: str, answer: type[T], *, by: Program | None = None, **options: Any) -> T:
        """Have the caller do something."""
        asked = msgspec.json.encode(Request(what, options)).decode()
        return msgspec.json.decode(await asyncio.to_thread((by or self.caller).ask, asked), type=answer)

    async def lock(self, members: Sequence[str]) -> tuple[int, Calls]:
        """Start a job on these Slurm nodes; all its prologs call at once and are answered."""
        job = await self.submit(members)
        return job, self.checked(await self.call("lock", Calls, job=job, names=members))

    async def submit(self, members: Sequence[str]) -> int:
        """Have Slurm start a job of which nothing runs."""
        which = (f"--nodes={len(members)}", f"--nodelist={hostlist.compress(members)}", "--mem=100")
        command = ("sbatch", "--external", "--parsable", *which)
        return int(await asyncio.to_thread(self.syncer.slurm.run, *command, uid=ALICE.uid))

    def checked(self, found: Calls) -> Calls:
        if found.results.keys() != {"locked"}:
            raise SystemExit(
                f"locks were wanted, found {found.results}. The syncer's last words:\n{self.log()[-3000:]}"
            )
        return found

    async def end(self, jobs: Sequence[int]) -> None:
        """Cancel jobs, and wait until no Node is locked any more."""
        await self.call("cancel", type(None), jobs=jobs)
        await self.all_are(lock.UNLOCKED)

    async def all_are(self, *states: str) -> None:
        """Wait until the locks of all Nodes are in one of these states."""
        while not all(_state(node) in states for node in (await self.client.list(NODES, EVERYWHERE)).items):  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.5)

    async def counted(self) -> Writes:
        told = {host: await self.call("scrape", dict[str, float], host=host) for host in (self.host, OPERATOR)}
        requests = {host: _requests(series) for host, series in told.items()}
        statuses = sum(count for name, count in requests[self.host].items() if 'resource="pods/status"' in name)
        return Writes(sum(sum(each.values()) for each in requests.values()), statuses, _kinds(told[OPERATOR]))


def _requests(series: dict[str, float]) -> dict[str, float]:
    """Those that write. Leases and events are no part of what is done."""
    found = {name: count for name, count in series.items() if name.startswith("sunk_kube_requests_total{")}
    passed_over = ('resource="leases"', 'resource="events"')
    writing = tuple(f'verb="{verb}"' for verb in WRITES)
    return {
        name: count
        for name, count in found.items()
        if any(word in name for word in writing) and not any(word in name for word in passed_over)
    }


def _kinds(series: dict[str, float]) -> dict[str, float]:
    before, after = 'sunk_operator_lock_writes_total{kind="', '"}'
    return {
        name.removeprefix(before).removesuffix(after): count
        for name, count in series.items()
        if name.startswith(before)
    }


def _state(node: Node) -> str:
    """The lock of a Node. One that says to be unlocked and has the taint still is not."""
    said = lock.answer(node.metadata.annotations)
    tainted = any(taint.key == names.LOCK for taint in node.spec.taints)
    return "" if said is None or (said.state == lock.UNLOCKED and tainted) else said.state


@asynccontextmanager
async def staged(count: int, *, slurm_of: SlurmOf | None = None) -> AsyncIterator[LockStage]:
    """Start everything for so many nodes, give each Pod its token, and wait until the syncer answers."""
    async with played.staged(count, slurm_of=slurm_of or _external) as stage:
        made = LockStage(
            **asdict(stage), caller=_caller(stage, "the caller"), strangers=_caller(stage, "the strangers")
        )
        with step(f"Make {count} tokens, and wait for the hook API"):
            server, port = hooks.server_name(NAMESPACE, CLUSTER), clusterobjects.HOOKS_PORT
            for each, shown in ((made.caller, await tokens(made)), (made.strangers, {})):
                await made.call("begin", type(None), by=each, server=server, port=port, ca=made.ca, tokens=shown)
            await _answers(made)
        yield made


@contextmanager
def _external(members: Sequence[str]) -> Iterator[Slurm]:
    with many_nodes(members, version=VERSION) as slurm:
        # When a job starts slurmctld looks up the address of each node, and for an unknown one tries for ten seconds.
        with (slurm.layout.folder / "hosts").open("a") as hosts:
            hosts.writelines(f"{ADDRESS}\t{name}\n" for name in members)
        yield slurm


def _caller(stage: Played, name: str) -> Program:
    return Program(name, stage.syncer.slurm.spawn(*CALLER, uid=SLURM_USER, on=SYNCER, env=ENVIRONMENT))


async def tokens(stage: Played) -> dict[str, str]:
    """A token of each compute Pod, by its name."""
    pods = (await stage.client.list(PODS, Scope(namespace=stage.namespace))).items
    path = f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/{ACCOUNT}/token"
    made: dict[str, str] = {}

    async def make(number: int) -> None:
        name, uid = pods[number].metadata.name, pods[number].metadata.uid
        bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        audiences = [hooks.audience(stage.namespace, CLUSTER)]
        spec = {"audiences": audiences, "expirationSeconds": LASTING, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made[name] = msgspec.json.decode(await stage.client.post(path, body))["status"]["token"]

    await in_parallel(make, range(len(pods)))
    return made


async def _answers(stage: LockStage) -> None:
    deadline = time.monotonic() + PATIENCE
    while (status := await stage.call("hello", int, node=stage.members[0])) != 200:
        if time.monotonic() > deadline:
            raise SystemExit(f"the syncer answers hello with {status}. Its last words:\n{stage.log()[-3000:]}")
        await asyncio.sleep(1)
