"""From the charts of the commit before to those of this tree, on a real API server, with a cluster there."""

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import crds
from tests.conftest import Kubectl
from tests.helm import Helm

from sunk.local.kubernetes import assets
from sunk.local.kubernetes.cluster import LocalCluster

PROJECT = Path(__file__).parents[2]
CHARTS = PROJECT / "charts"
LOCAL = ("--values", str(CHARTS / "slurm" / "values-local.yaml"))


@pytest.fixture
def helm(api: LocalCluster) -> Iterator[Helm]:
    parts = assets.fill(images=False).parts
    tool = Kubectl(program=parts.kubectl, kubeconfig=api.kubeconfig, namespace=f"test-{secrets.token_hex(4)}")
    tool("create", "namespace", tool.namespace)
    yield Helm(parts.helm, tool)
    tool("delete", "namespace", tool.namespace, "--wait=false")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The charts as they were one commit ago."""
    command = ["git", "-C", str(PROJECT), "archive", "HEAD~1", "charts"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this clone has no parent commit with charts")
    subprocess.run(["tar", "--extract", "--directory", tmp_path], input=done.stdout, check=True)
    return tmp_path / "charts"


def test_what_the_last_charts_made_is_taken_over_by_these(helm: Helm, before: Path) -> None:
    release = f"sunk-{secrets.token_hex(3)}"
    try:
        helm.install(release, "--set", "replicas=0", chart=before / "sunk")
        crds.until_served(helm.kubectl)
        helm("install", "slurm", str(before / "slurm"), *LOCAL)
        uid = helm.kubectl("get", "slurmcluster", "slurm", "-o", "jsonpath={.metadata.uid}")

        helm.install(release, "--set", "replicas=0", chart=CHARTS / "sunk")
        helm("upgrade", "slurm", str(CHARTS / "slurm"), *LOCAL)

        assert helm.kubectl("get", "slurmcluster", "slurm", "-o", "jsonpath={.metadata.uid}") == uid
        assert (
            helm.kubectl("get", "slurmcluster", "slurm", "-o", "jsonpath={.spec.compute.nodes.cpu.enabled}") == "true"
        )
    finally:
        helm("uninstall", "slurm", "--ignore-not-found")
        helm("uninstall", release, "--ignore-not-found")
