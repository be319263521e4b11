"""What persons do to Slurm nodes, and what has to stand afterwards because they did.

Blanks of a reason do not count: one that is put on again after its machine was away has lost those too many.

Slurm takes no condition with a change: who writes in the same moment as somebody else may be overwritten, and nobody
could know. So a text counts as standing from the moment the syncer has told of it, which means that it has seen it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from tests.integration.syncer.seen import Seen
from tests.integration.syncer.stage import Stage

from sunk.kube.core import NODES
from sunk.kube.errors import NotFound
from sunk.model import names
from sunk.model.contract import drains, keptdrains
from sunk.model.refusal import Refusal
from sunk.slurm.orders import extra
from sunk.syncer.pods import condition

SOON = 4.0


class Mark(Struct, frozen=True):
    """A drain of a person."""

    reason: str
    told: bool = False
    """The syncer has told the Pod of it, so it stands until a person lifts it."""
    kept: bool = False
    """It is also written down for the day on which its machine leaves and comes back."""


class Persons:
    def __init__(self, stage: Stage, cluster: str) -> None:
        self._stage = stage
        self._cluster = cluster
        self.drains: dict[str, Mark] = {}
        self.possible: dict[str, set[str]] = {}
        """Reasons that may stand, or come back, and need not."""
        self.extras: dict[str, dict[str, object]] = {}
        """What users wrote beside our key, once we were seen to have kept it."""
        self.lifted: set[str] = set()
        """Nodes from which a person has lifted a drain in this history."""

    # What they do

    async def drain(self, name: str, reason: str, *, node: str) -> None:
        if not await self._update(name, "state=drain", f"reason={reason}"):
            return
        if reason.startswith("k8s:"):
            self.drains.pop(name, None)  # as if we had written it
            return
        await self._stands(name, reason, node=node)

    async def down(self, name: str, reason: str, *, node: str) -> None:
        """Set a node down: it keeps its flag, and gets another reason."""
        if not await self._update(name, "state=down", f"reason={reason}"):
            return
        if name in self.drains:
            await self._stands(name, reason, node=node)
        else:
            self._may(name, reason)

    async def lift(self, name: str, word: str, *, node: str) -> None:
        if not await self._update(name, f"state={word}"):
            return
        self.lifted.add(name)
        mark = self.drains.pop(name, None)
        shown = (await self._stage.client.get(NODES, node)).metadata.annotations.get(names.DRAIN)
        if mark is not None and shown != keptdrains.line(mark.reason):
            self._may(name, mark.reason)  # a lift so early is not told from a drain that is still to come back

    def verified(self, name: str) -> None:
        """Somebody has said that a machine is well."""
        mark = self.drains.get(name)
        if mark is not None and drains.VERIFY in mark.reason:
            self._may(name, mark.reason)
            del self.drains[name]

    async def write_extra(self, name: str, text: str) -> None:
        self.extras.pop(name, None)
        if not await self._update(name, f"extra={text}"):
            return
        wanted = extra.read(text)
        if await self._soon(name, lambda seen: bool(seen.ours) and _beside(seen) == wanted):
            self.extras[name] = wanted

    async def _update(self, name: str, *words: str) -> bool:
        try:
            await self._stage.scontrol("update", f"nodename={name}", *words)
        except Refusal:  # not known, or not possible in its state
            return False
        return True

    async def _stands(self, name: str, reason: str, *, node: str) -> None:
        """Wait a little until everybody has seen it. Its machine may leave meanwhile."""
        self._may(name, reason)
        self.drains[name] = Mark(reason)
        deadline = asyncio.get_running_loop().time() + SOON
        while asyncio.get_running_loop().time() < deadline:
            with suppress(NotFound):
                await self._look(name, reason, node=node)
            if name not in self.drains or self.drains[name].kept:
                return
            await asyncio.sleep(0.05)
        if not self.drains[name].told:
            del self.drains[name]

    async def _look(self, name: str, reason: str, *, node: str) -> None:
        said = condition(await self._stage.pod(name), names.SLURM_DRAIN)
        written = (await self._stage.client.get(NODES, node)).metadata.annotations.get(names.KEPT_DRAIN, "")
        told = said is not None and said.message == reason
        if name in self.drains and told:
            self.drains[name] = Mark(
                reason, told=True, kept=keptdrains.read(written).get(self._cluster) == keptdrains.line(reason)
            )

    async def _soon(self, name: str, holds: Callable[[Seen], bool]) -> bool:
        deadline = asyncio.get_running_loop().time() + SOON
        while asyncio.get_running_loop().time() < deadline:
            if holds(await self._stage.seen(name)):
                return True
            await asyncio.sleep(0.1)
        return False

    def _may(self, name: str, reason: str) -> None:
        self.possible.setdefault(name, set()).add(keptdrains.line(reason))

    # What follows

    def left(self, name: str) -> None:
        """Hear that a machine has left: its record goes, and all that was written there."""
        self.extras.pop(name, None)
        mark = self.drains.get(name)
        if mark is not None and not mark.kept:
            del self.drains[name]

    def wrong(self, name: str, seen: Seen) -> list[str]:
        """What is not as persons left it."""
        found = []
        mark = self.drains.get(name)
        if mark is not None and not (seen.drained and keptdrains.line(seen.reason) == keptdrains.line(mark.reason)):
            found.append(f'{name}: the drain of a person, "{mark.reason}", is gone: {seen}')
        foreign = seen.drained and not seen.reason.startswith("k8s:")
        if foreign and keptdrains.line(seen.reason) not in self.possible.get(name, ()):
            found.append(f'{name}: nobody wrote "{seen.reason}"')
        if name in self.extras and _beside(seen) != self.extras[name]:
            found.append(f"{name}: users wrote {self.extras[name]}, and Slurm has {seen.extra}")
        return found


def _beside(seen: Seen) -> dict[str, object]:
    """What stands beside our key."""
    return {key: value for key, value in extra.read(seen.extra).items() if key != "k8s"}
