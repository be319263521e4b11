"""What is measured on: both sides joined by operator and syncer, and a witness beside them that looks at Slurm.

`real` makes one with kubelets and Slurm nodes that are all there, `played` one with thousands that are not. What is
timed is timed on either in the same way.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from bench.slurm.testbed import Program
from bench.sync import witness
from bench.sync.witness import Request, Seen
from sunk.kube.api.client import EVERYWHERE, Client, Scope
from sunk.kube.api.patch import Merge
from sunk.kube.core import NODES, PODS, Condition, condition
from sunk.local.slurm.running import PYTHON
from sunk.model import names

T = TypeVar("T")
TIGHT: Final = 0.001
"""Seconds between two looks at Slurm."""
WITNESS: Final = (PYTHON, "-c", Path(witness.__file__).read_text())
"""The command that starts it on the files of our image, which need no copy of it."""


class Stage(Struct, frozen=True):
    """Everything started, and joined."""

    client: Client
    namespace: str
    nodes: tuple[str, ...]
    """Of Kubernetes. The Slurm node and the Pod of each are at the same place in `members`."""
    members: tuple[str, ...]
    program: Program
    writer: Program
    """Writes to Slurm while the witness looks."""
    host: str
    """Of the syncer, as the witness reaches it."""
    log: Callable[[], str]
    """Of the syncer."""

    @property
    def count(self) -> int:
        return len(self.nodes)

    async def ask(self, what: str, answer: Callable[..., T] | type[T], **options: Any) -> T:
        """Have the witness look at Slurm or write to it."""
        return await _asked(self.program, Request(what, options), answer)

    async def write(self, what: str, **options: Any) -> None:
        """Have something written to Slurm while the witness looks."""
        await _asked(self.writer, Request(what, options), type(None))

    async def until(self, found: Sequence[str], *, draining: bool, pause: float = TIGHT) -> Seen:
        """Wait until all of these Slurm nodes are drained, or none of them is."""
        try:
            return await self.ask("until", Seen, names=found, draining=draining, pause=pause)
        except SystemExit as trouble:
            raise SystemExit(f"{trouble}\nThe syncer's last words:\n{self.log()[-3000:]}") from trouble

    async def cordon(self, number: int, *, on: bool = True) -> None:
        await self.client.patch(NODES, self.nodes[number], Merge({"spec": {"unschedulable": on or None}}))

    async def is_told(self, member: str) -> bool:
        """Whether a Pod carries the cordon of its Node."""
        found = await self.client.get(PODS, member, namespace=self.namespace)
        return names.CORDON in found.metadata.annotations

    async def settled(self) -> None:
        """Wait until both sides say that no node is drained, and nobody writes any more."""
        for look in (self._pods_free, self._nodes_free, self._all_marked):
            while not await look():  # noqa: ASYNC110 - the server is asked
                await asyncio.sleep(1)
        before: object = None
        while before != (now := (await self.updates(), await self.written())):
            before = now
            await asyncio.sleep(3)

    async def updates(self) -> int:
        """How often slurmctld was asked to change nodes."""
        return (await self.ask("requests", dict[int, int])).get(witness.UPDATE_NODES, 0)

    async def written(self) -> float:
        """How often the syncer has written to Kubernetes."""
        return await self.ask("writes", float, host=self.host)

    async def _pods_free(self) -> bool:
        found = await self.client.list(PODS, Scope(namespace=self.namespace))
        return sum(_free(pod.status.conditions) for pod in found.items) == self.count

    async def _nodes_free(self) -> bool:
        found = await self.client.list(NODES, EVERYWHERE)
        return sum(_free(node.status.conditions) for node in found.items) == self.count

    async def _all_marked(self) -> bool:
        return await self.ask("marked", int) == self.count


async def _asked(program: Program, wish: Request, answer: Callable[..., T] | type[T]) -> T:
    said = await asyncio.to_thread(program.ask, msgspec.json.encode(wish).decode())
    found: T = msgspec.json.decode(said, type=answer)
    return found


def _free(conditions: tuple[Condition, ...]) -> bool:
    wanted = (names.SLURM_DRAIN, names.SLURM_NOT_RESPONDING)
    return all((found := condition(conditions, kind)) is not None and found.status == "False" for kind in wanted)
