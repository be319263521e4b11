"""A newer release of slurmctld takes over a cluster that runs."""

import pytest
from tests.e2e.slurmcluster.release import Release, on
from tests.e2e.slurmcluster.sides import BEGINS, begins
from tests.versions import SECOND

from sunk.local.artifacts import images
from sunk.local.kubernetes import cluster as clusters
from sunk.local.kubernetes.cluster import LocalCluster

pytestmark = pytest.mark.full

KINDS = ("cpu", "cpu", "cpu")
VALUES = {"accounting": {"enabled": False}, "compute": {"nodes": {"cpu": {"affinity": on("cpu")}}}}


@pytest.fixture(scope="module")
def newer(cluster: LocalCluster) -> str:
    """The release behind the default one, with its image on all Nodes."""
    clusters.load(cluster, images.archive("slurm", slurm=SECOND))
    return SECOND


def test_a_newer_slurmctld_takes_over_with_the_jobs_and_says_who_it_is(slurm: Release, newer: str) -> None:
    first = slurm.object()["status"]
    assert first["slurmVersion"].startswith(images.DEFAULT)
    job = slurm.submit(f"{BEGINS}; sleep 3600")
    slurm.runs(job)
    begins(slurm, slurm.job(job, "BatchHost"), job)
    nodes = slurm.pods("compute")

    slurm.install({"controller": {"image": {"tag": newer}}})
    slurm.ready()
    now = slurm.object()["status"]
    assert now["slurmVersion"].startswith(newer)
    # Slurm was asked again, though no line of its configuration is another.
    assert now["configWanted"] == now["configApplied"] != first["configApplied"]
    assert (slurm.job(job), slurm.job(job, "Restarts")) == ("RUNNING", "0")
    assert slurm.pods("compute") == nodes
    assert slurm("srun", "echo", "still").strip() == "still"
