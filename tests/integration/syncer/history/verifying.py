"""`sunk verify` as people run it: a process beside the syncer that sees both sides and tells of every broken law."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec import json
from tests.integration.syncer.stage import CLUSTER, Stage

from sunk.insight.verify.watcher import Breach
from sunk.local.slurm.boxes.layout import AS_SLURM
from sunk.local.slurm.component import KUBECONFIG


class Verifying:
    """The lines that it has printed."""

    def __init__(self, stage: Stage) -> None:
        where = ("--cluster", CLUSTER, "--namespace", stage.namespace)
        words = ("sunk", "verify", *where, "--json")
        self._process = stage.slurm.spawn(*AS_SLURM, *words, on=stage.syncer.name, env={"KUBECONFIG": KUBECONFIG})
        self._said: list[str] = []
        self._reading: list[threading.Thread] = []
        self._errors: list[str] = []
        for stream, lines in ((self._process.stdout, self._said), (self._process.stderr, self._errors)):
            assert stream is not None
            thread = threading.Thread(target=lambda source=stream, into=lines: into.extend(source), daemon=True)
            thread.start()
            self._reading.append(thread)

    async def begun(self) -> None:
        """Wait until it watches both sides."""
        async with asyncio.timeout(180):
            while not any("and the Slurm of" in line for line in self._errors):
                assert self._process.poll() is None, self._errors
                await asyncio.sleep(0.1)

    def breaches(self) -> list[Breach]:
        """What it has told of so far; each is given once."""
        assert self._process.poll() is None, f"sunk verify has ended: {''.join(self._errors)}"
        said, self._said[:] = list(self._said), []
        return [json.decode(line, type=Breach) for line in said]

    def end(self) -> None:
        # With its children, which hold the streams: nobody may close one that is still read.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for thread in self._reading:
            thread.join(timeout=60)


@asynccontextmanager
async def verifying(stage: Stage) -> AsyncIterator[Verifying]:
    made = Verifying(stage)
    try:
        await made.begun()
        yield made
    finally:
        made.end()
