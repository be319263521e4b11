"""A process that acts only while it holds a lease, and writes down what it does.

An act is a write to the ConfigMap `acts`, decided on the version read before. Each is noted before it is sent, with the
time and the deadline of the term: the monotonic clock is the same for all processes of a machine.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from msgspec import Struct, json

from sunk.kube.api.client import Client
from sunk.kube.api.patch import Merge
from sunk.kube.auth import access
from sunk.kube.control.lease import LeaderElection
from sunk.kube.control.term import LeaseTerm, LeaseTiming
from sunk.kube.core import CONFIG_MAPS, ConfigMap
from sunk.kube.errors import Conflict
from sunk.kube.resource import Key

LEASE = "fight"
ACTS = "acts"
PAUSE = 0.02


class Part(Struct, frozen=True):
    """What a contender is told when it starts."""

    name: str
    kubeconfig: str
    namespace: str
    notes: str
    timing: LeaseTiming


class Note(Struct, frozen=True):
    """At that time, by its own deadline, the contender sent an act, or did not because it no longer led."""

    at: float
    deadline: float
    sent: bool


class Contender:
    def __init__(self, part: Part, client: Client, notes: TextIO) -> None:
        self._part = part
        self._client = client
        self._notes = notes

    async def work(self, term: LeaseTerm) -> None:
        acts = await self._read()
        while True:
            note = Note(at=time.monotonic(), deadline=term.deadline, sent=term.holds())
            self._notes.write(json.encode(note).decode() + "\n")
            self._notes.flush()
            if note.sent:
                acts = await self._act(acts)
            await asyncio.sleep(PAUSE)

    async def _act(self, acts: ConfigMap) -> ConfigMap:
        metadata = {"resourceVersion": acts.metadata.resource_version}
        patch = Merge({"metadata": metadata, "data": {"by": self._part.name, "at": str(time.monotonic())}})
        try:
            return await self._client.patch(CONFIG_MAPS, ACTS, patch, namespace=self._part.namespace)
        except Conflict:
            return await self._read()

    async def _read(self) -> ConfigMap:
        return await self._client.get(CONFIG_MAPS, ACTS, namespace=self._part.namespace)


async def contend(part: Part, notes: TextIO) -> None:
    found = access.from_kubeconfig(part.kubeconfig)
    async with Client(found) as own, Client(found) as working:
        lease = LeaderElection(own, Key(part.namespace, LEASE), name=part.name, timing=part.timing)
        leading = asyncio.create_task(lease.lead(Contender(part, working, notes).work), name="lead")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leading.cancel)
        await asyncio.wait((leading,))


def main() -> None:
    part = json.decode(sys.argv[1], type=Part)
    with Path(part.notes).open("a") as notes:
        asyncio.run(contend(part, notes))


if __name__ == "__main__":
    main()
