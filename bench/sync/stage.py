"""All that stands between a cordon and Slurm, each as it is deployed: API server, operator, syncer, slurmctld.

Operator and syncer run on the files of our image, each on a machine of its own. The Pods are those that the operator
makes for a NodeSet; the crowd of Slurm nodes bears their names.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from bench.nodesets import stage as nodesets
from bench.slurm.ground import Program
from bench.sync import witness
from bench.sync.witness import Seen, Wish
from sunk.kube.client import Client, Scope
from sunk.kube.core import NODES, PODS, Condition, condition
from sunk.kube.patch import Merge
from sunk.local.fakekubelet import FLEET, Settings
from sunk.local.progress import step
from sunk.local.slurm import Slurm, many_nodes
from sunk.local.slurm.beside import Beside
from sunk.local.slurm.box import SLURM_USER
from sunk.local.slurm.running import PYTHON
from sunk.model import names
from sunk.objects.members import NODESETS

T = TypeVar("T")
NAMESPACE: Final = "bench"
CLUSTER: Final = "bench"
PREFIX: Final = "sim"
OPERATOR, SYNCER = "operator", "syncer"
PLACE: Final = "/opt/bench"
TIGHT: Final = 0.001
"""Seconds between two looks at Slurm."""


class Stage(Struct, frozen=True):
    """Everything started, and joined."""

    client: Client
    settings: Settings
    slurm: Slurm
    syncer: Beside
    program: Program

    @property
    def count(self) -> int:
        return self.settings.nodes

    @property
    def nodes(self) -> list[str]:
        """Of Kubernetes. The Slurm node and the Pod of each are at the same place in `members`."""
        return [self.settings.name_of(number) for number in range(self.count)]

    @property
    def members(self) -> list[str]:
        return members(self.settings)

    @property
    def process(self) -> int:
        """Of the syncer."""
        if (found := self.syncer.process) is None:
            raise SystemExit(f"the syncer has ended:\n{self.syncer.log()[-3000:]}")
        return found

    async def ask(self, what: str, answer: Callable[..., T] | type[T], **options: Any) -> T:
        """Have the witness look at Slurm or write to it."""
        line = msgspec.json.encode(Wish(what, options)).decode()
        said = await asyncio.to_thread(self.program.ask, line)
        found: T = msgspec.json.decode(said, type=answer)
        return found

    async def until(self, found: list[str], *, draining: bool, pause: float = TIGHT) -> Seen:
        """Wait until all of these Slurm nodes are drained, or none of them is."""
        try:
            return await self.ask("until", Seen, names=found, draining=draining, pause=pause)
        except SystemExit as trouble:
            raise SystemExit(f"{trouble}\nThe syncer's last words:\n{self.syncer.log()[-3000:]}") from trouble

    async def cordon(self, number: int, *, on: bool = True) -> None:
        await self.client.patch(NODES, self.nodes[number], Merge({"spec": {"unschedulable": on or None}}))

    async def is_told(self, member: str) -> bool:
        """Whether a Pod carries the cordon of its Node."""
        found = await self.client.get(PODS, member, namespace=NAMESPACE)
        return names.CORDON in found.metadata.annotations

    async def settled(self) -> None:
        """Wait until both sides say that no node is drained, and nobody writes any more."""
        for look in (self._pods_free, self._nodes_free, self._all_marked):
            while not await look():  # noqa: ASYNC110 - the server is asked
                await asyncio.sleep(1)
        before: object = None
        while before != (now := (await self.updates(), await self.ask("writes", float))):
            before = now
            await asyncio.sleep(3)

    async def updates(self) -> int:
        """How often slurmctld was asked to change nodes."""
        return (await self.ask("requests", dict[int, int])).get(witness.UPDATE_NODES, 0)

    async def _pods_free(self) -> bool:
        found = await self.client.list(PODS, Scope(namespace=NAMESPACE))
        return sum(_free(pod.status.conditions) for pod in found.items) == self.count

    async def _nodes_free(self) -> bool:
        found = await self.client.list(NODES, Scope(labels=f"{FLEET}={self.settings.fleet}"))
        return sum(_free(node.status.conditions) for node in found.items) == self.count

    async def _all_marked(self) -> bool:
        return await self.ask("marked", int) == self.count


def _free(conditions: tuple[Condition, ...]) -> bool:
    wanted = (names.SLURM_DRAIN, names.SLURM_NOT_RESPONDING)
    return all((found := condition(conditions, kind)) is not None and found.status == "False" for kind in wanted)


def members(settings: Settings) -> list[str]:
    """What the operator calls them: by their addresses."""
    octets = (settings.address_of(number).split(".")[2:] for number in range(settings.nodes))
    return ["-".join((PREFIX, *(f"{int(each):03}" for each in pair))) for pair in octets]


@asynccontextmanager
async def staged(count: int) -> AsyncIterator[Stage]:
    """Start everything for so many nodes, and wait until all is calm."""
    async with AsyncExitStack() as stack:
        with step(f"Start Kubernetes and Slurm with {count} nodes"):
            server = await stack.enter_async_context(nodesets.staged(count, binds=True))
            slurm = stack.enter_context(many_nodes(members(server.settings)))
        await nodesets.made_namespace(server, NAMESPACE)
        with step(f"Join {count} nodes"):
            await _started(slurm, OPERATOR, server, "--namespaces", NAMESPACE, "--lease-namespace", NAMESPACE)
            await server.client.create(NODESETS, _body(), namespace=NAMESPACE)
            await _joined(server)
        with step("Let the syncer say it all"):
            # With a name that stays, as that of a Pod does, it leads at once when it starts anew.
            who = ("--cluster", CLUSTER, "--namespace", NAMESPACE, "--identity", "bench")
            syncer = await _started(slurm, SYNCER, server, *who)
            stage = Stage(server.client, server.settings, slurm, syncer, _witness(slurm))
            await stage.settled()
        yield stage


async def _started(slurm: Slurm, name: str, server: nodesets.Stage, *words: str) -> Beside:
    command = ("sunk", name, *words, "--log-level", "warning")
    made = await asyncio.to_thread(Beside, slurm, name, api=server.cluster, command=command)
    await asyncio.to_thread(made.start)
    return made


async def _joined(server: nodesets.Stage) -> None:
    """Wait until every Pod is ready: of those that start, the syncer would drain each and take it back."""
    while True:
        found = await server.client.get(NODESETS, CLUSTER, namespace=NAMESPACE)
        if found.status.number_ready == server.settings.nodes:
            return
        await asyncio.sleep(0.5)


def _witness(slurm: Slurm) -> Program:
    folder = slurm.path(PLACE, on=SYNCER) / "bench"
    shutil.copytree(Path(__file__).parent, folder / "sync", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "__init__.py").touch()
    env = {"PYTHONPATH": PLACE, "PYTHONDONTWRITEBYTECODE": "1"}
    return Program("the witness", slurm.spawn(PYTHON, "-m", "bench.sync.witness", uid=SLURM_USER, on=SYNCER, env=env))


def _body() -> dict[str, Any]:
    body = nodesets.set_body(CLUSTER, NAMESPACE)
    # The crowd has this feature: others would be written, and then slurmctld told to begin anew.
    body["spec"] |= {"cluster": CLUSTER, "podNamePrefix": PREFIX, "features": {"staticFeatures": ["crowd"]}}
    return body
