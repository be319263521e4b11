"""`sunk verify` by somebody who may not see everything: it says what it does not judge."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conftest import Kubectl
from tests.waiting import eventually

from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster

PROGRAM = str(Path(sys.executable).with_name("sunk"))


@pytest.fixture
def kubectl(policed: LocalCluster) -> Iterator[Kubectl]:
    parts = assets.fill(images=False).parts
    tool = Kubectl(program=parts.kubectl, kubeconfig=policed.kubeconfig, namespace=f"test-{secrets.token_hex(4)}")
    tool("create", "namespace", tool.namespace)
    yield tool
    tool("delete", "namespace", tool.namespace, "--wait=false")


def verified(kubeconfig: Path, namespace: str) -> "subprocess.CompletedProcess[str]":
    command = [PROGRAM, "verify", "--for", "0.5", "-n", namespace, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=240)


def as_syncer(kubectl: Kubectl, folder: Path) -> Path:
    """A kubeconfig with what the syncer's account may read."""
    kubectl("create", "serviceaccount", "syncer")
    kubectl("create", "role", "syncer", "--verb=get,list,watch", "--resource=nodesets,nodeslices,pods")
    kubectl("create", "rolebinding", "syncer", "--role=syncer", f"--serviceaccount={kubectl.namespace}:syncer")
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", "syncer").strip()}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def test_who_may_not_read_nodes_is_told_which_laws_are_not_judged(kubectl: Kubectl, tmp_path: Path) -> None:
    file = as_syncer(kubectl, tmp_path)
    done: list[subprocess.CompletedProcess[str]] = []

    def granted() -> bool:
        done[:] = [verified(file, kubectl.namespace)]
        return done[0].returncode == 0

    eventually(granted, seconds=180)
    assert (
        "This account may not read Nodes, so Node labels, taints and conditions (laws 2, 5 and 10) are not checked"
        in done[0].stderr
    )
    assert "Slurm is not watched" in done[0].stderr
    assert "No law was broken" in done[0].stderr


def test_who_may_is_told_nothing_of_the_kind(kubectl: Kubectl) -> None:
    done = verified(kubectl.kubeconfig, kubectl.namespace)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Nodes" not in done.stderr
