"""Kubernetes work beside Slurm: Pods that write down all the time that they live, by the clock that jobs read too."""

import time
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, json
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.release import LABEL

from sunk.model import names
from sunk.model.contract import lock

BEATING = 'while :; do date +%s.%N > "/beats/$POD"; sleep 0.05; done'
DIES = "trap 'exit 0' TERM"
"""At once, when it is told to."""


class Tenants(Struct, frozen=True):
    """A Deployment with one Pod on each Node that is for Slurm."""

    kubectl: Kubectl
    folder: Path
    """On this machine, which is every Node's: a file for each Pod, with the time when it was last alive."""
    name: str = "tenant"

    def run(self, *, replicas: int, on_term: str = DIES, grace: int = 1, **spec: Any) -> None:
        """Start them. `on_term` is shell that decides what they make of SIGTERM."""
        template = {"metadata": {"labels": {"app": self.name}}, "spec": self._pod(on_term, grace) | spec}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": self.name}}, "template": template},
        }
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def _pod(self, on_term: str, grace: int) -> dict[str, Any]:
        apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": self.name}}}
        slurm = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
        return {
            "terminationGracePeriodSeconds": grace,
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [slurm]}},
            },
            "containers": [
                {
                    "name": "tenant",
                    "image": "localhost/slurm:24.11",
                    "imagePullPolicy": "Never",
                    "command": ["bash", "-c", f"{on_term}; {BEATING}"],
                    "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
                    "volumeMounts": [{"name": "beats", "mountPath": "/beats"}],
                }
            ],
            "volumes": [{"name": "beats", "hostPath": {"path": str(self.folder)}}],
        }

    def running(self) -> dict[str, str]:
        """The uid of the Pod that lives on each Node."""
        found = json.decode(self.kubectl("get", "pods", "-l", f"app={self.name}", "-o", "json"))["items"]
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["uid"]
            for pod in found
            if self._lives(pod["metadata"]["uid"]) and "deletionTimestamp" not in pod["metadata"]
        }

    def last_alive(self, uid: str) -> float:
        """When a Pod was last seen alive, in seconds of the machine's clock."""
        return float((self.folder / uid).read_text() or "nan")

    def _lives(self, uid: str) -> bool:
        file = self.folder / uid
        return file.exists() and time.time() - file.stat().st_mtime < 1

    def remove(self) -> None:
        self.kubectl("delete", "deployment", self.name, "--ignore-not-found", "--cascade=foreground", "--wait=false")
        self.kubectl("delete", "pods", "-l", f"app={self.name}", "--force", "--grace-period=0", "--wait=false")


def lock_of(kubectl: Kubectl, node: str) -> tuple[str, bool]:
    """What a Node says of its lock, and whether it has the taint."""
    found = json.decode(kubectl("get", "node", node, "-o", "json"))
    taints = {(taint["key"], taint.get("value"), taint["effect"]) for taint in found["spec"].get("taints", [])}
    tainted = (names.LOCK, lock.TAINT_VALUE, lock.TAINT_EFFECT) in taints
    return found["metadata"].get("annotations", {}).get(names.LOCK, lock.UNLOCKED), tainted
