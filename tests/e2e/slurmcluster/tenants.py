"""Kubernetes work beside Slurm: Pods that write down all the time that they live, by the clock that jobs read too."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.release import LABEL
from tests.waiting import eventually

from sunk.model import names
from sunk.model.contract import lock

BEATING = """
exec {quiet}<> <(:)
until [[ -e /beats/leave || -e /beats/$POD.leave ]]; do
    echo "$EPOCHREALTIME" >> "/beats/$NODE.$POD"
    read -rt 0.05 -u "$quiet"
done
exit 0
"""
"""A line for each beat, without another process. It ends well when it is told to leave."""
DIES = "trap 'exit 143' TERM"
"""At once, when it is told to."""
STAYS = "trap '' TERM"
"""As long as its grace period lasts. If that is long, nobody but `leave` gets it away."""
HOST = "kubernetes.io/hostname"
HELD = "test.sunk/held"
"""A finalizer, so that a Pod whose containers have ended is still there."""
UNLOCKED = (lock.UNLOCKED, False)
PENDING = (lock.PENDING, True)
LOCKED = (lock.LOCKED, True)
LOCKED_STRICT = (lock.LOCKED_STRICT, True)
"""What a Node says of its lock, and whether it has the taint."""
STILL = 3.0
"""Who has not been heard of for so many seconds is dead."""


class Life(Struct, frozen=True):
    """Of a Pod, from its first beat to its last, in seconds of the machine's clock."""

    node: str
    uid: str
    born: float
    last: float

    def meets(self, begin: float, end: float) -> bool:
        """Whether it was alive in that time. It may have lived for a beat longer than it could write down."""
        return self.born < end and begin < self.last


class Tenants(Struct, frozen=True):
    """Pods of a test. Those of the Deployment are one on each Node that is for Slurm, or all on one."""

    kubectl: Kubectl
    folder: Path
    """On this machine, which is every Node's: a file for each Pod, with a line for each of its beats."""
    name: str = "tenant"

    # Who they are

    def run(self, *, replicas: int = 1, on: str = "", on_term: str = DIES, grace: int = 1) -> None:
        """A Deployment. `on_term` is shell that decides what its Pods make of SIGTERM."""
        spec = self._spec(on_term, grace) | ({"nodeSelector": {HOST: on}} if on else {"affinity": self._spread()})
        template = {"metadata": {"labels": {"app": self.name}}, "spec": spec}
        wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": self.name}}, "template": template}
        self._apply("apps/v1", "Deployment", self.name, wanted)

    def place(self, name: str, *, on: str, on_term: str = DIES, grace: int = 1, held: bool = False) -> None:
        """A Pod that nobody replaces. If it is held, its object stays after its containers have ended."""
        spec = self._spec(on_term, grace) | {"nodeSelector": {HOST: on}, "restartPolicy": "Never"}
        self._apply("v1", "Pod", name, spec, **({"finalizers": [HELD]} if held else {}))

    def run_job(self, name: str, *, on: str, **wanted: Any) -> None:
        """A Job of Kubernetes that may not fail once. It completes when its Pod is told to leave."""
        pod = self._spec(DIES, 1) | {"nodeSelector": {HOST: on}, "restartPolicy": "Never"}
        template = {"metadata": {"labels": {"app": self.name}}, "spec": pod}
        self._apply("batch/v1", "Job", name, {"backoffLimit": 0, "template": template} | wanted)

    def manifest(self, name: str) -> str:
        """Of a static Pod."""
        meta = {"name": name, "namespace": self.kubectl.namespace, "labels": {"app": self.name}}
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self._spec(DIES, 1)})

    def _apply(self, version: str, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        meta = {"name": name, "labels": {"app": self.name}} | metadata
        body = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def _spread(self) -> dict[str, Any]:
        apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": self.name}}}
        slurm = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
        return {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [slurm]}},
        }

    def _spec(self, on_term: str, grace: int) -> dict[str, Any]:
        known = {"POD": "metadata.uid", "NODE": "spec.nodeName"}
        return {
            "terminationGracePeriodSeconds": grace,
            "containers": [
                {
                    "name": "tenant",
                    "image": "localhost/slurm:24.11",
                    "imagePullPolicy": "Never",
                    "command": ["bash", "-c", f"{on_term}\n{BEATING}"],
                    "env": [
                        {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in known.items()
                    ],
                    "volumeMounts": [{"name": "beats", "mountPath": "/beats"}],
                }
            ],
            "volumes": [{"name": "beats", "hostPath": {"path": str(self.folder)}}],
        }

    # Who lives

    def running(self) -> dict[str, str]:
        """The uid of the Pod that lives on each Node and was not told to go."""
        alive = {life.uid for life in self.alive()}
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["uid"]
            for pod in self._pods()
            if pod["metadata"]["uid"] in alive and "deletionTimestamp" not in pod["metadata"]
        }

    def alive(self) -> list[Life]:
        """By their beats, whatever Kubernetes says."""
        return [life for life in self.lives() if time.time() - life.last < STILL]

    def lives(self) -> list[Life]:
        """Of all who have ever lived."""
        return [*self._lives("*")]

    def last_alive(self, uid: str) -> float:
        """When a Pod was last seen alive, in seconds of the machine's clock."""
        (life,) = self._lives(uid)
        return life.last

    def _lives(self, uid: str) -> Iterator[Life]:
        for file in self.folder.glob(f"*.{uid}"):
            node, _, found = file.name.rpartition(".")
            # The last line may be on its way.
            beats = file.read_text().rpartition("\n")[0].split()
            if beats and found != "leave":
                yield Life(node=node, uid=found, born=float(beats[0]), last=float(beats[-1]))

    def exists(self, name: str) -> bool:
        return self.kubectl("get", "pod", name, "--ignore-not-found", "-o", "name") != ""

    def _pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.decode(self.kubectl("get", "pods", "-l", f"app={self.name}", "-o", "json"))[
            "items"
        ]
        return found

    # How they go

    def leave(self, *uids: str) -> None:
        """Have them end, whatever they make of SIGTERM."""
        for uid in uids:
            (self.folder / f"{uid}.leave").touch()

    def release(self, name: str) -> None:
        """Hold a Pod no longer."""
        self.kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')

    def remove(self) -> None:
        """Leave nothing. A Pod that its Deployment has just replaced ends as soon as it starts."""
        (self.folder / "leave").touch()
        chosen = ("-l", f"app={self.name}")
        self.kubectl("delete", "deployments,jobs", *chosen, "--ignore-not-found", "--wait=false")
        eventually(self._is_swept, seconds=120)

    def _is_swept(self) -> bool:
        left = self._pods()
        for pod in left:
            if HELD in pod["metadata"].get("finalizers", []):
                self.release(pod["metadata"]["name"])
        if left:
            words = ("--force", "--grace-period=0", "--wait=false", "--ignore-not-found")
            self.kubectl("delete", "pods", "-l", f"app={self.name}", *words)
        return not left


