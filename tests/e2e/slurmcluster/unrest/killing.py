"""Somebody who kills the syncer and the operator at random moments, for as long as tests run.

A process that is killed comes back in its Pod. One whose Pod is deleted mostly gives its lease back; if it was killed
before that, its successor has to wait until the lease has run out. The next one is killed when this one leads again: at
that very moment, or later. So both get on with their work, however little at a time.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, Final

from msgspec import json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.processes import container_of, kill, lease
from tests.waiting import eventually

from sunk.local.kubernetes.cluster import LocalCluster

VICTIMS: Final = {"slurm-syncer": "syncer", "sunk-controller-manager": "operator"}
"""Deployments, whose Leases have the same names, and the container of each."""
MANNERS: Final = ((True, False), (False, True), (True, True))
"""Whether it is killed, and whether its Pod is deleted."""
LONGEST_PEACE: Final = 10.0
BACK: Final = 420.0
"""Who does not lead again within so many seconds never will. A new syncer waits for a slurmctld that is away."""


class Unrest:
    def __init__(self, kubectl: Kubectl, cluster: LocalCluster, *, seed: object) -> None:
        self._kubectl = kubectl
        self._cluster = cluster
        self._random = Random(f"{seed}")  # noqa: S311 - nothing is to be kept secret
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unrest", daemon=True)
        self.deeds: list[str] = [f"killing begins, seed {seed}"]
        self.trouble = ""
        self._spared: str | None = None
        self._struck: Counter[str] = Counter()

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Kill nobody any more. Who was killed last leads again afterwards."""
        self._over.set()
        self._thread.join()

    @contextmanager
    def sparing(self, name: str) -> Iterator[None]:
        """Kill one of them once more, and then leave it in peace for a while; the other is killed on."""
        before = self._struck[name]
        eventually(lambda: bool(self.trouble) or self._struck[name] > before, seconds=BACK)
        self._spared = name
        try:
            yield
        finally:
            self._spared = None

    def _run(self) -> None:
        try:
            while not self._over.wait(self._random.uniform(0, LONGEST_PEACE)):
                self._strike()
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise it to
            self.trouble = f"{type(error).__name__}: {error}"

    def _strike(self) -> None:
        name = self._random.choice([one for one in VICTIMS if one != self._spared])
        killed, deleted = self._random.choice(MANNERS)
        pod = self._pod(name)
        if pod is None:
            return
        since = time.time()
        found = container_of(pod, VICTIMS[name])
        if killed and found is not None and "running" in found["state"]:
            self._kill(pod, found)
        # The kubelet lets a container that has died before wait, longer and longer; in a new Pod it begins at once.
        deleted = deleted or found is None or bool(found["restartCount"])
        if deleted:
            self._delete(pod)
        self._struck[name] += 1
        self._await(name, since=since, gone=pod["metadata"]["name"] if deleted else "")

    def _pod(self, deployment: str) -> dict[str, Any] | None:
        chosen = json.decode(self._kubectl("get", "deployment", deployment, "-o", "json"))["spec"]["selector"]
        labels = ",".join(f"{key}={value}" for key, value in chosen["matchLabels"].items())
        found = json.decode(self._kubectl("get", "pods", "-l", labels, "-o", "json"))["items"]
        return self._random.choice(found) if found else None

    def _kill(self, pod: dict[str, Any], container: dict[str, Any]) -> None:
        self._note(f"{pod['metadata']['name']}: killed")
        if trouble := kill(self._cluster, pod, container):
            self._note(f"ctr: {trouble}")  # it has just ended by itself, or was not there yet

    def _delete(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        self._note(f"{name}: deleted")
        self._kubectl("delete", "pod", name, "--force", "--grace-period=0", "--ignore-not-found")

    def _await(self, name: str, *, since: float, gone: str) -> None:
        """Wait until it leads again. One whose Pod was deleted may live on, and renew its lease, for a moment."""
        deadline = time.monotonic() + BACK
        while time.monotonic() < deadline:
            with suppress(AssertionError):
                holder, renewed = lease(self._kubectl, name)
                if holder and renewed > since and not (gone and holder.startswith(gone)):
                    self._note(f"{name}: leads again")
                    return
            time.sleep(0.5)
        raise AssertionError(f"{name} does not lead again {BACK:.0f} s after it was killed")

    def _note(self, what: str) -> None:
        self.deeds.append(f"{time.monotonic() - self._began:6.1f} s  {what}")
