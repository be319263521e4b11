"""A local cluster of which a part has died can still be asked, as long as its API answers."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually

from sunk.local.kubernetes import assets, cluster as clusters
from sunk.local.kubernetes.cluster import LocalCluster
from sunk.local.kubernetes.process import running
from sunk.local.kubernetes.spec import ClusterSpec

SUNK = str(Path(sys.executable).parent / "sunk")


@pytest.fixture
def bare() -> Iterator[LocalCluster]:
    name = f"trial-{secrets.token_hex(3)}"
    yield clusters.up(ClusterSpec(name=name, nodes=()), assets=assets.fill(images=False))
    clusters.remove(name)


def asked(cluster: LocalCluster, *command: str) -> subprocess.CompletedProcess[str]:
    words = [SUNK, "local", command[0], "--name", cluster.name, *command[1:]]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)


def end(cluster: LocalCluster, part: str) -> None:
    os.kill(running(cluster.home)[part], signal.SIGKILL)
    eventually(lambda: part not in running(cluster.home))


def test_it_is_used_with_a_warning_while_its_api_answers_and_refused_afterwards(bare: LocalCluster) -> None:
    listing = ("exec", "--", "kubectl", "get", "namespaces", "-o", "name")
    assert asked(bare, *listing).stderr == ""

    end(bare, "kube-controller-manager")
    done = asked(bare, *listing)
    assert "namespace/default" in done.stdout
    assert f"kube-controller-manager of cluster {bare.name} no longer runs, but its API answers" in done.stderr
    assert asked(bare, "kubeconfig").stdout.strip() == str(bare.kubeconfig)

    end(bare, "kube-apiserver")
    done = asked(bare, *listing)
    assert done.returncode == 2
    assert "is incomplete" in done.stderr
