"""A Pod like those of real clusters: two containers, probes, mounts, a status with all its conditions; some 6 KB."""

from typing import Any

PER_NODE = 8
"""How many Pods share a node."""
NOW = "2026-11-20T10:00:00Z"
IMAGE = "example.com/team/trainer:2026.11.20"


def name(number: int) -> str:
    return f"pod-{number:05d}"


def node(number: int) -> str:
    return f"node-{number // PER_NODE:05d}"


def body(number: int) -> dict[str, Any]:
    """What somebody would ask for. The server adds defaults, a token volume and managedFields."""
    metadata = {"name": name(number), "labels": _labels(number), "annotations": _annotations(number)}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "trainer", "uid": f"7e57-{number:05d}"}
    return {"metadata": metadata | {"ownerReferences": [owner | {"controller": True}]}, "spec": _spec(number)}


def status(number: int) -> dict[str, Any]:
    """What a kubelet would report of it once it runs."""
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"
    return {
        "phase": "Running",
        "startTime": NOW,
        "hostIP": f"10.200.{number // PER_NODE // 250}.{number // PER_NODE % 250 + 1}",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": NOW} for kind in conditions],
        "containerStatuses": [_container_status(each, number) for each in ("main", "sidecar")],
    }


def _labels(number: int) -> dict[str, str]:
    known = {"name": "trainer", "instance": f"run-{number:05d}", "component": "worker", "managed-by": "sunk"}
    return {f"app.kubernetes.io/{key}": value for key, value in known.items()} | {"pod-template-hash": "6d4cf56db6"}


def _annotations(number: int) -> dict[str, str]:
    return {"sunk/job": f"{number:05d}", "example.com/remarks": "what somebody's tool wanted to remember of this Pod"}


def _spec(number: int) -> dict[str, Any]:
    return {
        "nodeName": node(number),
        "terminationGracePeriodSeconds": 30,
        "containers": [_main(), _sidecar()],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "slurm", "effect": "NoSchedule"}],
    }


def _main() -> dict[str, Any]:
    return {
        "name": "main",
        "image": IMAGE,
        "args": ["--config=/etc/settings/config.yaml", "--log-level=info"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}"} for each in range(2)],
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"memory": "8Gi"}},
        "ports": [{"name": "http", "containerPort": 8080}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }


def _sidecar() -> dict[str, Any]:
    return {"name": "sidecar", "image": IMAGE, "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}


def _container_status(named: str, number: int) -> dict[str, Any]:
    return {
        "name": named,
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": IMAGE,
        "containerID": f"containerd://{number:064d}",
        "state": {"running": {"startedAt": NOW}},
    }
