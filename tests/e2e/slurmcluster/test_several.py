"""Several Slurm clusters on one Kubernetes do not know of each other, and one that goes leaves only what it has to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.conftest import no_traces
from tests.e2e.slurmcluster.release import LABEL, Release, on
from tests.helm import Helm
from tests.waiting import eventually

from sunk.model import names

pytestmark = pytest.mark.full

PLACES = {"red": 0, "blue": 0, "green": 1}
"""Clusters, and in which of the two namespaces each is."""


def lean(name: str) -> dict[str, object]:
    """Values of a cluster on the Nodes that are labelled with its name."""
    return {
        "accounting": {"enabled": False},
        "compute": {"nodes": {"cpu": {"affinity": on(name)}}},
    }


@pytest.fixture
def clusters(
    operator: Helm, spaces: tuple[Kubectl, Kubectl], nodes: tuple[str, ...], tmp_path: Path
) -> Iterator[dict[str, Release]]:
    """Three clusters with a Node each, two of them in one namespace."""
    made = {}
    for node, (name, place) in zip(nodes, PLACES.items(), strict=True):
        operator.kubectl("label", "node", node, f"{LABEL}={name}", "--overwrite")
        helm = Helm(operator.program, spaces[place])
        made[name] = Release(helm, name, tmp_path, lean(name))
        made[name].install()
    for one in made.values():
        one.ready()
    yield made
    for one in made.values():
        if one.helm("list", "--short", "--filter", f"^{one.name}$").split():
            one.uninstall()


def test_clusters_side_by_side_and_one_that_goes(clusters: dict[str, Release]) -> None:
    for name, one in clusters.items():
        assert one("sinfo", "--noheader", "-o", "%P").split() == ["all*", "cpu"]
        assert one("srun", "hostname").startswith(f"{name}-cpu-")
        assert f"ClusterName             = {name}" in one("scontrol", "show", "config")

    staying = clusters["blue"].submit("sleep 3600"), clusters["green"].submit("sleep 3600")
    clusters["blue"].runs(staying[0])
    clusters["green"].runs(staying[1])
    gone = clusters["red"]
    gone.uninstall()
    chosen = f"{names.CLUSTER}=red"
    eventually(lambda: not gone.kubectl("get", "pods,nodesets,nodeslices,configmaps", "-l", chosen, "-o", "name"))
    kept = gone.kubectl("get", "persistentvolumeclaims,secrets", "-l", chosen, "-o", "name").split()
    assert kept == ["persistentvolumeclaim/red-controller-state", "secret/red-auth-slurm"]
    assert not gone.kubectl("get", "nodes", "-l", chosen, "-o", "name")
    assert clusters["blue"].job(staying[0]) == clusters["green"].job(staying[1]) == "RUNNING"

    key = gone.kubectl("get", "secret", "red-auth-slurm", "-o", "jsonpath={.data}")
    gone.install()
    gone.ready()
    assert gone.kubectl("get", "secret", "red-auth-slurm", "-o", "jsonpath={.data}") == key
    assert gone("srun", "hostname").startswith("red-cpu-")

    for one in clusters.values():
        one.uninstall()
    no_traces(gone.kubectl)


def test_a_cluster_grows_with_its_nodes_and_with_its_replicas(
    operator: Helm, nodes: tuple[str, ...], tmp_path: Path
) -> None:
    grows = Release(operator, "grows", tmp_path, lean("grows"))
    operator.kubectl("label", "nodes", *nodes, f"{LABEL}-")
    try:
        grows.install({"compute": {"nodes": {"cpu": {"enabled": False}}}})
        grows.ready()
        assert grows("sinfo").startswith("PARTITION")
        assert "TotalNodes=0" in grows("scontrol", "show", "partition", "all")

        for node in nodes:
            operator.kubectl("label", "node", node, f"{LABEL}=grows", "--overwrite")
        grows.install({"compute": {"nodes": {"cpu": {"replicas": 1}}}})
        eventually(lambda: len(grows.idle()) == 1)
        job = grows.submit("sleep 3600")
        grows.runs(job)
        grows.install()
        eventually(lambda: len(grows.idle()) == len(nodes) - 1)
        assert grows.job(job) == "RUNNING"
        assert len(set(grows("srun", "-N3", "hostname").split())) == len(nodes)
    finally:
        grows.uninstall()
