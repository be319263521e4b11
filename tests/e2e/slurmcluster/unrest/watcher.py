"""`sunk verify` in a Pod beside the syncer's, so that it outlives whatever is done to that one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import json
from tests.e2e.slurmcluster.release import Release
from tests.waiting import eventually

from sunk.model import names

NAME = "watcher"
PATIENCE = 120
"""Seconds beyond the usual in which the other side has to follow: of two who have a part in it, each may be away."""
READS = (("", "pods"), ("", "nodes"), (names.GROUP, "nodesets"), (names.GROUP, "nodeslices"))


@contextmanager
def watching(slurm: Release) -> Iterator[None]:
    """Watch both sides meanwhile, and in the end see that no law was broken."""
    account = f"{NAME}-{slurm.kubectl.namespace}"
    _apply(slurm, *_rights(slurm, account), _pod(slurm))
    try:
        eventually(lambda: "and the Slurm of" in _said(slurm), seconds=240)
        yield
        assert "running" in _state(slurm), _said(slurm)
        slurm.kubectl("exec", NAME, "-c", "syncer", "--", "sh", "-c", "kill -INT 1")
        eventually(lambda: "terminated" in _state(slurm))
        said = _said(slurm)
        assert _state(slurm)["terminated"]["exitCode"] == 0, said
        assert "No law was" in said, said
    finally:
        slurm.kubectl("delete", f"clusterrole/{account}", f"clusterrolebinding/{account}")
        slurm.kubectl("delete", "pod", NAME, "--grace-period=1")


def _said(slurm: Release) -> str:
    if not {"running", "terminated"} & _state(slurm).keys():
        return ""
    return slurm.kubectl("logs", NAME, "-c", "syncer")


def _state(slurm: Release) -> dict[str, Any]:
    found = json.decode(slurm.kubectl("get", "pod", NAME, "-o", "json"))["status"].get("containerStatuses", [])
    state: dict[str, Any] = found[0]["state"] if found else {}
    return state


def _apply(slurm: Release, *objects: dict[str, Any]) -> None:
    whole = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    slurm.kubectl("apply", "-f", "-", stdin=json.encode(whole).decode())


def _pod(slurm: Release) -> dict[str, Any]:
    """The syncer's own, with another task and under another name."""
    found = json.decode(slurm.kubectl("get", "deployment", f"{slurm.name}-syncer", "-o", "json"))
    spec = found["spec"]["template"]["spec"]
    (syncer,) = spec["containers"]
    kept = {key: syncer[key] for key in ("name", "image", "env", "securityContext", "volumeMounts")}
    words = ["verify", "--json", f"--namespace={slurm.kubectl.namespace}", f"--patience={PATIENCE}"]
    # Without a configuration libslurm ends the process.
    there = ["sh", "-c", "test -S /run/slurm/sack.socket && test -s /run/slurm/conf/slurm.conf"]
    begun = {"startupProbe": {"exec": {"command": there}, "periodSeconds": 1, "failureThreshold": 120}}
    spec |= {
        "serviceAccountName": NAME,
        "restartPolicy": "Never",
        "initContainers": [one | (begun if one["name"] == "sackd" else {}) for one in spec["initContainers"]],
        "containers": [kept | {"args": words}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}, "spec": spec}


def _rights(slurm: Release, account: str) -> Iterator[dict[str, Any]]:
    """To read Nodes too, which the syncer may not."""
    where, rbac = slurm.kubectl.namespace, "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [group], "resources": [one], "verbs": ["get", "list", "watch"]} for group, one in READS]
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": where}}
    yield {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": account}, "rules": rules}
    yield {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": account},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": where}],
    }
