"""The half of a kubelet that the fake one has not got: where a compute Pod runs, a real slurmd does.

A Pod that is deleted goes only when its slurmd is dead, as on a real machine: one that outlives it could register once
more after its record is deleted, and nobody would know whose that is. So its own kubelet is told to take long, and the
end of the Pod is told from here.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from tests.integration.syncer.stage import Stage

from sunk.kube.api.client import Deletion, Preconditions, Scope
from sunk.kube.cache.collection import Collection
from sunk.kube.core import PODS, Pod
from sunk.kube.errors import Conflict, NotFound
from sunk.local.fakekubelet import annotations
from sunk.local.slurm.configuration import CONTROLLER, NODE_PORT
from sunk.model import names
from sunk.objects.computepods import terminating

PERIOD = 0.1
STOPS_SLOWLY = annotations(stop_after="100s")
"""For Pods, with a grace period of more than that."""


class Slurmds:
    """Starts the slurmd of each Pod that starts, and kills that of each Pod that is gone. Their machines exist."""

    def __init__(self, stage: Stage) -> None:
        self._slurm = stage.slurm
        scope = Scope(namespace=stage.namespace, labels=f"{names.COMPONENT}={names.COMPUTE}")
        self._pods = Collection(stage.client, PODS, scope)
        self._of: dict[str, str] = {}
        """The uid of the Pod for which each runs."""
        self.at_it = asyncio.Lock()
        """Who starts or ends something. Who starts something minds whatever ends meanwhile; and a slurmd that starts asks
        slurmctld for its configuration, and ends by itself if nobody answers."""
        self.stopped = False
        """Whether slurmctld is."""

    def duties(self) -> dict[str, Coroutine[Any, Any, object]]:
        return {"Pods of slurmds": self._pods.run(), "slurmds": self._follow()}

    def run_for(self, pods: dict[str, str]) -> None:
        """Hear which ones run already, and for which Pods, by uid."""
        self._of = dict(pods)

    async def stop_slurmctld(self) -> None:
        async with self.at_it:
            if not self.stopped:
                self.stopped = True
                await asyncio.to_thread(self._slurm.stop, CONTROLLER)

    async def start_slurmctld(self) -> None:
        async with self.at_it:
            if self.stopped:
                await asyncio.to_thread(self._slurm.start, CONTROLLER)
                self.stopped = False

    async def _follow(self) -> None:
        await self._pods.store.complete()
        while True:
            for name, uid in list(self._of.items()):
                if self._there().get(name) != uid:
                    await self._kill(name)
            for pod in self._pods.store.all():
                if terminating(pod):
                    await self._remove(pod)
            for name, uid in self._there(running=True).items():
                if name not in self._of:
                    await self._start(name, uid)
            await asyncio.sleep(PERIOD)

    def _there(self, *, running: bool = False) -> dict[str, str]:
        phases = {"Running"} if running else {"Running", "Pending"}
        found = [pod for pod in self._pods.store.all() if pod.status.phase in phases and not terminating(pod)]
        return {pod.metadata.name: pod.metadata.uid for pod in found}

    async def _remove(self, pod: Pod) -> None:
        how = Deletion(grace_period_seconds=0, preconditions=Preconditions(uid=pod.metadata.uid))
        with suppress(NotFound, Conflict):
            await self._pods.delete(pod.key, how)

    async def _kill(self, name: str) -> None:
        async with self.at_it:
            del self._of[name]
            await asyncio.to_thread(self._slurm.kill, name)

    async def _start(self, name: str, uid: str) -> None:
        async with self.at_it:
            if self.stopped or name not in self._slurm.machines.boxes:
                return
            await asyncio.to_thread(self._slurm.machines.start, name)
            self._of[name] = uid
            listens = partial(self._slurm.machines.listens, name, NODE_PORT)
            await asyncio.to_thread(partial(self._slurm.machines.wait, listens, what=f"slurmd of {name}"))