# Locks


def lock_of(kubectl: Kubectl, node: str) -> tuple[str, bool]:
    """What a Node says of its lock, and whether it has the taint."""
    return _lock(json.decode(kubectl("get", "node", node, "-o", "json")))


def locks(kubectl: Kubectl) -> dict[str, tuple[str, bool]]:
    """As `lock_of`, of all Nodes."""
    found = json.decode(kubectl("get", "nodes", "-o", "json"))["items"]
    return {node["metadata"]["name"]: _lock(node) for node in found}


def _lock(node: dict[str, Any]) -> tuple[str, bool]:
    taints = {(taint["key"], taint.get("value"), taint["effect"]) for taint in node["spec"].get("taints", [])}
    tainted = (names.LOCK, lock.TAINT_VALUE, lock.TAINT_EFFECT) in taints
    return node["metadata"].get("annotations", {}).get(names.LOCK, lock.UNLOCKED), tainted


def lives_on(tenants: Tenants, *nodes: str) -> dict[str, str]:
    """Wait until a Pod lives on each of these Nodes, and give the uids of these.

    Who looks again may miss one that has stood still for a moment, on a busy machine.
    """
    found: dict[str, str] = {}

    def on_each() -> bool:
        found.update(tenants.running())
        return found.keys() >= {*nodes}

    eventually(on_each)
    return {node: found[node] for node in nodes}


def alive_on(tenants: Tenants, *nodes: str) -> None:
    """See that Pods live on these Nodes and nowhere else. One that has just ended still counts, one that stands still not."""
    eventually(lambda: sorted(life.node for life in tenants.alive()) == sorted(nodes))


def waits(kubectl: Kubectl, node: str) -> None:
    """Wait until a prolog waits on a Node."""
    eventually(lambda: lock_of(kubectl, node) == PENDING)
