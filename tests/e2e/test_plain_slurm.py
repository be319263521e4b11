"""Slurm out of the shipped image, in Pods, before any controller of ours: images and local cluster fit together."""

import secrets
from pathlib import Path

import pytest
from tests.conftest import Kubectl
from tests.e2e.pods import replaced
from tests.waiting import eventually

from sunk.local.kubernetes.cluster import LocalCluster

MANIFEST = Path(__file__).parent / "slurm.yaml"
AS_USER = ("setpriv", "--reuid=games", "--regid=games", "--clear-groups")
"""One that the image knows, so that slurmctld and every node do."""
LASTING = "trap 'exit 0' USR1; while sleep 1; do :; done"
"""A job that ends when it is told to, however long the rest takes."""


class Slurm:
    """Slurm's commands, run where slurmctld is."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def __call__(self, *command: str) -> str:
        return self.kubectl("exec", "slurm-controller-0", "--", *command)

    def idle(self) -> int:
        return len(self("sinfo", "--noheader", "-N", "-t", "idle", "-o", "%N").split())


@pytest.fixture
def slurm(kubectl: Kubectl) -> Slurm:
    kubectl("create", "secret", "generic", "slurm-key", f"--from-literal=slurm.key={secrets.token_hex(32)}")
    kubectl("apply", "-f", str(MANIFEST))
    kubectl("rollout", "status", "statefulset/slurm-controller", "--timeout=110s")
    kubectl("rollout", "status", "daemonset/slurmd", "--timeout=110s")
    found = Slurm(kubectl)
    eventually(lambda: found.idle() == 3)
    return found


def test_a_job_runs_on_three_nodes_and_lives_through_the_death_of_slurmctld(
    slurm: Slurm, cluster: LocalCluster
) -> None:
    said = slurm(*AS_USER, "srun", "-N3", "--gres=gpu:h100:8", "sh", "-c", "echo $SLURMD_NODENAME").split()
    assert sorted(said) == list(cluster.spec.node_names)

    slurm(*AS_USER, "sbatch", "--wrap", LASTING, "-N3", "--output=/dev/null")
    eventually(lambda: slurm("squeue", "--noheader", "-o", "%t").strip() == "R")
    replaced(slurm.kubectl, "slurm-controller-0")
    assert slurm("squeue", "--noheader", "-o", "%t %D").split() == ["R", "3"]

    def is_over() -> bool:
        slurm("sh", "-c", "scancel --batch --signal=USR1 --user=games || true")
        return slurm.idle() == 3

    eventually(is_over)
